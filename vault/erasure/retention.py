"""What people do about retention: ask why something is there, see what is due, sweep, take back an expiry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us, to_us
from vault.erasure.changing import settle
from vault.erasure.expire import expire
from vault.erasure.facts import gather, terms_of
from vault.erasure.fence import keys_of, stored_session
from vault.erasure.operations import INCOMPLETE
from vault.erasure.planning import active_holds
from vault.erasure.service import resume
from vault.erasure.staying import staying
from vault.erasure.sweep import due, sweep
from vault.erasure.watch import Watch
from vault.errors import Conflict, InvalidInput, NotFound, Tampered
from vault.model import parse_id, session_bytes
from vault.policy import terms as retention
from vault.policy.durations import US_MAX
from vault.policy.retention import Times, decide, explain
from vault.sealing import rows
from vault.sessions.log import due_hour

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from vault.access.door import Leave
    from vault.erasure.operations import Operation
    from vault.erasure.service import Parts
    from vault.erasure.sweep import Due
    from vault.policy.retention import Decision, Stay
    from vault.ports.records import SessionRow, Transaction
    from vault.sealing.uses import TenantKeys

_ABSENT = "there is no such session or item"
#: The type of the entry in the audit trail that says which date was set from outside.
DATED: Final = "retention.dated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something is still there, and when it goes; ``text`` is for a person.

    ``stays`` says in a word why it is not taken although it is due: ``hold``, ``minimum`` or ``fork`` of
    what came from it, whose id is ``because_of`` where it may be named; ``newer_version``, ``review``,
    ``over_cap`` or ``being_erased``. None when nothing keeps it from the next sweep.
    """

    text: str
    state: str
    visible: bool
    expires_at: datetime | None
    erased_from: datetime | None
    holds: int
    stays: str | None = None
    because_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one sweep did for one tenant, or would do.

    Attributes:
        going: sessions and items that went, or would go.
        held: that a hold or a minimum keeps.
        review: that wait for a person, as their policy says so.
        over_cap: it is more than its share of what is live: nothing goes without the token.
        token: of this very set under this policy.
        operations: how many erasures it took; 0 for a preview.
        unfinished: of these, the ones that a store keeps from being finished.
        shared: due too, and shared by forks: they go once those have taken over what they share; where they
            cannot, they stay as long as those.
        epochs: events that expired while their sessions live on, by the hour and session.
    """

    going: int
    held: int
    review: int
    over_cap: bool
    token: str
    operations: int = 0
    unfinished: int = 0
    shared: int = 0
    epochs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the sweeper works: when it last came to its end, and how late the oldest due thing is."""

    last_sweep: datetime | None
    working: bool
    unfinished: int


class Retention:
    """The retention of one tenant."""

    def __init__(self, parts: Parts, leave: Leave) -> None:
        """Made by ``Vault.access``."""
        self._parts, self._leave = parts, leave

    def explain(self, id: str) -> Explanation:
        """Why a session or derived item is still there, and when it will go.

        Raises:
            NotFound: there is none for this principal.
        """
        raw = next((found for kind in ("ses", "mem", "art") if (found := parse_id(kind, id))), None)
        if raw is None:
            raise NotFound(_ABSENT)
        tenant, owner = self._mine()
        now_us, holds = self._parts.log.clock.now_us(), active_holds(self._parts.store, tenant)
        with self._parts.log.records.snapshot() as reader:
            node = gather(reader, tenant, [raw], holds, now_us, self._parts.spared(tenant)).get(raw)
            if node is None or owner not in {None, node.owner}:
                raise NotFound(_ABSENT)
            terms, times = terms_of(reader, tenant.tenant_id, raw)
        decision = decide(terms, times, held=bool(node.held), now_us=now_us)
        due_now = decision.state == "DUE"
        stay = staying(self._parts, tenant, raw, owner, now_us) if due_now else None
        text = explain(decision, terms, self._parts.policies.active(tenant), now_us, stay)
        return _explanation(decision, text, len(node.held), stay)

    def preview(self) -> Sweep:
        """What a sweep would do now, and the token that stands for it.

        Raises:
            NotFound: no leave.
        """
        tenant = self._leave.tenant("retain").tenant
        found = next(due(self._parts, tenant.tenant_id), None)
        return _NOTHING if found is None else _sweep(found, [])

    def run(self, *, token: str | None = None, progress: Callable[[int, int], None] | None = None) -> Sweep:
        """Sweep this tenant now; ``token``, of a preview, for what is over the cap.

        Raises:
            NotFound: no leave.
            Busy: another process sweeps.
            ClockAnomaly: the clock jumped.
            Conflict: the token is of another set than is due now.
        """
        tenant = self._leave.tenant("retain").tenant
        if token is not None and self.preview().token != token:
            raise Conflict("what is due has changed since that preview; look at a new one")
        swept = list(sweep_all(self._parts, tenant_id=tenant.tenant_id, approved=token, progress=progress))
        return swept[0] if swept else _NOTHING

    def undo(self, session_id: str) -> None:
        """Take back the expiry of a session that can still be restored; it lives for its whole period again.

        Raises:
            NotFound: there is none for this principal, or it can not be restored any more.
        """
        raw = session_bytes(session_id)
        tenant, owner = self._mine()
        now_us = self._parts.log.clock.now_us()

        def restored(row: SessionRow) -> bytes:
            terms = retention.decode(row.retention)
            decision = decide(terms, _times(row), held=False, now_us=now_us)
            if terms.requested_us or decision.visible or decision.state == "DUE":
                raise NotFound("this session did not expire, or cannot be restored any more")
            return retention.encode(terms._replace(restored_us=now_us))

        self._bound(tenant, owner, raw, restored)

    def _bound(
        self, tenant: TenantKeys, owner: bytes | None, raw: bytes, kept: Callable[[SessionRow], bytes]
    ) -> None:
        """Bind a session, of anybody or of an owner, by other terms.

        Raises:
            NotFound: there is none; or what ``kept`` finds.
        """

        def work(transaction: Transaction) -> SessionRow:
            row = stored_session(transaction, tenant, raw)
            keys = None if row is None else keys_of(self._parts.log, tenant, row)
            if row is None or keys is None or owner not in {None, row.owner} or row.state == "erasing":
                raise NotFound(_ABSENT)
            after = row._replace(retention=kept(row), version=row.version + 1)
            after = after._replace(due_hour=due_hour(after))
            after = after._replace(mac=rows.session_mac(keys.mac, after))
            if not transaction.move_session(after, row):
                raise Tampered("the database does not take a session's new state: its rules were changed")
            transaction.heads[raw] = after
            return after

        self._parts.log.records.transact(work)
        self._parts.log.appended(raw, 0)

    def date(self, session_id: str, at: datetime | None) -> Explanation:
        """Set the date that a rule with ``anchor = "external"`` counts from: the end of a contract, say.

        It replaces the one that was set before, may lie in the past, and stands in the audit trail. What is
        over by it is hidden at once, and goes by the sweep like anything else. Also for a session whose rule
        counts from another clock: a later policy may ask for it, and the answer says what binds it now.

        Args:
            session_id: of a session of the tenant.
            at: a time with its zone, from 1970 to 100 years from now; None takes the date back.

        Returns:
            What ``explain`` says from then on.

        Raises:
            NotFound: there is no such session, or it is due already; or no leave.
            InvalidInput: not such a time.
        """
        grant, raw = self._leave.tenant("retain"), session_bytes(session_id)
        at_us = 0 if at is None else _checked_date(at, self._parts.log.clock.now_us())

        def dated(row: SessionRow) -> bytes:
            terms, now_us = retention.decode(row.retention), self._parts.log.clock.now_us()
            if decide(terms, _times(row), held=False, now_us=now_us).state == "DUE":
                raise NotFound(_ABSENT)  # else a date would bring back what is over
            return retention.encode(terms._replace(external_us=at_us))

        with self._parts.log.records.snapshot() as reader:
            found = stored_session(reader, grant.tenant, raw)
            if found is None or found.state == "erasing" or found.owner == self._parts.spared(grant.tenant):
                raise NotFound(_ABSENT)
            dated(found)
        # First the trail: a date that counts is on record, whatever happens in between.
        self._parts.trail.write(grant.tenant, DATED, grant.who, raw, {"at_us": at_us or None})
        self._bound(grant.tenant, None, raw, dated)
        return self.explain(session_id)

    def trust_clock(self) -> None:
        """Say that the machine's clock is right, after it jumped; sweeps go on.

        Raises:
            NotFound: no leave.
        """
        self._leave.tenant("retain")
        Watch(log=self._parts.log).released()

    def health(self) -> Health:
        """Whether the sweeper of this vault works.

        Raises:
            NotFound: no leave.
        """
        self._leave.tenant("retain")
        seen = Watch(log=self._parts.log).seen()
        with self._parts.log.records.snapshot() as reader:
            unfinished = sum(1 for _ in reader.scan("unfinished_operations"))
        return Health(
            last_sweep=from_us(seen.ticked_us) if seen.ticked_us else None,
            working=seen.until_us > self._parts.log.clock.now_us(),
            unfinished=unfinished,
        )

    def _mine(self) -> tuple[Any, bytes | None]:
        """The tenant, and whose it must be: anybody's for an officer."""
        try:
            return self._leave.tenant("retain").tenant, None
        except NotFound:
            grant = self._leave("read")
            return grant.tenant, grant.owner


def sweep_all(
    parts: Parts,
    *,
    tenant_id: bytes | None = None,
    approved: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Sweep]:
    """One sweep over a tenant, or over all.

    First what was left unfinished, then policies that come into force, then what is due.

    Raises:
        Busy: another process sweeps.
        ClockAnomaly: the clock jumped; nothing was erased.
        Tampered: a tenant's audit trail was changed, so its policy is not known.
    """
    watch = Watch(log=parts.log).taken()
    try:
        for _ in resume(parts):
            pass
        wrong = settle(parts, watch, tenant_id)
        found = sweep(parts, watch, tenant_id=tenant_id, approved=approved, progress=progress)
        swept = [_sweep(one, operations) for one, operations in found]
        gone = expire(parts, watch, tenant_id)
        if gone:
            swept.append(replace(_NOTHING, epochs=sum(gone.values())))
        if wrong is not None:  # what was due went all the same
            raise wrong
        return swept
    finally:
        watch.done()


_NOTHING = Sweep(going=0, held=0, review=0, over_cap=False, token="")


def _sweep(found: Due, operations: list[Operation]) -> Sweep:
    return Sweep(
        going=found.going,
        held=sum(item.action in {"held", "minimum"} for item in found.plan.items),
        shared=sum(item.reason == "shared_by_fork" for item in found.plan.items),
        review=found.review,
        over_cap=found.over_cap,
        token=found.token,
        operations=len(operations),
        unfinished=sum(operation.row.state == INCOMPLETE for operation in operations),
    )


def _times(row: SessionRow) -> Times:
    return Times(row.created_us, row.updated_us, row.ended_us)


def _checked_date(at: datetime, now_us: int) -> int:
    """A date from outside, in microseconds.

    Raises:
        InvalidInput: it cannot be one.
    """
    at_us = to_us(at)
    if not 0 < at_us <= now_us + US_MAX:
        raise InvalidInput("a date from outside lies between 1970 and 100 years from now")
    return at_us


def _explanation(decision: Decision, text: str, holds: int, stay: Stay | None) -> Explanation:
    def at(us: int | None) -> datetime | None:
        return None if us is None else from_us(us)

    return Explanation(
        text=text,
        state=decision.state,
        visible=decision.visible,
        expires_at=at(decision.expires_us),
        erased_from=at(decision.delete_at_us),
        holds=holds,
        stays=None if stay is None else stay.why,
        because_of=None if stay is None else stay.name or None,
    )
