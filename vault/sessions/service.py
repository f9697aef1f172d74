"""A principal's sessions: create, resume, latest, find, fork, wake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vault.encoding import canonical_json
from vault.errors import Conflict, Erased, InvalidInput, NotFound, SessionEnded
from vault.model import (
    LABELS_MAX,
    TITLE_LENGTH_MAX,
    Page,
    check_name,
    session_bytes,
    uuid7,
)
from vault.policy.drift import normalised
from vault.policy.lease import decode, refuse_outsider
from vault.policy.recovery import DEFAULT
from vault.ports.records import SessionRow
from vault.sealing import rows
from vault.sealing.payload import seal
from vault.sessions.find import find, find_of_tenant
from vault.sessions.fork import base_of, check_still_there
from vault.sessions.log import Tails, due_hour, hour_of, is_live, open_about
from vault.sessions.read import verified_view
from vault.sessions.session import Session
from vault.sessions.wake import pinned_config, wake
from vault.sessions.witness import head_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault.access.door import Grant, Leave
    from vault.policy.drift import Policy
    from vault.policy.recovery import Reducer, Trigger
    from vault.ports.records import Transaction
    from vault.sessions.fork import Base
    from vault.sessions.log import Log
    from vault.sessions.wake import Woken

#: Characters of the summary that a new session begins with.
SUMMARY_LENGTH_MAX = 100_000
#: What a fork takes over from the session that it forks.
_INHERITED = ("title", "config", "config_document")
_STATES = frozenset({"active", "ended"})


class Sessions:
    """The sessions of one principal."""

    def __init__(self, log: Log, authorise: Leave) -> None:
        """Made by ``Vault.access``; ``authorise`` gives leave for one action at a time."""
        self._log, self._authorise = log, authorise

    def create(
        self,
        *,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        config: str | None = None,
        config_document: Mapping[str, Any] | None = None,
        external_id: str | None = None,
        parent: str | None = None,
        again: bool = False,
    ) -> Session:
        """A new, empty session.

        Args:
            title: up to 1,000 characters, for people.
            labels: up to 32 names and values of up to 256 characters, to find it by.
            config: the agent's configuration that it is made under, for example ``analyst@12``.
            config_document: what that is: ``tools``, ``instructions`` or their ``instructions_sha256``,
                ``model``, and anything else as JSON; up to 256 KiB. ``wake`` compares it.
            external_id: the caller's own id for it, unique among the owner's sessions.
            parent: the session of the same owner that it goes on from.
            again: also under the external id of a session that was erased.

        Raises:
            InvalidInput: something cannot be stored as given.
            Conflict: the owner has a session with this external id.
            Erased: the owner's session with this external id was erased.
            NotFound: there is no such parent for this principal.
        """
        grant = self._authorise("create")
        about = _checked_about(title, labels, config, external_id)
        if external_id is not None and not again:
            self._refuse_erased(grant, grant.tenant.blind("external", external_id))
        if config_document is not None:
            normalised(config_document)
            about["config_document"] = config_document
        if parent is not None:
            about["parent"] = self.resume(parent).id
        return self._added(grant, about, None)

    def fork(
        self,
        session_id: str,
        *,
        at: str | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        external_id: str | None = None,
    ) -> Session:
        """A new session that shares a session's log up to an event; the original is untouched.

        Nothing is copied: reading the fork reads what it shares where it stands. The talk goes back to the
        fork point, the world does not: effects stay done in all branches, and the fork's ``info`` lists what
        happened to the world since.

        Args:
            session_id: the session to fork, one's own or one that is shared in full, with leave to fork it; a
                fork can be forked again, 64 deep.
            at: the last event that is shared; the newest one when left out.
            title, labels, external_id: the fork's own, as in ``create``; its title is the original's when
                left out.

        Raises:
            NotFound: there is no such session for this principal, or ``at`` is no event of it.
            InvalidInput: the session has no event yet, or shares what the principal may not read in full.
        """
        asked = session_bytes(session_id)
        reading = self._authorise.session("fork", asked)
        base = base_of(self._log, reading, asked, at)
        grant = self._authorise("create")
        with verified_view(self._log, reading, asked) as found:
            original = open_about(found.keys, found.row)
        if not reading.own:
            original = self._log.viewer.about(reading, asked, original)
        about: dict[str, Any] = {name: original[name] for name in _INHERITED if name in original}
        about |= _checked_about(title, labels, None, external_id)
        about |= {"parent": session_id, "fork": base.document}
        return self._added(grant, about, base)

    def wake(
        self,
        session_id: str,
        *,
        config: str | None = None,
        config_document: Mapping[str, Any] | None = None,
        on_drift: Policy = "ask",
        lease_seconds: float = 30,
        wait: float | None = None,
        checkpoints: Trigger | None = None,
        reducer: Reducer = DEFAULT,
    ) -> Woken:
        """All that a fresh process needs to go on with a session, and the lease to do it.

        Args:
            session_id: the session.
            config, config_document: the agent's configuration of now, as in ``create``; nothing is compared
                when both are left out.
            on_drift: when it is another one: go on under the ``old`` or the ``new`` one, or ``ask``.
            lease_seconds, wait, checkpoints, reducer: as in ``Session.run``.

        Raises:
            NotFound: there is no such session for this principal.
            Busy: another run is active, and did not end while this one waited.
            ConfigDrift: the configuration is another one, and ``on_drift`` is ``ask``.
            Diverged: a replay gives another state than a checkpoint holds.
        """
        asked = session_bytes(session_id)
        row = self._row_of(self._authorise.session("read", asked, recorded=False), asked)
        return wake(
            self._log,
            self._authorise.of(row.session_id, row.owner),
            row,
            config=config,
            config_document=config_document,
            on_drift=on_drift,
            lease_seconds=lease_seconds,
            wait=wait,
            trigger=checkpoints or self._log.trigger,
            reducer=reducer,
        )

    def restart(self, session_id: str, summary: str) -> Session:
        """A new session that begins with a summary of an old one; each names the other.

        Raises:
            NotFound: there is no such session for this principal.
            Busy: a run is active in the old one.
            SessionEnded: the old one takes no more events.
            InvalidInput: the summary is empty or too long.
        """
        old = self.resume(session_id)
        check_name(summary, "a summary", SUMMARY_LENGTH_MAX)
        about, reading = old.info(), self._authorise("read")
        with verified_view(self._log, reading, session_bytes(session_id)) as found:
            # Before the new one is made, which nobody would find otherwise.
            if found.row.state != "active":
                raise SessionEnded
            refuse_outsider(decode(found.row.lease), self._log.clock.now_us())
        config, document = pinned_config(self._log, reading, session_bytes(session_id))
        new = self.create(
            title=about.title,
            labels=about.labels,
            config=config,
            config_document=document,
            parent=session_id,
        )
        new.append("message.system", {"content": summary})
        old.append("session.restarted", {"as": new.id})
        return new

    def _added(self, grant: Grant, about: dict[str, Any], base: Base | None) -> Session:
        row = self._new_row(grant, about, base)
        indexes = [grant.tenant.blind("label", *label) for label in about.get("labels", {}).items()]

        def work(transaction: Transaction) -> SessionRow:
            taken = row.external and transaction.session_by_external(row.external, row.tenant_id, row.owner)
            if taken and not is_live(taken, self._log.clock.now_us()):
                raise Conflict(
                    "a session with this external id expired and is not swept yet; take another id, or wait"
                )
            if taken:
                raise Conflict("there is a session with this external id already; resume it instead")
            if base is not None:
                check_still_there(self._log, base, transaction)
            stored = row._replace(no=transaction.add_session(row, indexes))
            transaction.heads[row.session_id] = stored
            return stored

        stored = self._log.records.transact(work)
        self._log.witness.saw([head_of(stored)])
        self._log.appended(stored.session_id, 0)
        return self._handle(stored)

    def resume(self, session_id: str) -> Session:
        """The session of this id, ready to read and append.

        Raises:
            NotFound: it does not exist or is somebody else's; both answer alike.
            Tampered: it was changed, removed or rolled back.
        """
        asked = session_bytes(session_id)
        return self._opened(self._authorise.session("read", asked, recorded=False), asked)

    def resume_external(self, external_id: str) -> Session:
        """The session under the caller's own id.

        Raises:
            Erased: it was erased; `create` with ``again`` begins a new one under this id.
            As ``resume``.
        """
        grant = self._authorise("read", recorded=False)
        external = grant.tenant.blind("external", check_name(external_id, "an external id"))
        with self._log.records.snapshot() as reader:
            row = reader.session_by_external(external, grant.tenant.tenant_id, grant.owner)
        if row is None or row.state == "erasing":
            self._refuse_erased(grant, external)
            raise NotFound("there is no such session")
        return self._opened(grant, row.session_id, external)

    def latest(self, *, labels: Mapping[str, str] | None = None) -> Session:
        """The session that was used last, among those with these labels: the one to continue.

        Raises:
            NotFound: there is none.
        """
        page = find(self._log, self._authorise("read"), _checked_labels(labels or {}), "active", 1, None)
        if not page.items:
            raise NotFound("there is no such session")
        return self.resume(page.items[0].id)

    def find(
        self,
        *,
        subject: str | None = None,
        labels: Mapping[str, str] | None = None,
        state: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        """A page of sessions, last used first, each with what a person recognises it by.

        One's own; of who has none and may list those of the tenant, as support, auditor and privacy officer:
        all of these, each as that role sees it. Each page of others' sessions is recorded in the audit trail.

        Args:
            subject: only this one's sessions.
            labels: only sessions with all of these; of one's own only.
            state: only ``active`` or ``ended`` ones.
            limit: 1 to 500.
            cursor: ``next_cursor`` of the page before.

        Raises:
            InvalidInput: a filter is malformed.
            Tampered: a listed session was changed or rolled back.
        """
        if state is not None and state not in _STATES:
            raise InvalidInput("state is active or ended")
        wanted = _checked_labels(labels or {})
        try:
            grant = self._authorise.listing(subject)
        except NotFound:
            return Page(items=(), next_cursor=None)  # a new tenant, or no leave: both look empty
        if grant.own:
            return find(self._log, grant, wanted, state, limit, cursor)
        if wanted:
            raise InvalidInput("labels narrow a list of one's own sessions; give a subject or a state")

        def leave(session_id: bytes) -> Grant:
            return self._authorise.session("list", session_id, recorded=False)  # the page is

        return find_of_tenant(self._log, grant, leave, subject, state, limit, cursor)

    def _new_row(self, grant: Grant, about: dict[str, Any], base: Base | None) -> SessionRow:
        session_id, now = uuid7(), self._log.clock.now_us()
        if base:
            now = max(now, base.recorded_us)  # times never go back in a log, by which events are found
        keys = self._log.keys.create_epoch(grant.tenant, grant.owner, session_id, 0)
        external = about.get("external_id")
        row = SessionRow(
            no=0,
            session_id=session_id,
            tenant_id=grant.tenant.tenant_id,
            owner=grant.owner,
            external=None if external is None else grant.tenant.blind("external", external),
            state="active",
            version=1,
            epoch=0,
            head_seq=base.seq if base else 0,
            head_chain=b"",
            tails=Tails({}, b"", 0, 0, 0, {}).encoded(),
            created_us=now,
            updated_us=now,
            used_hour=hour_of(now),
            ended_us=0,
            lease=b"",
            forked_from=base.session_id if base else None,
            base_seq=base.seq if base else 0,
            base_chain=base.chain if base else b"",
            retention=self._log.retention(grant, "session", about.get("labels", {})),
            due_hour=0,
            renewed=b"",
            about=seal(keys.payload, keys.context(b"about"), canonical_json(about), self._log.sealing),
            mac=b"",
        )
        row = row._replace(head_chain=rows.start_of(row), due_hour=due_hour(row))
        return row._replace(mac=rows.session_mac(keys.mac, row))

    def _refuse_erased(self, grant: Grant, external: bytes) -> None:
        """Who writes late under the id of a session that was erased does not begin a new one by it."""
        if self._log.keys.is_buried(grant.owner, external):
            raise Erased("the session with this external id was erased; it can only be begun anew on purpose")

    def _row_of(self, grant: Grant, session_id: bytes) -> SessionRow:
        with verified_view(self._log, grant, session_id) as found:
            return found.row

    def _opened(self, grant: Grant, session_id: bytes, external: bytes | None = None) -> Session:
        row = self._row_of(grant, session_id)
        if external is not None and row.external != external:
            raise NotFound("there is no such session")
        return self._handle(row)

    def _handle(self, row: SessionRow) -> Session:
        return Session(self._log, self._authorise.of(row.session_id, row.owner), row)


def _checked_about(
    title: str | None, labels: Mapping[str, str] | None, config: str | None, external_id: str | None
) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if title is not None:
        about["title"] = check_name(title, "a title", TITLE_LENGTH_MAX)
    if labels:
        about["labels"] = _checked_labels(labels)
    if config is not None:
        about["config"] = check_name(config, "a config")
    if external_id is not None:
        about["external_id"] = check_name(external_id, "an external id")
    return about


def _checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    if len(labels) > LABELS_MAX:
        raise InvalidInput(f"a session has at most {LABELS_MAX} labels")
    return {check_name(k, "a label's name"): check_name(v, "a label's value") for k, v in labels.items()}
