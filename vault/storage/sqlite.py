"""SQLite connections: pragmas read back, one writer whose commits are shared, readers per thread."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from vault.errors import StorageUnavailable, VaultClosed, VaultError
from vault.storage.lock import FairLock
from vault.storage.wording import NOT_WRITABLE, in_words, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Most callers that share one commit; above, the first of them would wait for work that is not theirs.
_GROUP_MAX: Final = 256
#: Commits after which the background checkpoint runs: about 10 MB of log when each is one event.
_CHECKPOINT_COMMITS: Final = 1000
#: Bytes of write-ahead log at which the writer itself empties it (it reached 262 MB without such a rule).
_LOG_BYTES_MAX: Final = 64 * 2**20
_REWRITTEN_BYTES_MAX: Final = 2**29  # half a gigabyte, which is held in memory meanwhile
_SHORT_BYTES: Final = 2**20  # a shorter one is emptied at once: some milliseconds
_SYNCHRONOUS: Final = {"FULL": "PRAGMA synchronous = FULL", "NORMAL": "PRAGMA synchronous = NORMAL"}
_REQUIRED: Final = {
    "PRAGMA journal_mode": "wal",
    "PRAGMA secure_delete": 1,
    "PRAGMA foreign_keys": 1,
    "PRAGMA temp_store": 2,
}


class Database:
    """One SQLite file: readers, and a writer that groups the commits of concurrent threads."""

    def __init__(self, path: Path, lock_path: Path, *, synchronous: str, lock_seconds: float) -> None:
        """Open the file (made when absent) and set its pragmas.

        Args:
            path: the database file.
            lock_path: the fair lock's file, shared by every process that writes this database.
            synchronous: ``FULL`` (an acknowledged commit survives power loss) or ``NORMAL``.
            lock_seconds: how long a writer waits for its turn.
        """
        self._path, self._synchronous = path, synchronous
        self._lock = FairLock(lock_path, lock_seconds)
        self._pid, self._closed = os.getpid(), False
        self._idle: list[sqlite3.Connection] = []  # readers; as many as ever read at the same time
        self._guard = threading.Lock()
        self._queue: deque[_Job] = deque()
        self._led = False  # whether a thread is committing, or about to; it takes what is queued by then
        self._turn = threading.Lock()
        self._commits = 0
        self._committed, self._waiting = threading.Condition(), 0
        self._make_private()
        self._writer = self._connect()
        self._wal = path.with_name(path.name + "-wal")
        self._stop = threading.Event()
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._checkpoints, name="vault-checkpoint", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A read connection inside a read transaction."""
        connection = self._reader()
        try:
            with translated():
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    connection.execute("COMMIT")
        finally:
            self._give_back(connection)

    def glance(self, query: str) -> Any:
        """The one row of a query by itself, as of the newest commit; cheaper than a snapshot."""
        connection = self._reader()
        try:
            return connection.execute(query).fetchall()[0]  # to its end: until then it holds a snapshot
        except sqlite3.Error as error:
            raise in_words(error) from None
        finally:
            self._give_back(connection)

    def write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run ``work`` in a write transaction and return its result once that is durable.

        Callers that arrive while another commit is under way are run together in the next one; each inside
        its own savepoint, so one that raises undoes only itself.
        """
        self._check_open()
        job = _Job(work)
        try:
            with self._guard:
                self._queue.append(job)
                job.leads, self._led = not self._led, True
            if not job.leads:
                # Every waiter has a lock of its own: with one for all, those whose work is done would queue
                # for it behind the next commit, and so come too late to share the one after.
                job.turn.acquire()
            if not job.done:
                with self._turn:
                    self._lead()
        finally:
            self._leave(job)
        if job.error is not None:
            raise job.error
        return job.result

    def migrate(self, apply: Callable[[sqlite3.Connection], None]) -> None:
        """Run a schema change under the write lock, outside of any transaction of ours."""
        with self._turn, self._lock, translated():
            apply(self._writer)

    def commits(self) -> int:
        """Commits of this process so far."""
        return self._commits

    def wait_commit(self, seen: int, timeout_seconds: float) -> None:
        """Wait until this process commits again, or for the timeout."""
        with self._committed:
            self._waiting += 1
            self._committed.wait_for(lambda: self._commits != seen or self._closed, timeout_seconds)
            self._waiting -= 1

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file, up to 20 lines: broken pages, an index unlike its table."""
        with self.snapshot() as connection:
            lines = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(20)")]
        return [] if lines == ["ok"] else lines

    def settle(self) -> None:
        """Write through what ``synchronous = NORMAL`` left to the operating system: the write-ahead log.

        Raises:
            StorageUnavailable: the disk did not take it.
        """
        self._check_open()
        if self._synchronous == "FULL":
            return
        try:
            descriptor = os.open(self._wal, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return  # emptied into the database file, which is synced with that
        except OSError:
            raise StorageUnavailable("the write-ahead log cannot be made durable; check the disk") from None

    def truncate(self) -> bool:
        """Empty the write-ahead log; False when a reader keeps part of it for longer than half a second."""
        self._copy_log()
        with self._turn, self._lock, translated():
            # It waits for readers with the write lock held: not for as long as for a lock of its own.
            self._writer.execute("PRAGMA busy_timeout = 500").fetchone()
            try:
                busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                self._writer.execute("PRAGMA busy_timeout = 30000").fetchone()
        return not busy

    def shorten(self) -> None:
        """Let the write-ahead log start anew if it is long; writers wait for the last few pages only."""
        if self._copy_log():
            with self._turn, self._lock:
                self._finish_checkpoint()

    def rewrite(self) -> bool:
        """Write the whole file anew, with nothing on its pages but what is live; False for a large one."""
        if self._path.stat().st_size > _REWRITTEN_BYTES_MAX:
            return False
        with self._turn, self._lock, translated():
            self._writer.execute("VACUUM")
        return self.truncate()

    def _copy_log(self) -> bool:
        """Copy a long log into the database while others write; whether there was one."""
        with contextlib.suppress(VaultError, OSError):
            is_long = self._wal.stat().st_size > _SHORT_BYTES
            return is_long and bool(self.glance("PRAGMA wal_checkpoint(PASSIVE)"))
        return False

    def close(self) -> None:
        """Close every connection; what was acknowledged is in the file or its log."""
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._committed:
            self._committed.notify_all()
        if self._pid != os.getpid():
            return  # a forked child must not touch its parent's connections
        with self._turn, self._guard:
            for connection in [*self._idle, self._writer]:
                connection.close()
            self._idle.clear()
            self._lock.close()

    def _reader(self) -> sqlite3.Connection:
        self._check_open()
        with self._guard:
            connection = self._idle.pop() if self._idle else None
        return connection or self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._guard:
            kept = not (connection.in_transaction or self._closed)
            if kept:
                self._idle.append(connection)
        if not kept:
            connection.close()  # also when the database was closed meanwhile: whoever reads last closes

    def _make_private(self) -> None:
        # SQLite gives a new file the process's default mode, and its log and index the mode of the file. One
        # that exists is not opened here: closing it would drop the locks that another connection of this
        # process holds on it (fcntl(2)), and another process would then take its log away.
        try:
            if not os.access(self._path, os.F_OK):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            elif not os.access(self._path, os.R_OK | os.W_OK):
                raise PermissionError
        except FileExistsError:
            return  # another process made it this moment
        except OSError:
            raise StorageUnavailable(NOT_WRITABLE) from None

    def _connect(self) -> sqlite3.Connection:
        with translated():
            connection = sqlite3.connect(
                self._path, timeout=30, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        with translated():
            # Only a new file takes it: against 4096, a fifth less time per append and two thirds of the bytes
            # written, since an append touches a few pages wherever they are.
            connection.execute("PRAGMA page_size = 2048")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_SYNCHRONOUS[self._synchronous])
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA trusted_schema = OFF")
            # Builds differ in what they allow: a setting that did not take is found here, not after a leak.
            for pragma, expected in _REQUIRED.items():
                if connection.execute(pragma).fetchone()[0] != expected:
                    raise StorageUnavailable(f"this SQLite build does not honour {pragma}; use another build")

    def _leave(self, job: _Job) -> None:
        """Hand the lead on to whoever waits longest; also when interrupted, for example by Ctrl-C."""
        with self._guard:
            if not job.done and job in self._queue:
                self._queue.remove(job)
            if job.leads:
                self._led = bool(self._queue)
                if self._queue:
                    self._queue[0].leads = True
                    self._queue[0].turn.release()

    def _lead(self) -> None:
        with self._guard:
            jobs = [self._queue.popleft() for _ in range(min(len(self._queue), _GROUP_MAX))]
        try:
            self._check_open()  # it may have been closed while they waited
            with self._lock, translated():
                self._writer.execute("BEGIN IMMEDIATE")  # takes SQLite's write lock now, not half-way
                try:
                    for job in jobs:
                        job.run(self._writer, alone=len(jobs) == 1)
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
                for job in jobs:
                    job.done = True
                self._keep_log_short()
        except Exception as error:  # noqa: BLE001 - raised again by every caller that waits for it
            for job in jobs:
                job.fail(error)
        except BaseException:
            for job in jobs:
                job.fail(StorageUnavailable("the commit was interrupted; nothing was written, try again"))
            raise
        finally:
            for job in jobs:
                if not job.leads:
                    job.turn.release()
        if self._waiting:
            with self._committed:
                self._committed.notify_all()

    def _keep_log_short(self) -> None:
        self._commits += 1
        if self._commits % _CHECKPOINT_COMMITS == 0:
            self._due.set()
        elif self._commits % _CHECKPOINT_COMMITS == _CHECKPOINT_COMMITS // 2:
            self._finish_checkpoint()

    def _finish_checkpoint(self) -> None:
        """Copy the few pages after the thread's checkpoint, so that the next commit starts the log anew.

        Without it the log is never copied whole while somebody writes, so it grows; and a commit that makes a
        file longer waits for the file system's journal too.
        """
        with contextlib.suppress(sqlite3.Error, OSError):  # the commit stands; the next round tries again
            if self._wal.stat().st_size > _LOG_BYTES_MAX:
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            else:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _checkpoints(self) -> None:
        while self._due.wait() and not self._stop.is_set():
            self._due.clear()
            # A passive checkpoint waits for nobody; one that fails, on a full disk, is tried again later.
            with contextlib.suppress(VaultError), translated(), contextlib.closing(self._connect()) as own:
                own.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _check_open(self) -> None:
        if self._closed or self._pid != os.getpid():
            raise VaultClosed


class _Job:
    """One caller's work within a shared commit."""

    __slots__ = ("done", "error", "leads", "result", "turn", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        self.work = work
        self.leads = False
        self.turn = threading.Lock()
        self.turn.acquire()  # released to whom waits for it, once
        self.result: Any = None
        self.error: Exception | None = None
        self.done = False

    def run(self, connection: sqlite3.Connection, *, alone: bool) -> None:
        if alone:
            with translated():
                self.result = self.work(connection)
            return
        connection.execute("SAVEPOINT job")
        try:
            with translated():
                self.result = self.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite gave up the whole transaction (disk full): no job of the group counts
            connection.execute("ROLLBACK TO job")
            self.error = error
        connection.execute("RELEASE job")

    def fail(self, error: Exception) -> None:
        if not self.done:
            self.error = self.error or error
            self.done = True
