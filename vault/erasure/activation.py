"""How a tenant's retention policy comes into force: at once, or announced first where something goes earlier.

A change by which something that is stored goes earlier waits for a day. Whoever looks sees what would go,
and can cancel it; if that is much, a second person has to approve it. Then the next sweep, or who approves,
brings it into force, and the sweep binds what is there anew.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from vault.erasure.changing import (
    WaitingChange,
    bring_into_force,
    carried,
    of_entry,
    rebinding,
    waiting_change,
)
from vault.erasure.policies import ACTIVATED, APPROVED, CANCELLED, NAMES, PENDING, shipped
from vault.erasure.rebinding import Effect
from vault.erasure.watch import Watch
from vault.errors import Busy, Conflict, InvalidInput, NotFound
from vault.policy.changes import diff, is_shortening
from vault.policy.durations import DAY_US
from vault.policy.enforced import not_enforced, refusal
from vault.policy.rebinding import speaks_of_all
from vault.policy.terms import clampings

if TYPE_CHECKING:
    from datetime import datetime

    from vault.access.door import Leave
    from vault.audit.trail import Entry
    from vault.erasure.policies import Standing
    from vault.erasure.service import Parts
    from vault.policy.changes import Change
    from vault.policy.rules import Policy
    from vault.sealing.uses import TenantKeys

#: How long a change waits that makes something go earlier.
COOL_OFF_US: Final = DAY_US
#: How many digits of a digest say at least which change somebody approves.
DIGITS_MIN: Final = 8
_TRIES: Final = 8
_NOTHING_WAITS: Final = "no change of the retention policy waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """What a document says, and what came of it, or would come.

    Attributes:
        name, version, digest: of the document; the digest in hexadecimal.
        state: ``active`` from now on, ``unchanged`` as it was active already, or ``pending``.
        changes: rules that differ from what is in force.
        clampings: what the vault's bounds change in it, one sentence each.
        not_enforced: what may stand in it and has no effect yet, one sentence each.
        waiting: the change as it waits, when it is pending.
    """

    name: str
    version: int
    digest: str
    state: Literal["active", "unchanged", "pending"]
    changes: tuple[Change, ...]
    clampings: tuple[str, ...]
    not_enforced: tuple[str, ...]
    waiting: WaitingChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPolicy:
    """A policy that is or was in force, or comes with the vault; ``since`` is None for one that never was."""

    name: str
    version: int
    digest: str
    active: bool
    since: datetime | None


class PolicyDesk:
    """The retention policy of one tenant, for its privacy officers."""

    def __init__(self, parts: Parts, leave: Leave) -> None:
        """Made by ``Vault.access``."""
        self._parts, self._leave = parts, leave

    def active(self) -> Policy:
        """The policy in force.

        Raises:
            NotFound: no leave.
        """
        return self._parts.policies.active(self._tenant(), fresh=True)

    def list(self) -> list[KnownPolicy]:
        """What is and was in force, the newest first, then what comes with the vault.

        Raises:
            NotFound: no leave.
        """
        tenant, policies = self._tenant(), self._parts.policies
        active = policies.standing(tenant).active
        found: list[KnownPolicy] = []
        for entry in policies.history(tenant):
            found.append(_known(policies.of(entry), entry, active=not found))
        for name in NAMES:
            policy = shipped(name)
            in_force = active is None and name == NAMES[0]
            found.append(_known(policy, None, active=in_force))
        return found

    def of_digest(self, digest: str) -> Policy:
        """A policy that is or was in force, or comes with the vault, by what receipts name it.

        Args:
            digest: its first 8 or more digits.

        Raises:
            NotFound: no leave, or there is none.
            InvalidInput: fewer digits.
        """
        tenant, policies = self._tenant(), self._parts.policies
        if not isinstance(digest, str) or len(digest) < DIGITS_MIN:
            raise InvalidInput(f"a policy is named by the first {DIGITS_MIN} or more digits of its digest")
        for policy in (*map(policies.of, policies.history(tenant)), *map(shipped, NAMES)):
            if policy.digest.hex().startswith(digest):
                return policy
        raise NotFound("no policy of this digest is or was in force, or comes with the vault")

    def check(self, text: str, *, file: str = "the document") -> PolicyAnswer:
        """What activating a document would do; nothing is done.

        Raises:
            InvalidInput: something in it is wrong, or nothing enforces it; says what.
            Conflict: another document of this name has this version, or a higher one.
            NotFound: no leave.
        """
        tenant = self._tenant()
        policy = _read(text, file)
        now_us = self._parts.log.clock.now_us()
        old = self._parts.policies.active(tenant, fresh=True)
        self._check_version(tenant, policy, old)
        effect = self._announced(tenant, old, policy)
        said = None if effect is None else self._asked(policy, effect, b"", file, now_us)
        waiting = None if said is None else waiting_change(said, policy, now_us, approved=False)
        return self._answer(old, policy, waiting)

    def activate(self, text: str, *, file: str = "the document") -> PolicyAnswer:
        """Bring a document into force: at once; or, where something would go earlier by it, announce it.

        The same document again changes nothing. ``file`` is its name in errors. A tenant that nobody used yet
        gets its keys by it, so that its first session is bound by it already.

        Raises:
            InvalidInput: something in it is wrong, or nothing enforces it; says what.
            Conflict: another document of this name has this version, or a higher one; another change waits;
                or somebody changed the policy at this moment.
            NotFound: no leave.
        """
        policy = _read(text, file)
        grant = self._leave.tenant("retain", create=True)
        tenant, policies = grant.tenant, self._parts.policies
        standing = policies.standing(tenant)
        old = policies.active(tenant, fresh=True)
        if standing.waiting is not None:
            asked = policies.of(standing.waiting)
            if asked.digest != policy.digest:
                raise Conflict("another change of the retention policy waits; cancel it first")
            return self._answer(old, policy, of_entry(standing.waiting, policy))
        if standing.active is not None and old.digest == policy.digest:
            return self._answer(old, policy, None)
        self._check_version(tenant, policy, old)
        effect, now_us = self._announced(tenant, old, policy), self._parts.log.clock.now_us()
        if effect is None:
            said = _document(policy, file) | {"by": grant.who.hex(), "change": 0}
            policies.decided(tenant, ACTIVATED, grant.who, said, standing.seq)
            return self._answer(old, policy, None)
        said = self._asked(policy, effect, grant.who, file, now_us)
        entry = policies.decided(tenant, PENDING, grant.who, said, standing.seq)
        return self._answer(old, policy, of_entry(entry, policy))

    def pending(self) -> WaitingChange | None:
        """The change that waits.

        Raises:
            NotFound: no leave.
        """
        tenant = self._tenant()
        entry = self._parts.policies.standing(tenant).waiting
        return None if entry is None else of_entry(entry, self._parts.policies.of(entry))

    def approve(self, digest: str) -> WaitingChange | None:
        """Approve the change that waits, as somebody else than who asked; None once it is in force.

        Whoever asked can bring it into force with this too, when it needs no approval and has waited.

        Args:
            digest: the first digits of the change's digest, 8 at least: exactly what was looked at.

        Raises:
            NotFound: no change waits, or no leave.
            Conflict: it is another change than that; it needs somebody else's approval; or it has to wait.
            ClockAnomaly: the clock jumped: the approval is recorded, and nothing came into force.
        """
        grant, policies = self._leave.tenant("retain"), self._parts.policies
        for _ in range(_TRIES):
            standing = policies.standing(grant.tenant)
            entry = _of_digest(standing, digest)
            now_us = self._parts.log.clock.now_us()
            if entry.said["by"] == grant.who.hex():
                if entry.said["second"] and entry.what == PENDING:
                    raise Conflict("a second person is somebody else than who asked")
                if now_us < entry.said["from_us"]:
                    raise Conflict("this change waits for its time; then the next sweep brings it into force")
            elif entry.what == PENDING:
                try:
                    policies.decided(grant.tenant, APPROVED, grant.who, carried(entry), standing.seq)
                except Conflict:
                    continue  # somebody decided meanwhile: look again at what waits
            return self._after_approval(grant.tenant)
        raise Conflict("others change the retention policy at this moment; look again")

    def cancel(self) -> None:
        """Take back the change that waits; it never comes into force.

        Raises:
            NotFound: no change waits, as it may have come into force; or no leave.
        """
        grant, policies = self._leave.tenant("retain"), self._parts.policies
        for _ in range(_TRIES):
            standing = policies.standing(grant.tenant)
            entry = standing.waiting
            if entry is None:
                raise NotFound(_NOTHING_WAITS)
            said = {name: entry.said[name] for name in ("name", "version", "digest")}
            try:
                policies.decided(grant.tenant, CANCELLED, grant.who, said, standing.seq)
            except Conflict:
                continue  # approved, or in force, meanwhile: the log says which came first
            return
        raise Conflict("others change the retention policy at this moment; look again")

    # ------------------------------------------------------------------------------------------- its parts

    def _tenant(self) -> TenantKeys:
        return self._leave.tenant("retain").tenant

    def _after_approval(self, tenant: TenantKeys) -> WaitingChange | None:
        """Bring it into force if its time has come; a sweep at work does so itself."""
        standing = self._parts.policies.standing(tenant)
        entry = standing.waiting
        if entry is not None and self._parts.log.clock.now_us() >= entry.said["from_us"]:
            try:
                watch = Watch(log=self._parts.log).taken()  # the clock is believed, or nothing is done
                try:
                    bring_into_force(self._parts, tenant, standing)
                finally:
                    watch.done()
            except Busy:
                pass
            entry = self._parts.policies.standing(tenant).waiting
        return None if entry is None else of_entry(entry, self._parts.policies.of(entry))

    def _check_version(self, tenant: TenantKeys, policy: Policy, old: Policy) -> None:
        """Refuse a document that has the version of another one of its name, or a lower one.

        Raises:
            Conflict: it has.
        """
        versions = [
            (entry.said["version"], entry.said["digest"])
            for entry in self._parts.policies.history(tenant)
            if entry.said["name"] == policy.name
        ]
        # What comes with the vault was in force before the first one was activated.
        versions += [
            (known.version, known.digest.hex()) for known in (old, shipped()) if known.name == policy.name
        ]
        newest = max(versions, default=(0, ""))
        if policy.version < newest[0] or (
            policy.version == newest[0] and policy.digest.hex() not in {digest for _, digest in versions}
        ):
            raise Conflict(
                f"version {newest[0]} of this policy was in force, and a document is never changed; give the "
                "new one a higher version"
            )

    def _announced(self, tenant: TenantKeys, old: Policy, policy: Policy) -> Effect | None:
        """What it would do to what is there; None if by it nothing that is there goes earlier."""
        shortening = is_shortening(old, policy)
        if not speaks_of_all(policy):
            return Effect(counts={}, earlier=0, oldest_us=0) if shortening else None
        # As of when it can come into force; the comparison of documents knows nothing of bounds, or of older
        # policies that still bind something, so what is stored is asked too.
        at_us = self._parts.log.clock.now_us() + COOL_OFF_US
        effect = rebinding(self._parts, tenant, policy).effect(at_us)
        return effect if shortening or effect.earlier else None

    def _asked(self, policy: Policy, effect: Effect, who: bytes, file: str, now_us: int) -> dict[str, Any]:
        # A clock that is behind what a sweep has seen would make the wait shorter than it is.
        now_us = max(now_us, Watch(log=self._parts.log).seen().high_us)
        return _document(policy, file) | {
            "by": who.hex(),
            "from_us": now_us + COOL_OFF_US,
            "second": effect.going > self._parts.policies.second_person_above,
            "counts": [[kind, action, count] for (kind, action), count in sorted(effect.counts.items())],
            "oldest_us": effect.oldest_us,
        }

    def _answer(self, old: Policy, policy: Policy, waiting: WaitingChange | None) -> PolicyAnswer:
        state: Literal["active", "unchanged", "pending"] = "active"
        if waiting is not None:
            state = "pending"
        elif old.digest == policy.digest:
            state = "unchanged"
        return PolicyAnswer(
            name=policy.name,
            version=policy.version,
            digest=policy.digest.hex(),
            state=state,
            changes=tuple(diff(old, policy)),
            clampings=clampings(policy, self._parts.policies.bounds),
            not_enforced=not_enforced(policy, redaction="redaction" in tomllib.loads(policy.text)),
            waiting=waiting,
        )


def _read(text: str, file: str) -> Policy:
    """A document that can come into force.

    Raises:
        InvalidInput: it cannot; says why.
    """
    from vault.policy.document import read_policy  # noqa: PLC0415 - pydantic: `import vault` does without

    policy = read_policy(text, file=file)
    why = refusal(policy)
    if why is not None:
        raise InvalidInput(f"{file}: {why}")
    return policy


def _document(policy: Policy, file: str) -> dict[str, Any]:
    return {
        "name": policy.name,
        "version": policy.version,
        "digest": policy.digest.hex(),
        "file": file,
        "text": policy.text,
    }


def _of_digest(standing: Standing, digest: str) -> Entry:
    """The change that waits, if it is the one that was looked at.

    Raises:
        NotFound: none waits.
        Conflict: it is another one.
    """
    entry = standing.waiting
    if entry is None:
        raise NotFound(_NOTHING_WAITS)
    if not isinstance(digest, str) or len(digest) < DIGITS_MIN:
        raise InvalidInput(f"a change is named by the first {DIGITS_MIN} or more digits of its digest")
    if not entry.said["digest"].startswith(digest):
        raise Conflict("another change waits than the one of this digest; look at it first")
    return entry


def _known(policy: Policy, entry: Entry | None, *, active: bool) -> KnownPolicy:
    return KnownPolicy(
        name=policy.name,
        version=policy.version,
        digest=policy.digest.hex(),
        active=active,
        since=None if entry is None else entry.at,
    )
