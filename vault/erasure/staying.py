"""Why something that is due is still there: what the next sweep would leave of it, and because of what.

The sweep's own plan is asked, so this says what a sweep does, whatever it learns to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vault.erasure.facts import decision_of, exists, owner_and_kind, terms_of
from vault.erasure.operations import GOING, under_way
from vault.erasure.proof import name_of
from vault.erasure.sweep import due
from vault.policy.plan import Item
from vault.policy.retention import Stay, decide

if TYPE_CHECKING:
    from vault.erasure.service import Parts
    from vault.policy.plan import Plan
    from vault.sealing.uses import TenantKeys


def staying(parts: Parts, tenant: TenantKeys, id_: bytes, owner: bytes | None, now_us: int) -> Stay | None:
    """Why a session or item that is due stays; None when the next sweep takes it.

    Args:
        parts: the parts.
        tenant: whose.
        id_: of what is due.
        owner: who asks, so that nothing of anybody else is named; None for an officer.
        now_us: the time it is due at.
    """
    with parts.log.records.snapshot() as reader:
        taken = id_ in under_way(parts.log, reader)
        decision = decision_of(reader, tenant.tenant_id, id_, now_us)
    if decision is None or taken:
        return Stay("being_erased") if taken else None
    if decision.state != "DUE":
        return Stay("newer_version")
    if decision.action != "erase":
        return Stay("review")
    for found in due(parts, tenant.tenant_id):
        item = _of(found.plan, id_)
        if item is not None and found.over_cap and item.action not in {"held", "minimum"}:
            return Stay(
                "over_cap"
            )  # until somebody agrees nothing goes, and no fork takes over what it shares
        if item is not None and item.action not in GOING:
            return _pinned(parts, tenant, found.plan, item, owner, now_us)
    return None


def _pinned(
    parts: Parts, tenant: TenantKeys, plan: Plan, item: Item, owner: bytes | None, now_us: int
) -> Stay | None:
    """What an item of a plan stays for, at the end of the chain from one to what came from it."""
    last, passed = item, {item.id}
    while (below := _of(plan, last.through)) is not None and below.id not in passed:
        passed.add(below.id)
        last = below
    with parts.log.records.snapshot() as reader:
        if last.through == item.id or not exists(reader, tenant, last.through):
            return None  # by a hold of its own that came this moment; or that went, and so will this
        _, whose, kind = owner_and_kind(reader, last.through)
        terms, times = terms_of(reader, tenant.tenant_id, last.through)
    mine = owner is None or whose == owner
    name = name_of(last._replace(id=last.through, kind=kind)) if mine else ""
    if last.reason == "shared_by_fork":
        until_us = decide(terms, times, held=False, now_us=now_us).delete_at_us
        return Stay("fork", name, until_us or 0)
    return Stay("minimum" if last.action == "minimum" else "hold", name, item.until_us)


def _of(plan: Plan, id_: bytes) -> Item | None:
    return next((item for item in plan.items if item.id == id_), None)
