"""The threads of a SqliteSaver in, for ``VaultSaver`` to go on with; the file is opened for reading only."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from vault.adapters.binding import Binding
from vault.adapters.langgraph_log import ThreadLogs
from vault.adapters.langgraph_put import Put, PutWrites
from vault.adapters.langgraph_records import Stored
from vault.adapters.langgraph_shapes import PLACED
from vault.adapters.langgraph_values import Values, check_restricted, read
from vault.errors import InvalidInput
from vault.storage import foreign

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from vault.adapters import Progress
    from vault.faces import Access

#: What LangGraph itself keeps in a checkpoint's metadata; whatever else is there came from somebody's call.
_KEPT: Final = frozenset({"source", "step", "parents", "run_id", "counters_since_delta_snapshot"})
_CHECKPOINTS: Final = """
    SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
    FROM checkpoints ORDER BY thread_id, checkpoint_id, checkpoint_ns"""
_WRITES: Final = """
    SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, value
    FROM writes ORDER BY thread_id, checkpoint_ns, checkpoint_id, task_id, idx"""
_COUNT: Final = "SELECT (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM writes)"
_HAS_PATH: Final = "SELECT count(*) FROM pragma_table_info('writes') WHERE name = 'task_path'"
_REFUSED: Final = "a row of this file is not as SqliteSaver writes it, or its key is another one"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteImport:
    """What was taken over.

    ``left_out`` names what else stood in metadata: SqliteSaver copies there whatever a call's configuration
    held, keys of services among it.
    """

    threads: int
    checkpoints: int
    writes: int
    left_out: frozenset[str] = field(repr=False)


def import_langgraph_sqlite(
    access: Access,
    path: str | Path,
    *,
    serde: JsonPlusSerializer | EncryptedSerializer | None = None,
    metadata_keys: Iterable[str] = (),
    progress: Progress | None = None,
) -> SqliteImport:
    """Move all threads of a SqliteSaver's file in, each checkpoint and write under its own ids.

    Doing it again takes over only what is not there yet, so one that was interrupted is simply repeated.

    Args:
        access: from ``vault.access``: whose threads they become.
        path: the database file.
        serde: the EncryptedSerializer that the file was written with, or a JsonPlusSerializer that names the
            classes of the state; of both, only one that makes no other classes is taken.
        metadata_keys: what to take over of metadata beside LangGraph's own.
        progress: gets the rows done and all rows.

    Raises:
        InvalidInput: it is no such file, a row holds a class that was not named, or the key is another one.
        Erased: a thread of this id was deleted from the vault.
    """
    given = JsonPlusSerializer(allowed_msgpack_modules=None) if serde is None else serde
    inner = given.serde if isinstance(given, EncryptedSerializer) else given
    check_restricted(inner)  # type: ignore[arg-type]  # what an EncryptedSerializer holds is looked at there
    with foreign.opened(Path(path)) as db:
        if not {"checkpoints", "writes"} <= db.tables():
            raise InvalidInput("this file has no tables of a SqliteSaver; check its path")
        work = _Import(access, given, inner, frozenset(metadata_keys) | _KEPT)  # type: ignore[arg-type]
        ((checkpoints, writes),) = db.rows(_COUNT)
        work.report(progress, checkpoints, writes)
        with _closing(db.rows(_CHECKPOINTS)) as rows:
            for row in rows:
                work.checkpoint(*row)
        ((has_path,),) = db.rows(_HAS_PATH)
        with _closing(db.rows(_WRITES.format(path="task_path" if has_path else "''"))) as rows:
            for key, some in groupby(rows, key=itemgetter(0, 1, 2, 3, 4)):
                work.writes(key, [row[5:] for row in some])
    return work.done()


@contextlib.contextmanager
def _closing(rows: Iterator[tuple[Any, ...]]) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows, read no further when a row is refused: before the file is closed."""
    try:
        yield rows
    finally:
        cast("Generator[tuple[Any, ...], None, None]", rows).close()


class _Import:
    """One file on its way in."""

    def __init__(
        self,
        access: Access,
        serde: JsonPlusSerializer | EncryptedSerializer,
        inner: JsonPlusSerializer,
        kept: frozenset[str],
    ) -> None:
        self._logs = ThreadLogs(Binding(access, "langgraph"))
        self._serde, self._values, self._kept = serde, Values(inner), kept
        self._threads: set[str] = set()
        self._left_out: set[str] = set()
        self._checkpoints = self._writes = self._rows = self._all = 0
        self._progress: Progress | None = None

    def report(self, progress: Progress | None, checkpoints: int, writes: int) -> None:
        self._progress, self._all = progress, checkpoints + writes

    def done(self) -> SqliteImport:
        return SqliteImport(
            threads=len(self._threads),
            checkpoints=self._checkpoints,
            writes=self._writes,
            left_out=frozenset(self._left_out),
        )

    def checkpoint(self, thread: str, ns: str, one: str, parent: str | None, *row: Any) -> None:
        """Take over a checkpoint; it costs what is new in it, as when a graph runs."""
        tag, data, metadata = row
        checkpoint = self._loaded(tag, data)
        known = self._metadata(metadata)
        self._left_out |= known.keys() - self._kept
        try:
            rest = {key: value for key, value in checkpoint.items() if key not in PLACED}
            draft = Stored(
                ns=ns,
                id=one,
                parent=parent or None,
                rest=self._values.chunk(rest),
                metadata=self._values.chunk({k: v for k, v in known.items() if k in self._kept}),
                versions=dict(checkpoint["channel_versions"]),
                seen={node: dict(seen) for node, seen in checkpoint["versions_seen"].items()},
                nodes={},
            )
            # All of them: SqliteSaver keeps two values of one version apart, so a version tells nothing here.
            work = Put(draft, checkpoint["channel_values"], frozenset(draft.versions), self._values)
        except (AttributeError, KeyError, TypeError):
            raise InvalidInput(_REFUSED) from None
        if self._logs.write(thread, work.write_once):
            self._checkpoints += 1
        self._threads.add(thread)
        self._tell(1)

    def writes(self, key: tuple[str, str, str, str, str], rows: list[tuple[int, str, str, bytes]]) -> None:
        """Take over what one task wrote."""
        thread, ns, checkpoint, task, path = key
        placed = [(place, channel, self._loaded(tag, data)) for place, channel, tag, data in rows]
        work = PutWrites((ns, checkpoint), placed, task, path, self._values)
        self._writes += self._logs.write(thread, work.write_once)
        self._threads.add(thread)
        self._tell(len(rows))

    def _loaded(self, tag: Any, data: Any) -> Any:
        encrypted = isinstance(self._serde, EncryptedSerializer)
        # Whoever could write the file could have put a row in clear among the encrypted ones.
        if not isinstance(tag, str) or not isinstance(data, bytes) or encrypted is not ("+" in tag):
            raise InvalidInput(_REFUSED)
        return read(self._serde, tag, data, _REFUSED)

    def _metadata(self, stored: Any) -> dict[str, Any]:
        try:
            metadata = json.loads(stored) if stored is not None else {}
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput(_REFUSED) from None
        if not isinstance(metadata, dict):
            raise InvalidInput(_REFUSED)
        return metadata

    def _tell(self, rows: int) -> None:
        self._rows += rows
        if self._progress is not None:
            self._progress(self._rows, self._all)
