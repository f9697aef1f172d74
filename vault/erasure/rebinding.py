"""Binding by a new policy what is stored already: looked at page by page, changed in bounded transactions.

Nothing remembers how far it came: what is bound as the policy says is passed over, so a pass that was cut off
begins again, and a pass that found nothing to do is the proof that all is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.derived.opening import Opener
from vault.derived.opening import open_about as open_about_item
from vault.erasure.facts import gather
from vault.erasure.fence import BATCH, SESSION, keys_of, stored_session
from vault.erasure.operations import GOING, under_way
from vault.erasure.planning import active_holds
from vault.erasure.relabel import labels_of
from vault.errors import Erased, KeyUnavailable, NewerVault, Tampered
from vault.policy import terms as retention
from vault.policy.durations import FOREVER_US, HOUR_US
from vault.policy.plan import Selector, make_plan
from vault.policy.rebinding import rebound
from vault.policy.retention import Times, decide, due_us
from vault.ports.items import ItemRow
from vault.ports.operations import OperationRow
from vault.ports.records import SessionRow, is_sound
from vault.sealing import item_rows, rows
from vault.sessions.log import due_hour, open_about

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault.erasure.service import Parts
    from vault.erasure.watch import Watch
    from vault.policy.rebinding import Labels
    from vault.policy.retention import Decision
    from vault.policy.rules import Policy
    from vault.policy.terms import Terms
    from vault.ports.records import Reader, Transaction
    from vault.sealing.uses import EpochKeys, TenantKeys

#: What keeps one row from being looked at: verification finds it, and nothing here changes it.
_UNREADABLE: Final = (Erased, KeyUnavailable, NewerVault, Tampered)
#: Where a pass stands. A session that is used meanwhile only moves on, so none is missed.
_SESSIONS: Final = ("used_hour", "no")
_ITEMS: Final = ("owner", "space", "no")


class Met(NamedTuple):
    """A session or item that a policy binds otherwise than it is bound."""

    id: bytes
    owner: bytes
    kind: str
    terms: Terms
    again: Terms
    times: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a policy would do to what is there, once it is in force.

    ``counts`` says how many of a kind would be erased, or kept by a hold or a minimum, as they would have
    expired by then; what was made from them among it. ``earlier`` counts all that would go earlier,
    ``oldest_us`` is when the oldest of those that expire was made.
    """

    counts: Mapping[tuple[str, str], int]
    earlier: int
    oldest_us: int

    @property
    def going(self) -> int:
        """How many sessions and items would be erased."""
        return sum(count for (_, action), count in self.counts.items() if action in GOING)

    @property
    def held(self) -> int:
        """How many of those that expire a hold keeps."""
        return sum(count for (_, action), count in self.counts.items() if action == "held")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebinding:
    """What one policy says of all that one tenant has."""

    parts: Parts
    tenant: TenantKeys = field(repr=False)
    policy: Policy
    known: Mapping[str, Policy] = field(repr=False)

    def effect(self, at_us: int) -> Effect:
        """What would expire, or be due, by the policy at a time, and is not by what binds it now."""
        parts, tenant = self.parts, self.tenant
        roots: list[bytes] = []
        minimums: dict[bytes, int] = {}
        earlier, oldest_us = 0, 0
        for page in self.pages():
            for met in page:
                now, then = (decide(terms, met.times, held=False, now_us=at_us) for terms in met[3:5])
                minimums[met.id] = then.min_until_us if then.min_until_us > at_us else 0
                earlier += _goes_earlier(now, then)
                if _is_over(then) and (not _is_over(now) or now.state != then.state):
                    roots.append(met.id)
                    oldest_us = min(oldest_us or met.times.created_us, met.times.created_us)
        with parts.log.records.snapshot() as reader:
            nodes = gather(
                reader, tenant, roots, active_holds(parts.store, tenant), at_us, parts.spared(tenant)
            )
            for id_ in under_way(parts.log, reader):
                nodes.pop(id_, None)
        for id_ in nodes.keys() & minimums.keys():
            nodes[id_] = nodes[id_]._replace(min_until_us=minimums[id_])
        plan = make_plan(
            selector=Selector("tenant", tenant.tenant_id),
            cause="policy",
            roots=roots,
            nodes=nodes,
            forks="exclude",
            now_us=at_us,
        )
        return Effect(counts=plan.counts, earlier=earlier, oldest_us=oldest_us)

    def run(self, watch: Watch) -> bool:
        """Bind everything anew; whether there was nothing to do, and nothing of it can come back otherwise.

        Raises:
            Fenced: another process took the sweep over.
            ClockAnomaly: the clock jumped meanwhile.
        """
        changed = 0
        for page in self.pages():
            if page:
                changed += self._bound(watch, page)
        with self.parts.log.records.snapshot() as reader:
            unfinished = map(OperationRow._make, reader.scan("unfinished_operations"))
            going = any(row.tenant_id == self.tenant.tenant_id for row in unfinished)
        return not changed and not going  # what a hold takes out of an erasure is bound as it was

    def pages(self) -> Iterator[list[Met]]:
        """What is bound otherwise than the policy says, page by page, each from one snapshot."""
        for statement, fields in (("sessions_to_bind", _SESSIONS), ("items_to_bind", _ITEMS)):
            after: dict[str, Any] = dict.fromkeys(fields, -1) | dict.fromkeys(("owner", "space"), b"")
            after = {name: after[name] for name in fields}
            while True:
                with self.parts.log.records.snapshot() as reader:
                    place = {"tenant_id": self.tenant.tenant_id, "limit": BATCH}
                    listed = list(reader.scan(statement, **after, **place))
                    made = SessionRow if statement == "sessions_to_bind" else ItemRow
                    page = [met for row in listed if (met := self._met(reader, made._make(row)))]
                yield page
                if len(listed) < BATCH:
                    break
                last = made._make(listed[-1])
                after = {name: getattr(last, name) for name in fields}

    def _met(self, reader: Reader, row: SessionRow | ItemRow) -> Met | None:
        """What the policy says of a row; None where it is bound so, or cannot be read."""
        try:
            if not is_sound(row) or row.owner == self.parts.spared(self.tenant):
                return None
            terms = retention.decode(row.retention)
            if terms.policy == self.policy.mark:
                return None
            if isinstance(row, SessionRow):
                times = Times(row.created_us, row.updated_us, row.ended_us)
                opened = self._session(row)
            else:
                times = Times(row.created_us, row.created_us)
                opened = self._item(reader, row)
            if opened is None:
                return None
            kind = SESSION if isinstance(row, SessionRow) else row.kind
            again = self._again(terms, kind, opened[1])
        except _UNREADABLE:
            return None
        id_ = row.session_id if isinstance(row, SessionRow) else row.item_id
        return None if again == terms else Met(id_, row.owner, kind, terms, again, times)

    def _session(self, row: SessionRow) -> tuple[EpochKeys, Labels] | None:
        """The keys and labels of a session whose row verifies."""
        keys = keys_of(self.parts.log, self.tenant, row)
        return None if keys is None else (keys, labels_of(open_about(keys, row)))

    def _item(self, reader: Reader, row: ItemRow) -> tuple[EpochKeys, Labels] | None:
        """The keys and labels of an item whose row verifies."""
        keys = Opener(self.parts.log, self.tenant, row.owner, reader).keys_of(row)
        return None if keys is None else (keys, labels_of(open_about_item(keys, row)))

    def _again(self, terms: Terms, kind: str, labels: Labels) -> Terms:
        return rebound(
            terms,
            self.policy,
            kind,
            labels,
            bounds=self.parts.policies.bounds,
            before=self.known.get(terms.policy),
        )

    # ------------------------------------------------------------------------------------------- writing

    def _bound(self, watch: Watch, page: list[Met]) -> int:
        """Bind what one page met anew; how many it was."""

        def work(transaction: Transaction) -> list[Met]:
            watch.check(transaction)
            return [met for met in page if self._moved(transaction, met)]

        moved = self.parts.log.records.transact(work)
        for met in moved:
            if met.kind == SESSION:
                self.parts.log.appended(met.id, 0)
        return len(moved)

    def _moved(self, transaction: Transaction, met: Met) -> bool:
        """Bind one anew, as its row stands now; False for one that is being erased, or was bound already."""
        row = self._row(transaction, met)
        if row is None or row.state == "erasing":
            return False
        try:
            opened = self._session(row) if isinstance(row, SessionRow) else self._item(transaction, row)
            if opened is None:
                return False
            terms, (keys, labels) = retention.decode(row.retention), opened
        except _UNREADABLE:
            return False
        again = self._again(terms, met.kind, labels)
        if again == terms or terms.policy == self.policy.mark:
            return False
        if isinstance(row, SessionRow):
            taken = _move_session(transaction, keys, row, retention.encode(again))
        else:
            taken = _move_item(transaction, keys, row, again)
        if not taken:
            raise Tampered("the database does not take new retention terms: its rules were changed")
        return True

    def _row(self, transaction: Transaction, met: Met) -> SessionRow | ItemRow | None:
        if met.kind == SESSION:
            return stored_session(transaction, self.tenant, met.id)
        return transaction.items.by_id(met.id, self.tenant.tenant_id, met.owner)


def _move_session(transaction: Transaction, keys: EpochKeys, before: SessionRow, kept: bytes) -> bool:
    after = before._replace(retention=kept, version=before.version + 1)
    after = after._replace(due_hour=due_hour(after))
    after = after._replace(mac=rows.session_mac(keys.mac, after))
    if not transaction.move_session(after, before):
        return False
    transaction.heads[after.session_id] = after
    return True


def _move_item(transaction: Transaction, keys: EpochKeys, before: ItemRow, again: Terms) -> bool:
    due = due_us(again, Times(before.created_us, before.created_us)) // HOUR_US
    after = before._replace(retention=retention.encode(again), due_hour=due)
    after = after._replace(mac=item_rows.item_mac(keys.mac, after))
    return transaction.items.move(after, before)


def _is_over(decision: Decision) -> bool:
    """Whether an item is erased, at once or after its grace; what only waits for review is not."""
    return decision.action == "erase" and (decision.state == "DUE" or not decision.visible)


def _goes_earlier(now: Decision, then: Decision) -> bool:
    """Whether an item would be hidden or erased earlier, not be reviewed before, or lose of its minimum."""

    def end(moment_us: int | None) -> int:
        return FOREVER_US if moment_us is None else moment_us

    return (
        end(then.expires_us) < end(now.expires_us)
        or end(then.delete_at_us) < end(now.delete_at_us)
        or then.min_until_us < now.min_until_us
        or (now.action != "erase" and then.action == "erase" and then.delete_at_us is not None)
    )
