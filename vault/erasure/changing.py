"""A change of a retention policy that waits, and how a sweep brings it into force and binds what is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us, to_us
from vault.erasure.policies import ACTIVATED, APPROVED, PENDING
from vault.erasure.rebinding import Rebinding
from vault.errors import Conflict, InvalidInput, KeyUnavailable, NewerVault, Tampered
from vault.policy.durations import MINUTE_US
from vault.policy.rebinding import speaks_of_all

if TYPE_CHECKING:
    from datetime import datetime

    from vault.audit.trail import Entry
    from vault.erasure.policies import Standing
    from vault.erasure.service import Parts
    from vault.erasure.watch import Watch
    from vault.errors import VaultError
    from vault.policy.rules import Policy
    from vault.sealing.uses import TenantKeys

#: A pass over what is there counts only this long after the activation: another process may not know it yet.
_SETTLED_US: Final = MINUTE_US
#: What is wrong with one tenant's trail, and no reason to leave the others alone.
_OF_ONE_TENANT: Final = (InvalidInput, KeyUnavailable, NewerVault, Tampered)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingChange:
    """A change that is not in force yet.

    Attributes:
        name, version, digest: of the new policy; the digest in hexadecimal.
        asked_at, asked_by: when, and by whom, as a blind index that the audit trail shows too.
        in_force_from: not before; then by the next sweep.
        second_person: whether somebody else than who asked has to approve it.
        approved: whether somebody did.
        counts: how many of a kind it would erase, or a hold or a minimum would keep, as of when it was asked.
        oldest: when the oldest of those was made; None for none.
        text: the document.
    """

    name: str
    version: int
    digest: str
    asked_at: datetime
    asked_by: str
    in_force_from: datetime
    second_person: bool
    approved: bool
    counts: Mapping[tuple[str, str], int]
    oldest: datetime | None
    text: str = field(repr=False)


def settle(parts: Parts, watch: Watch, tenant_id: bytes | None = None) -> VaultError | None:
    """Bring into force what has waited long enough, and bind what is there by it; for a sweep.

    Returns:
        What is wrong with some tenant's policy; the others are settled all the same.

    Raises:
        Fenced: another process took the sweep over.
        ClockAnomaly: the clock jumped meanwhile.
    """
    wrong: VaultError | None = None
    for tenant in _tenants(parts, tenant_id):
        try:
            _settle(parts, watch, tenant)
        except _OF_ONE_TENANT as error:
            wrong = wrong or error
    return wrong


def _settle(parts: Parts, watch: Watch, tenant: TenantKeys) -> None:
    standing = parts.policies.standing(tenant)
    if standing.waiting is not None and bring_into_force(parts, tenant, standing):
        standing = parts.policies.standing(tenant)
    if standing.active is None:
        return
    policy = parts.policies.of(standing.active)
    if not speaks_of_all(policy) or parts.policies.is_applied(tenant, policy):
        return
    began_us = parts.log.clock.now_us()
    whole = rebinding(parts, tenant, policy).run(watch)
    if whole and began_us >= to_us(standing.active.at) + _SETTLED_US:
        parts.policies.applied(tenant, policy)


def bring_into_force(parts: Parts, tenant: TenantKeys, standing: Standing) -> bool:
    """Bring the change that waits into force, if it has waited, and was approved where it has to be."""
    entry, now_us = standing.waiting, parts.log.clock.now_us()
    if entry is None or now_us < entry.said["from_us"]:
        return False
    policy, said = parts.policies.of(entry), entry.said
    try:
        if entry.what == PENDING:
            if said["second"]:
                return False
            # There may be more by now than when it was asked for.
            effect = rebinding(parts, tenant, policy).effect(now_us)
            if effect.going > parts.policies.second_person_above:
                counts = [[kind, action, count] for (kind, action), count in sorted(effect.counts.items())]
                again = carried(entry) | {"second": True, "counts": counts}
                parts.policies.decided(tenant, PENDING, b"", again, standing.seq)
                return False
        document = {name: said[name] for name in ("name", "version", "digest", "file", "text", "by")}
        parts.policies.decided(tenant, ACTIVATED, b"", document | {"change": entry.seq}, standing.seq)
    except Conflict:
        return False  # cancelled at this moment, or another process was faster
    return True


def rebinding(parts: Parts, tenant: TenantKeys, policy: Policy) -> Rebinding:
    """What a policy says of all that a tenant has."""
    known = parts.policies.by_mark(tenant)
    return Rebinding(parts=parts, tenant=tenant, policy=policy, known=known)


def _tenants(parts: Parts, tenant_id: bytes | None) -> Iterator[TenantKeys]:
    known = {row.scope for row in parts.store.rows_of(None) if row.purpose == "tenant"}
    for one in sorted(known) if tenant_id is None else (tenant_id,):
        tenant = parts.log.keys.tenant_by_id(one)
        if tenant is not None:
            yield tenant


def carried(entry: Entry) -> dict[str, Any]:
    """What the next entry about the same change says too; since when it waits among it."""
    return entry.said | {"asked_us": entry.said.get("asked_us", to_us(entry.at))}


def of_entry(entry: Entry, policy: Policy) -> WaitingChange:
    """The change that an entry is about, as it waits."""
    asked_us = entry.said.get("asked_us", to_us(entry.at))
    return waiting_change(entry.said, policy, asked_us, approved=entry.what == APPROVED)


def waiting_change(said: dict[str, Any], policy: Policy, asked_us: int, *, approved: bool) -> WaitingChange:
    """The change that the content of an entry is about, as it waits."""
    return WaitingChange(
        name=policy.name,
        version=policy.version,
        digest=policy.digest.hex(),
        asked_at=from_us(asked_us),
        asked_by=said["by"],
        in_force_from=from_us(said["from_us"]),
        second_person=said["second"],
        approved=approved,
        counts={(kind, action): count for kind, action, count in said["counts"]},
        oldest=from_us(said["oldest_us"]) if said["oldest_us"] else None,
        text=policy.text,
    )
