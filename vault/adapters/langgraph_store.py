"""LangGraph's long-term store on a vault: an item is a memory, and knows which conversation it came from.

    store = VaultStore(vault.access(Principal(tenant="acme", subject="alice")))
    graph = builder.compile(checkpointer=…, store=store)

What a node puts while a thread runs has that thread's session as its source, so it goes when the thread is
erased. Whose the items are is in the access; nothing that travels through the framework changes it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from vault.adapters import langgraph_store_filter as filters
from vault.adapters.binding import Binding
from vault.adapters.langgraph_store_batch import Batch
from vault.adapters.langgraph_store_items import HELD, ITEMS, MINUTE_US, Stored, Times, place
from vault.adapters.langgraph_store_shelf import Found, Shelf, quietly
from vault.adapters.langgraph_store_sources import FRAMEWORK, Sources
from vault.adapters.langgraph_store_sweeper import MINUTES, Sweeper
from vault.adapters.langgraph_store_vectors import Embedded, Vectors, nearness
from vault.aio import settled
from vault.clock import SystemClock, from_us
from vault.derived.item import check_value
from vault.errors import Conflict, NotFound

if TYPE_CHECKING:
    from vault.clock import Clock
    from vault.faces import Access
    from vault.sessions.session import Session

#: Of a deletion that others are in the way of.
_TRIES: Final = 3
_KEPT: Final = frozenset({"held", "minimum"})


class VaultStore(BaseStore):
    """A store of one principal's items, for LangGraph; safe to share between threads."""

    supports_ttl = True

    def __init__(
        self,
        access: Access,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        scope: Session | None = None,
        reuse_erased: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Keep items in a vault.

        Args:
            access: from ``vault.access``: whose items they are.
            index: what is embedded and by what, as for every store of LangGraph; None: a query ranks nothing.
            ttl: ``default_ttl``, ``refresh_on_read`` and ``sweep_interval_minutes``, as for every store of
                LangGraph; what expired is never shown, whatever ``omit_expired`` says.
            scope: the source of what is put outside of any thread and run; None: a session of the store's
                own stands for it, a new one each day.
            reuse_erased: take items of a thread that was erased and is begun anew; else whoever puts late is
                refused.
            clock: another source of time, for tests.

        Raises:
            InvalidInput: the index says no number of dimensions.
        """
        self.ttl_config, self.index_config = ttl, index
        self._access, self._clock = access, clock or SystemClock()
        self._shelf = Shelf(access, self._clock)
        self._sources = Sources(Binding(access, FRAMEWORK, reuse_erased=reuse_erased), scope, self._clock)
        self._vectors = None if index is None else Vectors(index)
        self.embeddings = None if self._vectors is None else self._vectors.embeddings
        self._sweeper = Sweeper(self.sweep_ttl)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out reads as things stand before, then puts, of each item the last.

        Raises:
            InvalidInput: an operation, name, filter or value cannot be taken; nothing was written.
            Erased: the running thread was erased.
            NotFound: it is being erased, or there is no leave to write.
            Conflict: a hold or a minimum keeps what was to be deleted.
            Tampered: something was changed, moved or forged.
        """
        batch, made = Batch(ops), Embedded()
        if self._vectors is not None:
            made = self._vectors.embedded(self._vectors.of_all(batch.puts.values()), batch.queries())
        return self._carried_out(batch, made)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As ``batch``, in a thread; one that is cancelled comes to its end first."""
        batch, made = Batch(ops), Embedded()
        if self._vectors is not None:
            made = await self._vectors.aembedded(self._vectors.of_all(batch.puts.values()), batch.queries())
        return await settled(self._carried_out, batch, made)

    def _carried_out(self, batch: Batch, made: Embedded) -> list[Result]:
        results: list[Result] = [None] * batch.size
        for at, op in batch.reads.items():
            if isinstance(op, GetOp):
                results[at] = self._get(op)
            elif isinstance(op, SearchOp):
                results[at] = self._search(op, made)
            else:
                results[at] = self._namespaces(op)
        for put in batch.puts.values():
            if put.value is None:
                self._erase(put)
            else:
                self._put(put, put.value, made)
        return results

    # -------------------------------------------------------------------------------------------- reads

    def _get(self, op: GetOp) -> Item | None:
        found = self._shelf.opened(op.namespace, op.key)
        if found is None:
            return None
        if op.refresh_ttl:
            self._shelf.prolong(found)
        return Item(**_shown(found.item))

    def _search(self, op: SearchOp, made: Embedded) -> list[SearchItem]:
        prefix, wanted = tuple(op.namespace_prefix), filters.checked(op.filter)

        def means(item: Stored) -> bool:
            return item.namespace[: len(prefix)] == prefix and filters.matches(item.value, wanted)

        ranked = self._ranked(op, [item for item in self._shelf.items(prefix) if means(item)], made)
        found: list[Found] = []
        passed = 0
        for item, score in ranked:
            if len(found) == op.limit:
                break
            # What is passed over is opened too, so that pages fit together; no run learns anything of it.
            open_item = self._shelf.opened if passed >= op.offset else quietly(self._shelf.opened)
            opened = open_item(item.namespace, item.key)
            if opened is None or not means(opened.item):
                continue  # gone, or another by now
            passed += 1
            if passed > op.offset:
                found.append(opened._replace(score=score))
        for one in found if op.refresh_ttl else ():
            self._shelf.prolong(one)
        return [SearchItem(**_shown(one.item), score=one.score) for one in found]

    def _ranked(self, op: SearchOp, items: list[Stored], made: Embedded) -> list[tuple[Stored, float | None]]:
        """By nearness to the query, those without a vector last; else what was put last first."""
        items.sort(key=lambda item: item.updated_us, reverse=True)
        if self._vectors is None or not op.query or not items:
            return [(item, None) for item in items]
        query, kept = made.queries[op.query], self._shelf.vectors(op.namespace_prefix)
        scored = [(item, nearness(query, kept.get(item.revision, ()))) for item in items]
        return sorted(scored, key=lambda one: (one[1] is None, -(one[1] or 0.0)))

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found: dict[tuple[str, ...], list[Stored]] = {}
        for item in self._shelf.items(filters.common_beginning(conditions)):
            if all(filters.fits(item.namespace, one) for one in conditions):
                found.setdefault(item.namespace[: op.max_depth], []).append(item)
        opened = quietly(self._shelf.opened)
        there = (
            namespace
            for namespace, items in sorted(found.items())
            # What is open in memory may be gone: a namespace is there while something of it can be opened.
            if any(opened(item.namespace, item.key) for item in items)
        )
        return list(islice(there, op.offset, op.offset + op.limit))

    # ------------------------------------------------------------------------------------------- writes

    def take(self, op: PutOp, times: Times) -> bool:
        """Keep an item of another store with the times that it has there.

        Returns:
            Whether it was kept: False when there is an item of its names already, which stays as it is.

        Raises:
            As ``batch``.
        """
        (put,) = Batch([op]).puts.values()
        if put.value is None or quietly(self._shelf.opened)(put.namespace, put.key) is not None:
            return False
        made = Embedded() if self._vectors is None else self._vectors.embedded(self._vectors.texts(put), ())
        self._keep(put, put.value, made, times)
        return True

    def _put(self, op: PutOp, value: Mapping[str, Any], made: Embedded) -> None:
        before = quietly(self._shelf.opened)(op.namespace, op.key)
        now_us = self._clock.now_us()
        expires_us = None if op.ttl is None else now_us + round(op.ttl * MINUTE_US)
        created_us = now_us if before is None else before.item.created_us
        self._keep(op, value, made, Times(created_us, now_us, expires_us))

    def _keep(self, op: PutOp, value: Mapping[str, Any], made: Embedded, times: Times) -> None:
        item = Stored(
            namespace=tuple(op.namespace),
            key=op.key,
            value=dict(value),
            created_us=times.created_us,
            updated_us=times.updated_us,
            revision=uuid.uuid4().hex,
            ttl_us=None if op.ttl is None else round(op.ttl * MINUTE_US),
            expires_us=times.expires_us,
        )
        names = place(ITEMS, op.namespace, op.key)
        texts = [] if self._vectors is None else self._vectors.texts(op)
        vectors = {HELD: {"revision": item.revision, "vectors": made.kept(texts)}}
        check_value(vectors)  # before the item is there without them
        memory = self._sources.put(*names, item.body())
        if texts:
            quietly(self._access.memories.put)(*names, vectors, kind="embedding", sources=[memory.id])

    def _erase(self, op: PutOp) -> None:
        """Erase an item in all its versions, with what came from them.

        Raises:
            Conflict: a hold or a minimum keeps it, or others write it again and again.
        """
        names = place(ITEMS, op.namespace, op.key)
        for attempt in range(_TRIES):
            versions = quietly(self._access.memories.history)(*names, limit=1)
            if not versions:
                return
            try:
                outcome = self._access.erasure.erase(memory=versions[0].id)
            except NotFound:
                return
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
                continue
            if _is_kept(outcome.counts):
                raise Conflict("a hold or a minimum keeps this item; it is hidden until that ends")
            return

    # ------------------------------------------------------------------------------------- times to live

    def sweep_ttl(self) -> int:
        """Erase all items whose time is over, in every version, with their embeddings.

        Returns:
            How many items went; what a hold or a minimum keeps stays hidden.

        Raises:
            LimitExceeded: the store holds more items than are looked through.
        """
        return sum(map(self._is_swept, self._shelf.overdue()))

    def _is_swept(self, item: Stored) -> bool:
        try:
            newest = quietly(self._access.memories.get)(*place(ITEMS, item.namespace, item.key))
            plan = self._access.erasure.plan(memory=newest.id, reason="other")
            # Whoever puts it anew, or reads it, once the plan is made changes what the plan is about.
            if _is_kept(plan.counts) or quietly(self._shelf.opened)(item.namespace, item.key) is not None:
                return False
            self._access.erasure.execute(plan)
        except (NotFound, Conflict):
            return False
        return True

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep at once and then every so many minutes, in a thread of its own.

        Args:
            sweep_interval_minutes: else what the TTL configuration says, else 5.

        Returns:
            What is done when the thread has ended, with the error that ended it; without a configuration at
            once, as nothing is swept. To cancel it stops the thread.

        Raises:
            InvalidInput: the interval is not above zero.
        """
        if self.ttl_config is None:
            ended: Future[None] = Future()
            ended.set_result(None)
            return ended
        minutes = sweep_interval_minutes
        if minutes is None:
            minutes = self.ttl_config.get("sweep_interval_minutes")
        return self._sweeper.start(MINUTES if minutes is None else minutes)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the thread after the sweep at work; whether it has ended within ``timeout`` seconds."""
        return self._sweeper.stop(timeout)


def _is_kept(counts: Mapping[tuple[str, str], int]) -> bool:
    return any(count for (_, action), count in counts.items() if action in _KEPT)


def _shown(item: Stored) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": from_us(item.created_us),
        "updated_at": from_us(item.updated_us),
    }
