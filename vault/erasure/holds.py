"""Legal holds: what a hold names is kept, whatever a policy or a person asks, until it is lifted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.audit.trail import NAMED
from vault.clock import from_us
from vault.errors import InvalidInput, NotFound
from vault.model import check_name, format_id, parse_id, session_bytes, uuid7
from vault.policy.plan import refuse_selector

if TYPE_CHECKING:
    from datetime import datetime

    from vault.access.door import Leave
    from vault.erasure.service import Parts
    from vault.sealing.uses import TenantKeys

MATTER_LENGTH_MAX: Final = 1_000
#: Types of entries in the audit trail.
PLACED: Final = "hold.placed"
LIFTED: Final = "hold.lifted"
_NO_HOLD: Final = "there is no such hold in force"
_SESSION: Final = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A hold as the audit trail tells of it.

    ``named`` is what it names: a session's id, a person, a label as NAME=VALUE; None for the tenant as a
    whole, and for a person or label of a hold that was placed before names were kept.

    ``too_late`` is 0 when it keeps all that it names. Else it counts what it may have come too late for: what
    it names and was erased before, and whatever of the tenant's was being erased when it was placed.
    """

    id: str
    scope: str
    named: str | None = field(default=None, repr=False)
    reason: str = field(repr=False)
    placed_at: datetime
    lifted_at: datetime | None = None
    too_late: int = 0


class Holds:
    """The holds of one tenant."""

    def __init__(self, parts: Parts, leave: Leave) -> None:
        """Made by ``Vault.access``."""
        self._parts, self._leave = parts, leave

    def place(
        self,
        *,
        session: str | None = None,
        subject: str | None = None,
        label: tuple[str, str] | None = None,
        tenant: bool = False,
        reason: str,
    ) -> Hold:
        """Keep everything that one thing names, from now on, until the hold is lifted.

        What is being erased at this moment, or was before, is not brought back: ``too_late`` counts it. What
        it names is sealed in the audit trail, for who may hold. A tenant that nobody used yet gets its keys,
        as what is held may come later; but for one session, which would be there.

        Raises:
            InvalidInput: not exactly one thing, or no reason.
            NotFound: no leave to place holds.
        """
        check_name(reason, "the reason of a hold", MATTER_LENGTH_MAX)
        scope, parts = _scope(session, subject, label, tenant=tenant)
        grant = self._leave.tenant("hold", create=scope != _SESSION)
        tag, named = _tag(grant.tenant, scope, parts), "=".join(parts) or None
        hold_id, now_us = uuid7(), self._parts.log.clock.now_us()
        said: dict[str, Any] = {"hold": hold_id.hex(), "scope": scope, "tag": tag.hex(), "reason": reason}
        if named is not None and scope != _SESSION:  # a session's id is the tag
            said |= {NAMED: {"of": named}}
        # First the trail: a hold that stands has its reason on record, whatever happens in between.
        self._parts.trail.write(grant.tenant, PLACED, grant.who, b"", said, about=("hold", hold_id))
        # What it is too late for is seen in the transaction that places it: a moment later it could be gone.
        late = self._parts.store.place_hold(hold_id, grant.tenant.tenant_id, [tag], now_us)
        return Hold(
            id=format_id("hld", hold_id),
            scope=scope,
            named=named,
            reason=reason,
            placed_at=from_us(now_us),
            too_late=len(late),
        )

    def lift(self, hold_id: str, *, reason: str) -> None:
        """End a hold; what was asked to be erased meanwhile is due again by itself.

        Raises:
            NotFound: there is no such hold in force, or no leave.
            InvalidInput: no reason.
        """
        grant = self._leave.tenant("hold")
        check_name(reason, "the reason for lifting a hold", MATTER_LENGTH_MAX)
        raw = parse_id("hld", hold_id) if isinstance(hold_id, str) else None
        standing = {
            row.hold_id for row in self._parts.store.holds(grant.tenant.tenant_id) if not row.lifted_us
        }
        if raw is None or raw not in standing:
            raise NotFound(_NO_HOLD)
        said = {"hold": raw.hex(), "reason": reason}
        self._parts.trail.write(grant.tenant, LIFTED, grant.who, b"", said, about=("hold", raw))
        if not self._parts.store.lift_hold(raw, grant.tenant.tenant_id, self._parts.log.clock.now_us()):
            raise NotFound(_NO_HOLD)  # somebody else lifted it meanwhile

    def list(self, *, lifted: bool = False) -> list[Hold]:
        """The holds in force; with ``lifted`` those that were lifted too.

        Raises:
            NotFound: no leave to see them.
        """
        grant = self._leave.tenant("hold")
        told = {
            entry.said["hold"]: entry.said
            for entry in self._parts.trail.entries(grant.tenant, types=[PLACED], limit=10_000)
        }
        found = []
        for row in self._parts.store.holds(grant.tenant.tenant_id):
            if row.lifted_us and not lifted:
                continue
            said = told.get(row.hold_id.hex(), {})
            found.append(
                Hold(
                    id=format_id("hld", row.hold_id),
                    scope=said.get("scope", "unknown"),
                    named=_named(said),
                    reason=said.get("reason", "not on record"),
                    placed_at=from_us(row.placed_us),
                    lifted_at=from_us(row.lifted_us) if row.lifted_us else None,
                )
            )
        return found


def _scope(
    session: str | None, subject: str | None, label: tuple[str, str] | None, *, tenant: bool
) -> tuple[str, tuple[str, ...]]:
    """The kind of what a hold names, and its name in parts; nothing is looked up.

    Raises:
        InvalidInput: not exactly one thing, or one that names nothing.
        NotFound: no session's id.
    """
    given = [one for one in (session, subject, label, tenant or None) if one is not None]
    if len(given) != 1:
        raise InvalidInput("a hold names one thing: a session, a subject, a label or the tenant")
    if session is not None:
        return _SESSION, (format_id("ses", session_bytes(session)),)
    if subject is not None:
        name = check_name(subject, "a subject")
        refuse_selector(name)
        return "subject", (name,)
    if label is not None:
        if not isinstance(label, tuple | list) or len(label) != len(("name", "value")):
            raise InvalidInput("a label is a pair: its name and its value")
        return "label", tuple(check_name(part, "a label") for part in label)
    return "tenant", ()


def _tag(keys: TenantKeys, scope: str, parts: tuple[str, ...]) -> bytes:
    if scope == _SESSION:
        return session_bytes(*parts)
    if scope == "subject":
        return keys.owner(*parts)
    return keys.blind("label", *parts) if scope == "label" else keys.tenant_id


def _named(said: dict[str, Any]) -> str | None:
    """What the entry of a hold names; None where it does not say."""
    if said.get("scope") == _SESSION:
        return format_id("ses", bytes.fromhex(said["tag"]))
    named: str | None = said.get(NAMED, {}).get("of")
    return named
