"""The retention policy of each tenant: the newest one it activated, or the one that comes with the vault.

All that ever happened to it stands in the tenant's audit trail. Of the entries that decide about it, each
names the one it follows by its own id, so of two processes that decide at once one is refused: what was
cancelled never comes into force, and what came into force is not cancelled.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vault import data
from vault.clock import monotonic_seconds
from vault.encoding import pack, u64
from vault.errors import Conflict
from vault.model import format_id
from vault.policy import terms as retention
from vault.policy.epochs import hour_after
from vault.policy.retention import expires_us
from vault.policy.rules import has_event_rules
from vault.policy.terms import NO_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vault.access.door import Grant
    from vault.audit.trail import AuditTrail, Entry
    from vault.policy.rules import Policy
    from vault.policy.terms import Bounds
    from vault.sealing.uses import TenantKeys

#: How soon another process's activation is seen.
_FRESH_SECONDS: Final = 1.0
#: Types of entries in the audit trail.
ACTIVATED: Final = "policy.activated"
PENDING: Final = "policy.pending"
APPROVED: Final = "policy.approved"
CANCELLED: Final = "policy.cancelled"
#: All that a policy says of what is there already is done.
APPLIED: Final = "policy.applied"
SHIPPED: Final = "default"
#: What comes with the vault; the other documents beside them are no retention policies.
NAMES: Final = ("default", "gdpr", "hipaa", "pci", "eu-ai-act", "ephemeral")
#: Things that a change may erase without a second person.
SECOND_PERSON_ABOVE: Final = 100
#: Activations of a tenant that are looked through for earlier versions.
HISTORY_MAX: Final = 10_000


def shipped(name: str = SHIPPED) -> Policy:
    """One of the policies that come with the vault.

    Raises:
        NotFound: there is none of this name.
    """
    from vault.policy.document import read_policy  # noqa: PLC0415 - pydantic: `import vault` does without

    file = data.policies() / f"{name}.toml"
    return read_policy(file.read_text(encoding="utf-8"), file=file.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The newest entries that decide about a tenant's policy."""

    active: Entry | None
    change: Entry | None

    @property
    def waiting(self) -> Entry | None:
        """The change that waits: as it was asked for, or approved."""
        if self.change is None or self.change.what == CANCELLED:
            return None
        over = self.active is not None and self.active.seq > self.change.seq
        return None if over else self.change

    @property
    def seq(self) -> int:
        """The number of the newest of them; 0 without any."""
        return max((entry.seq for entry in (self.active, self.change) if entry is not None), default=0)


class Policies:
    """What binds new sessions and items, by tenant."""

    def __init__(
        self,
        trail: AuditTrail,
        bounds: Bounds = NO_BOUNDS,
        second_person_above: int = SECOND_PERSON_ABOVE,
    ) -> None:
        """Read the tenants' own policies from their audit trails."""
        self._trail, self.bounds, self.second_person_above = trail, bounds, second_person_above
        self._active: dict[bytes, tuple[float, Policy]] = {}
        self._read: dict[bytes, Policy] = {}
        self._shipped: Policy | None = None
        self._lock = threading.Lock()

    def __call__(self, grant: Grant, kind: str, labels: Mapping[str, str]) -> bytes:
        """The terms that bind a new item; the audit trail itself has none."""
        if grant.action == "trail":
            return b""
        policy = self.active(grant.tenant)
        return retention.encode(retention.bind(policy, kind, labels, bounds=self.bounds))

    def event_hour(
        self, grant: Grant, labels: Callable[[], Mapping[str, str]], type: str, level: str, now_us: int
    ) -> int:
        """In which hour (`policy/epochs`) an event that is written now expires; 0: with its session."""
        if grant.action == "trail":
            return 0
        policy = self.active(grant.tenant)
        if not has_event_rules(policy):
            return 0
        found = retention.bind(policy, "event", labels(), type=type, level=level, bounds=self.bounds)
        due = expires_us(found, now_us)
        return 0 if due is None else hour_after(due)

    def active(self, tenant: TenantKeys, *, fresh: bool = False) -> Policy:
        """The policy of a tenant; as it was up to a second ago, unless ``fresh``."""
        known, now = self._active.get(tenant.tenant_id), monotonic_seconds()
        if known is not None and not fresh and now - known[0] < _FRESH_SECONDS:
            return known[1]
        entry = self._trail.newest(tenant, "policy", b"", tenant.tenant_id)
        policy = self._default() if entry is None else self.of(entry)
        with self._lock:
            self._active[tenant.tenant_id] = (now, policy)
        return policy

    def of(self, entry: Entry) -> Policy:
        """The policy of an entry that activated it, or asked for it."""
        from vault.policy.document import read_policy  # noqa: PLC0415 - pydantic: most tenants need none

        digest = bytes.fromhex(entry.said["digest"])
        if digest not in self._read:
            self._read[digest] = read_policy(entry.said["text"], file=entry.said["file"])
        return self._read[digest]

    def standing(self, tenant: TenantKeys) -> Standing:
        """What was decided last about a tenant's policy, and what waits."""
        return Standing(
            active=self._trail.newest(tenant, "policy", b"", tenant.tenant_id),
            change=self._trail.newest(tenant, "policy-change", b"", tenant.tenant_id),
        )

    def decided(self, tenant: TenantKeys, what: str, who: bytes, said: dict[str, Any], after: int) -> Entry:
        """Record a decision that follows from how things stood; durable before this returns.

        Args:
            tenant: whose policy.
            what: ``ACTIVATED``, ``PENDING``, ``APPROVED`` or ``CANCELLED``.
            who: the blind index of who decided; empty for the vault itself.
            said: what else.
            after: ``Standing.seq`` as it was looked at.

        Raises:
            Conflict: somebody decided otherwise meanwhile.
        """
        # One id for whatever follows an entry: the log takes it once, with one content.
        link = hashlib.sha256(pack(b"session-vault/1/policy", tenant.tenant_id, u64(after))).digest()[:16]
        kind = "policy" if what == ACTIVATED else "policy-change"
        about = (kind, tenant.tenant_id)
        try:
            entry = self._trail.write(
                tenant, what, who, b"", said, about=about, event_id=format_id("evt", link)
            )
        except Conflict:
            raise Conflict(
                "somebody else decided about the retention policy at this moment; look again"
            ) from None
        if what == ACTIVATED:
            with self._lock:
                self._active.pop(tenant.tenant_id, None)
        return entry

    def is_applied(self, tenant: TenantKeys, policy: Policy) -> bool:
        """Whether all that a policy says of what is there already is done."""
        entry = self._trail.newest(tenant, "policy-applied", b"", tenant.tenant_id)
        return entry is not None and entry.said["digest"] == policy.digest.hex()

    def applied(self, tenant: TenantKeys, policy: Policy) -> None:
        """Record that it is."""
        said = {"digest": policy.digest.hex()}
        self._trail.write(tenant, APPLIED, b"", b"", said, about=("policy-applied", tenant.tenant_id))

    def history(self, tenant: TenantKeys) -> Iterator[Entry]:
        """The activations of a tenant, the newest first."""
        yield from self._trail.entries(tenant, types=[ACTIVATED], newest_first=True, limit=HISTORY_MAX)

    def by_mark(self, tenant: TenantKeys) -> dict[str, Policy]:
        """The policies that a tenant ever had, by how stored terms name them."""
        policies = [self._default(), *map(self.of, self.history(tenant))]
        return {policy.mark: policy for policy in policies}

    def _default(self) -> Policy:
        with self._lock:
            self._shipped = self._shipped or shipped()
            return self._shipped
