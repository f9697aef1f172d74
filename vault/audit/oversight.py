"""What people do about access: share and revoke, break glass, look at the trail, find who a pseudonym is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from vault.audit.trail import ASKED, BROKEN, GIVEN, MENDED, REVEALED, REVOKED, share_of
from vault.clock import from_us, to_us
from vault.errors import Conflict, InvalidInput, NotFound
from vault.model import LEVELS, check_name, session_bytes
from vault.policy.access import FULL_ACTIONS, SHARED_ACTIONS
from vault.sessions.find import summary
from vault.sessions.read import verified_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from vault.access.door import Grant, Leave
    from vault.audit.trail import AuditTrail, Entry
    from vault.model import SessionSummary
    from vault.sealing.uses import TenantKeys
    from vault.sessions.log import Log
    from vault.sessions.viewing import Viewer

REASON_LENGTH_MAX: Final = 1_000
GLASS_MINUTES_MAX: Final = 60  # retention.md §5: at most an hour for one reason
ENTRIES_MAX: Final = 10_000  # of the trail in one answer
_MINUTE_US: Final = 60_000_000
_TEAM: Final = "team:"


class Grants:
    """What the owner of a session shares of it, and what is shared with somebody."""

    def __init__(self, log: Log, leave: Leave, trail: AuditTrail) -> None:
        """Made by ``Vault.access``."""
        self._log, self._leave, self._trail = log, leave, trail

    def give(
        self,
        session_id: str,
        to: str,
        *,
        level: str = "L1",
        may: Iterable[str] = (),
        until: datetime | None = None,
    ) -> Entry:
        """Share a session with a subject, or a team (``team:NAME``); a later share replaces an earlier one.

        Args:
            session_id: one's own session.
            to: the subject or team.
            level: the highest view, ``L0`` to ``L3``.
            may: beside reading: ``append``, which allows to run and wake the session too; ``fork``, with L3
                only.
            until: when it ends by itself; None: when it is revoked.

        Raises:
            NotFound: not one's own session, or no leave to share it.
            InvalidInput: a level, an action or a time that is none.
        """
        asked, grant = self._own(session_id)
        if level not in LEVELS:
            raise InvalidInput("a level is one of L0, L1, L2, L3")
        asked_for = list(may) if isinstance(may, Iterable) else [may]
        if isinstance(may, str) or any(action not in SHARED_ACTIONS for action in asked_for):
            raise InvalidInput(f"beside reading, what can be shared is a list of {', '.join(SHARED_ACTIONS)}")
        allowed = sorted(set(asked_for))
        if level != LEVELS[-1] and any(action in FULL_ACTIONS for action in allowed):
            raise InvalidInput("a fork goes on from all that a session holds: share it at L3 to allow forks")
        until_us = None if until is None else to_us(until)
        if until_us is not None and until_us <= self._log.clock.now_us():
            raise InvalidInput("a share ends in the future; leave until out to end it by revoking")
        whom = _whom(grant.tenant, to)
        said = {"to": whom.hex(), "level": level, "may": allowed, "until_us": until_us}
        return self._trail.write(grant.tenant, GIVEN, grant.who, asked, said, about=("share", whom))

    def revoke(self, session_id: str, to: str) -> Entry:
        """Take back what was shared; whoever follows the session is stopped within a second.

        Raises:
            NotFound: not one's own session, or nothing is shared with them.
        """
        asked, grant = self._own(session_id)
        whom = _whom(grant.tenant, to)
        before = self._trail.newest(grant.tenant, "share", asked, whom)
        if before is None or before.what != GIVEN:
            raise NotFound("nothing of this session is shared with them")
        return self._trail.write(
            grant.tenant, REVOKED, grant.who, asked, {"to": whom.hex()}, about=("share", whom)
        )

    def of(self, session_id: str) -> list[Entry]:
        """What is shared of one's own session now, the newest entry of each subject or team."""
        asked, grant = self._own(session_id)
        return [
            entry for entry in self._current(grant.tenant) if session_bytes(entry.session_id or "") == asked
        ]

    def to_me(self, teams: Iterable[str] = ()) -> list[SessionSummary]:
        """The sessions that are shared with this principal now, as it may see them."""
        try:
            grant = self._leave("list")
        except NotFound:
            return []
        mine = {grant.who.hex(), *(grant.tenant.team(team).hex() for team in teams)}
        shown: dict[bytes, SessionSummary] = {}
        for entry in self._current(grant.tenant):
            if entry.said["to"] in mine and entry.session_id is not None:
                asked = session_bytes(entry.session_id)
                try:
                    shown[asked] = summary(self._log, self._leave.session("list", asked), asked)
                except NotFound:
                    continue
        return list(shown.values())

    def _own(self, session_id: str) -> tuple[bytes, Grant]:
        asked = session_bytes(session_id)
        grant = self._leave.session("share", asked)
        if not grant.own:
            raise NotFound("there is no such session")
        with verified_view(self._log, grant, asked):
            return asked, grant  # it is there

    def _current(self, tenant: TenantKeys) -> list[Entry]:
        newest: dict[tuple[str, str], Entry] = {}
        for entry in self._trail.entries(tenant, types=(GIVEN, REVOKED), limit=ENTRIES_MAX):
            newest[str(entry.session_id), entry.said["to"]] = entry
        now_us = self._log.clock.now_us()
        return [e for e in newest.values() if e.what == GIVEN and share_of(e).holds(now_us)]


class BreakGlass:
    """Full view of a session for a reason and a time, loudly audited; by policy with a second person."""

    def __init__(self, log: Log, leave: Leave, trail: AuditTrail, *, second_person: bool) -> None:
        """Made by ``Vault.access``."""
        self._log, self._leave, self._trail, self._second = log, leave, trail, second_person

    def request(self, session_id: str, reason: str, *, minutes: int = 30) -> Entry:
        """Ask for it; without a second person by policy, it is open at once.

        Args:
            session_id: a session of the principal's tenant.
            reason: why, for whoever looks at the trail; up to 1,000 characters.
            minutes: how long, 1 to 60, from when it is opened.

        Raises:
            NotFound: there is no such session, or no leave to ask.
            InvalidInput: no reason, or a time out of range.
        """
        if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= GLASS_MINUTES_MAX:
            raise InvalidInput(f"break-glass access lasts 1 to {GLASS_MINUTES_MAX} minutes")
        check_name(reason, "a reason", REASON_LENGTH_MAX)
        asked = session_bytes(session_id)
        grant = self._leave.session("request_break_glass", asked)
        said: dict[str, Any] = {"reason": reason, "minutes": minutes}
        entry = self._trail.write(grant.tenant, ASKED, grant.who, asked, said, about=("glass", grant.who))
        return entry if self._second else self._open(grant, asked, grant.who, said)

    def approve(self, session_id: str, who: str) -> Entry:
        """Open it for somebody who asked: a name, or the blind index that the trail shows.

        Raises:
            NotFound: nobody of that name asked for this session, or no leave to approve.
            Conflict: one's own request; a second person is somebody else.
        """
        asked, grant = session_bytes(session_id), self._leave.tenant("approve_break_glass")
        whom = _index_of(grant.tenant, who)
        before = self._trail.newest(grant.tenant, "glass", asked, whom)
        if before is None or before.what != ASKED:
            raise NotFound("there is no open request for this session")
        if whom == grant.who:
            raise Conflict("a second person is somebody else than who asked")
        return self._open(grant, asked, whom, before.said)

    def end(self, session_id: str, who: str | None = None) -> Entry:
        """Close it before its time: one's own, or, with leave to approve, somebody else's."""
        asked = session_bytes(session_id)
        if who is None:
            grant = self._leave.session("request_break_glass", asked)
            whom = grant.who
        else:
            grant = self._leave.tenant("approve_break_glass")
            whom = _index_of(grant.tenant, who)
        before = self._trail.newest(grant.tenant, "glass", asked, whom)
        if before is None or before.what == MENDED:
            raise NotFound("there is no break-glass access to close")
        return self._trail.write(
            grant.tenant, MENDED, grant.who, asked, {"for": whom.hex()}, about=("glass", whom)
        )

    def _open(self, grant: Grant, asked: bytes, whom: bytes, said: dict[str, Any]) -> Entry:
        until_us = self._log.clock.now_us() + said["minutes"] * _MINUTE_US
        opened = {"for": whom.hex(), "reason": said["reason"], "until_us": until_us}
        return self._trail.write(grant.tenant, BROKEN, grant.who, asked, opened, about=("glass", whom))


class Audit:
    """The trail, for who may look at it."""

    def __init__(self, log: Log, leave: Leave, trail: AuditTrail, viewer: Viewer) -> None:
        """Made by ``Vault.access``."""
        self._log, self._leave, self._trail, self._viewer = log, leave, trail, viewer

    def entries(
        self,
        *,
        who: str | None = None,
        session_id: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = 100,
    ) -> Iterator[Entry]:
        """Entries of the tenant's trail, the newest first.

        Args:
            who: only of this subject, by name or by the blind index that an entry shows.
            session_id: only about this session.
            types: only these.
            limit: how many entries are looked at, 1 to 10,000.

        Raises:
            NotFound: no leave to look.
            InvalidInput: a limit out of range.
        """
        grant = self._leave.tenant("audit")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= ENTRIES_MAX:
            raise InvalidInput(f"limit is a whole number from 1 to {ENTRIES_MAX}")
        of = None if who is None else _index_of(grant.tenant, who).hex()
        for entry in self._trail.entries(grant.tenant, types=types, newest_first=True, limit=limit):
            if of in {None, entry.who} and session_id in {None, entry.session_id}:
                yield self._trail.without_names(entry)

    def reveal(self, session_id: str, pseudonym: str, reason: str) -> str | None:
        """The value behind a pseudonym of a session's view, if the session's records name it; audited.

        Raises:
            NotFound: no leave to reveal, or no such session.
            InvalidInput: no reason.
        """
        check_name(reason, "a reason", REASON_LENGTH_MAX)
        asked, grant = session_bytes(session_id), self._leave.tenant("reveal")
        with_session = self._leave.session("read", asked, recorded=False)
        said = {"pseudonym": check_name(pseudonym, "a pseudonym"), "reason": reason}
        self._trail.write(grant.tenant, REVEALED, grant.who, asked, said)
        candidates = self._viewer.candidates(with_session, asked)
        return self._viewer.pseudonyms(with_session).reveal(pseudonym, candidates)


def ends_at(entry: Entry) -> datetime | None:
    """When a share or a break-glass access ends by itself."""
    until_us = entry.said.get("until_us")
    return None if until_us is None else from_us(until_us)


def _whom(tenant: TenantKeys, to: str) -> bytes:
    check_name(to, "whom to share with")
    if not to.startswith(_TEAM):
        return tenant.owner(to)
    return tenant.team(check_name(to.removeprefix(_TEAM), "a team"))


def _index_of(tenant: TenantKeys, who: str) -> bytes:
    """A blind index: as an entry shows it, or made of a name."""
    try:
        index = bytes.fromhex(who)
    except ValueError:
        index = b""
    return index if len(index) == len(tenant.tenant_id) else tenant.owner(check_name(who, "a subject"))
