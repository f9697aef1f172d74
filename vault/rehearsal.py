"""A drill: what would happen if the root key were lost, or a backup restored, tried out on a copy.

The live vault is only read. The copies stand in a temporary directory, and this machine's memory of the
ledger neither counts there nor learns of them. No root key is copied: the copies are opened with the live
one, where it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vault.copies import backup, restore
from vault.erasure.backup import DATA, KEYS, MANIFEST
from vault.errors import KeyUnavailable, NotFound, RolledBack, StorageUnavailable, VaultError
from vault.model import Principal, session_bytes
from vault.storage.copies import copy_database_file
from vault.storage.keystore import SqlKeyStore
from vault.storage.sqlite import Database
from vault.wiring import Vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.clock import Clock
    from vault.keyring import Passphrase

    Progress = Callable[[int, int], None] | None

_STEPS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that was tried: whether it held, and what was seen."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """What a drill found, step by step; after one that did not hold, the others may not have been tried."""

    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        """Whether every step was tried and held."""
        return len(self.steps) == _STEPS and all(step.held for step in self.steps)


def drill(
    vault: Vault, *, within: Path | None = None, passphrase: Passphrase = None, progress: Progress = None
) -> Drill:
    """Rehearse the loss of the root key, a restore, and a restore of something that was erased since.

    Args:
        vault: an open vault.
        within: where the copies are made, three times as large as the vault; the system's temporary
            directory when None.
        passphrase: what opens the vault, when its root key is behind one.
        progress: told (steps done, steps in all).

    Raises:
        StorageUnavailable: there is no room for the copies.
    """
    try:
        directory = Path(tempfile.mkdtemp(prefix="session-vault-drill-", dir=within))  # mode 0700
    except OSError:
        raise StorageUnavailable("no temporary directory can be made there; give another one") from None
    steps: list[Step] = []
    try:
        for step in _Rehearsal(vault, directory, passphrase).steps():
            steps.append(step)
            if progress is not None:
                progress(len(steps), _STEPS)
            if not step.held:
                break
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return Drill(steps=tuple(steps))


class _Rehearsal:
    def __init__(self, vault: Vault, directory: Path, passphrase: Passphrase) -> None:
        self._vault, self._passphrase = vault, passphrase
        self._clock: Clock = vault.stores.parts.log.clock
        self._data, self._keys = directory / "data", directory / "keys"
        self._lost, self._one, self._two = directory / "lost", directory / "one", directory / "two"
        self._later, self._later_keys = directory / "later", directory / "later-keys"
        self._erased = self._part = ""
        self._probe = Principal(tenant=secrets.token_hex(8), subject="drill", roles=frozenset({"owner"}))

    def steps(self) -> Iterator[Step]:
        yield self._tried("backup", self._back_up)
        yield self._tried("root key lost", self._lose_root_key)
        yield self._tried("restore", self._restore)
        yield self._tried("erasure after a backup", self._erase_after_backup)
        yield self._tried("restore of what was erased", self._restore_what_was_erased)
        yield self._tried("old data put back", self._put_old_data_back)

    @staticmethod
    def _tried(name: str, work: Callable[[], tuple[bool, str]]) -> Step:
        try:
            held, detail = work()
        except VaultError as error:
            return Step(name=name, held=False, detail=str(error))
        return Step(name=name, held=held, detail=detail)

    def _back_up(self) -> tuple[bool, str]:
        made = backup(self._vault, self._data, self._keys)
        self._point_at(self._keys / KEYS, self._root_place())
        # Not a backup of keys any more, but a keys.db like that of a vault: it names where the root key is.
        (self._keys / MANIFEST).unlink()
        detail = f"{made.blobs} files of payloads and {made.ledger_entries} ledger entries were copied"
        return not made.damaged, detail if not made.damaged else "payloads of the vault are damaged"

    def _lose_root_key(self) -> tuple[bool, str]:
        self._lost.mkdir()
        copy_database_file(self._keys / KEYS, self._lost / KEYS)
        self._point_at(self._lost / KEYS, b"root.key")
        target = self._lost / "vault"
        wrong = secrets.token_hex(16) if self._passphrase is not None else None
        try:
            restore(
                self._data, target, keys=self._lost, passphrase=wrong, remembered=False, clock=self._clock
            )
        except KeyUnavailable:
            return not target.exists(), "without its root key nothing of the vault opens"
        return False, "the vault opened without its root key"

    def _restore(self) -> tuple[bool, str]:
        done = restore(
            self._data,
            self._one,
            keys=self._keys,
            passphrase=self._passphrase,
            remembered=False,
            clock=self._clock,
        )
        again = f", {done.erased_again} erased again" if done.erased_again else ""
        return True, f"{done.sessions} sessions are restored and verify{again}"

    def _erase_after_backup(self) -> tuple[bool, str]:
        with self._apart(self._one) as vault:
            access = vault.access(self._probe)
            session, other = access.sessions.create(title="drill"), access.sessions.create(title="drill")
            session.append("message.user", {"content": secrets.token_hex(16)})
            event = other.append("message.user", {"content": secrets.token_hex(16)}, epoch=1)
            backup(vault, self._later, self._later_keys)
            self._erased, self._part = session.id, other.id
            other.retract([event.id])
            state = access.erasure.erase(session=session.id).state
            ok = vault.verify().ok
        detail = f"a session, and an event of another, were backed up, then erased: the receipt says {state}"
        return ok and state == "verified", detail

    def _restore_what_was_erased(self) -> tuple[bool, str]:
        done = restore(
            self._later,
            self._two,
            keys=self._later_keys,
            ledger=self._one,
            passphrase=self._passphrase,
            remembered=False,
            clock=self._clock,
        )
        with self._apart(self._two) as vault:
            destroyed = vault.stores.parts.store.is_destroyed("epoch", session_bytes(self._erased), 0)
            sessions = vault.access(self._probe).sessions
            part = [event.erased for event in sessions.resume(self._part).events(types=["message.user"])]
            try:
                sessions.resume(self._erased)
            except NotFound:
                held = (done.erased_again, done.events_again, part) == (1, 1, [True])
                detail = "both were in the backup with their keys, and are erased again in what was restored"
                return held and destroyed is not None, detail
        return False, "what was erased came back"

    def _put_old_data_back(self) -> tuple[bool, str]:
        shutil.copyfile(self._later / DATA, self._one / DATA)
        try:
            with self._apart(self._one):
                return False, "an old data.db passed for the newest"
        except RolledBack:
            return True, "an old data.db that is put back by hand is refused"

    def _apart(self, place: Path) -> Vault:
        """A copy, opened so that this machine does not remember it in place of the live vault."""
        given = self._passphrase() if callable(self._passphrase) else self._passphrase
        return Vault(place, given, self._clock, lambda anchor, *_: anchor.check())

    def _root_place(self) -> bytes:
        """Where the live root key is, for a copy that stands elsewhere."""
        stores = self._vault.stores
        found = SqlKeyStore(stores.key_database).root()
        assert found is not None  # noqa: S101 - the vault is open
        place = os.fsdecode(found[2].partition(b"\0")[0])
        return os.fsencode(os.path.realpath(stores.directory / place))

    @staticmethod
    def _point_at(keys: Path, place: bytes) -> None:
        """Let a copy of keys.db name another place of its root key; one behind a passphrase names none."""
        lock = keys.with_name(".lock")
        with closing(Database(keys, lock, synchronous="FULL", lock_seconds=30)) as database:
            store = SqlKeyStore(database)
            found = store.root()
            if found is not None and found[1] == "file":
                vault_id, scheme, record = found
                _, nothing, name = record.partition(b"\0")
                store.keep_root(vault_id, scheme, place + nothing + name)
