"""Where an item came from and what came from it, both ways, as trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vault.derived.item import ABSENT, ARTIFACT, check_limit, item_name
from vault.derived.opening import READABLE, Opener, is_shown
from vault.derived.sources import PREFIXES, Named, decode
from vault.derived.stale import STALE_MAX, Stale, stale
from vault.errors import NotFound, Tampered
from vault.model import format_id, parse_id
from vault.sessions.log import is_live
from vault.sessions.read import verified_view

if TYPE_CHECKING:
    from vault.access.door import Grant, Leave
    from vault.ports.items import ItemRow
    from vault.ports.records import Reader
    from vault.sessions.log import Log

#: Nodes of one answer, and steps away from what was asked for; what is left out is marked.
NODES_MAX: Final = 1_000
STEPS_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A session, event or derived item in a lineage.

    ``state`` is ``live``, ``superseded``, ``stale``, ``expired``, ``erasing``, or ``gone`` for what is not
    there any more. ``session_id`` is an event's. ``more`` says that what is beyond it is not shown here: it
    stands elsewhere in the answer, or the answer is full.
    """

    kind: str
    id: str
    state: str
    version: int | None = None
    session_id: str | None = None
    sources: tuple[Node, ...] = ()
    derived: tuple[Node, ...] = ()
    more: bool = False


class Derived:
    """What one principal derived, as a graph."""

    def __init__(self, log: Log, authorise: Leave) -> None:
        """Made by ``Vault.access``; ``authorise`` gives leave for one action at a time."""
        self._log, self._authorise = log, authorise

    def stale(self, *, limit: int = 100) -> list[Stale]:
        """What went with one of its sources and is to be made again from the others (``recompute``).

        A new version under the same name settles it. It goes with the next of its sources, and at its time
        limit.

        Args:
            limit: at most so many, up to 1,000.

        Raises:
            InvalidInput: a limit out of range.
            Tampered: one of the requests was changed, moved or forged.
        """
        check_limit(limit, STALE_MAX)
        try:
            grant = self._authorise("read")
        except NotFound:
            return []  # a new tenant, or no leave: both look empty
        return stale(self._log, grant, limit)

    def lineage(self, id: str) -> Node:
        """What a session or derived item came from, down to the log, and what the principal made from it.

        Args:
            id: of a memory, artifact or session.

        Raises:
            NotFound: there is none, or it is another owner's: both answer alike.
            Tampered: it was changed, moved or forged.
        """
        asked = _asked(id)
        try:
            grant = self._authorise("read")
            if asked.kind == "session":
                with verified_view(self._log, self._authorise.session("read", asked.id), asked.id):
                    pass
            with self._log.records.snapshot() as reader:
                return _Walk(self._log, grant, reader).around(asked)
        except NotFound:
            raise NotFound(ABSENT) from None


def _asked(id_: str) -> Named:
    text = id_ if isinstance(id_, str) else ""
    for prefix, kind in PREFIXES.items():
        raw = parse_id(prefix, text)
        if raw is not None:
            return Named(kind, raw)
    raise NotFound(ABSENT)


class _Walk:
    """One walk through a lineage, in one snapshot."""

    def __init__(self, log: Log, grant: Grant, reader: Reader) -> None:
        self._log, self._grant, self._reader = log, grant, reader
        self._opener = Opener(log, grant.tenant, grant.owner, reader)
        self._left, self._shown = NODES_MAX, set[tuple[bytes, bool]]()

    def around(self, asked: Named) -> Node:
        """What was asked for, with all of it."""
        if asked.kind == "session":
            derived = self._derived(asked.id, 0)
            return Node(kind="session", id=format_id("ses", asked.id), state="live", derived=derived)
        row = self._opener.by_id(asked.id).row
        if (row.kind == ARTIFACT) != (asked.kind == ARTIFACT):
            raise NotFound(ABSENT)
        return self._item(row, row.state, self._sources(row, 0), self._derived(row.item_id, 0))

    def _item(
        self,
        row: ItemRow,
        state: str,
        sources: tuple[Node, ...] = (),
        derived: tuple[Node, ...] = (),
        *,
        more: bool = False,
    ) -> Node:
        return Node(
            kind=row.kind,
            id=item_name(row.kind, row.item_id),
            state=state,
            version=row.version,
            sources=sources,
            derived=derived,
            more=more,
        )

    def _sources(self, row: ItemRow, steps: int) -> tuple[Node, ...]:
        """What a verified item came from."""
        nodes = []
        for source in decode(row.sources):
            if self._left <= 0:
                break
            self._left -= 1
            if source.kind in {"session", "event"}:
                shown, state = source.shown(), self._session_state(source.id)
                nodes.append(Node(kind=shown.kind, id=shown.id, state=state, session_id=shown.session_id))
                continue
            before = self._reader.items.by_id(source.id, row.tenant_id, row.owner)
            state = self._item_state(before)
            if before is None:
                nodes.append(Node(kind=source.kind, id=item_name(source.kind, source.id), state=state))
            elif state == "gone" or self._is_shown(source.id, steps, up=True):
                nodes.append(self._item(before, state, more=state != "gone"))
            else:
                nodes.append(self._item(before, state, self._sources(before, steps + 1)))
        return tuple(nodes)

    def _derived(self, source_id: bytes, steps: int) -> tuple[Node, ...]:
        """What the principal made from something."""
        place, nodes = (source_id, self._grant.tenant.tenant_id, self._grant.owner), []
        for row in self._reader.items.made_from(*place, limit=max(self._left, 0)):
            self._left -= 1
            state = self._item_state(row)
            if state != "gone" and source_id not in {one.id for one in decode(row.sources)}:
                raise Tampered(
                    "a derived item is said to come from what it does not name: the lineage is forged"
                )
            if state == "gone" or self._is_shown(row.item_id, steps, up=False):
                nodes.append(self._item(row, state, more=state != "gone"))
            else:
                nodes.append(self._item(row, state, derived=self._derived(row.item_id, steps + 1)))
        return tuple(nodes)

    def _is_shown(self, item_id: bytes, steps: int, *, up: bool) -> bool:
        """Whether what is beyond an item is left out here: it was shown before, or this is far enough."""
        known = (item_id, up) in self._shown
        self._shown.add((item_id, up))
        return known or steps + 1 >= STEPS_MAX or self._left <= 0

    def _item_state(self, row: ItemRow | None) -> str:
        """An item's state, its row verified where its key is still there."""
        if row is None:
            return "gone"
        if row.state not in READABLE:
            return row.state
        if self._opener.keys_of(row) is None:
            return "gone"
        return row.state if is_shown(row, self._log.clock.now_us()) else "expired"

    def _session_state(self, session_id: bytes) -> str:
        tenant_id = self._grant.tenant.tenant_id
        owner = self._reader.owner_of(session_id, tenant_id)
        row = None if owner is None else self._reader.session(session_id, tenant_id, owner)
        if row is None:
            return "gone"
        if row.state == "erasing":
            return row.state
        return "live" if is_live(row, self._log.clock.now_us()) else "expired"
