"""The error tree: one class per thing that can go wrong, each with what happened and what to do.

Messages are one sentence, written here or where the error is raised, and never hold a payload, a key or
a string that a user supplied: they may end up in logs. ``exit_code`` is what the command line returns.
"""

from __future__ import annotations

from typing import ClassVar


class VaultError(Exception):
    """Something the vault refused or could not do; the subclass says which."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None) -> None:
        """Use ``message``, or the first line of the class's own description."""
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])


class NotFound(VaultError):
    """There is no such thing for this caller: it does not exist, or it is somebody else's."""

    exit_code = 3


class Tampered(VaultError):
    """Stored data was changed by somebody without the keys; run `session-vault verify` to see where."""

    exit_code = 4


class RolledBack(Tampered):
    """The vault is older than its ledger: an old copy was put back, or its newest part was removed."""

    exit_code = 4


class Erased(VaultError):
    """It was erased; its content is gone for good and its id is never used again."""

    exit_code = 5


class KeyUnavailable(VaultError):
    """A key is missing or cannot be reached; nothing was read or written."""

    exit_code = 6


class WrongKey(KeyUnavailable):
    """The key or passphrase is not this vault's; give the right one, nothing was changed."""

    exit_code = 6


class Conflict(VaultError):
    """Somebody else was faster, or the same id was used for other content; read again, then decide."""

    exit_code = 7


class Fenced(VaultError):
    """This writer was replaced or the session is being erased; stop writing."""

    exit_code = 8


class SessionEnded(VaultError):
    """The session has ended and takes no more events; create a new one."""

    exit_code = 9


class ConfigDrift(Conflict):
    """The agent's configuration is not the one this session was made under; say which one is to count."""

    exit_code = 7


class InDoubt(VaultError):
    """An effect was intended and nobody knows whether it happened; find out, then resolve it."""

    exit_code = 15

    def __init__(self, message: str | None = None, *, effect: object = None) -> None:
        """Say which effect, for code: ``effect`` is its ``EffectState``."""
        super().__init__(message)
        self.effect = effect


class EffectFailed(VaultError):
    """Raised by what carries out an effect, when it is certain that nothing happened; recorded as failed."""

    exit_code = 16


class Stale(VaultError):
    """What a write depends on was observed too long ago, or not at all; observe it again, then decide."""

    exit_code = 17


class Diverged(VaultError):
    """Replaying the log gives another state than a checkpoint holds; use the reducer that made it."""

    exit_code = 18


class Unpinned(VaultError):
    """Nobody checked a signature, since no key was given; give the key, got another way than the file."""

    exit_code = 19


class ClockAnomaly(VaultError):
    """The machine's clock jumped, so nothing is erased by itself; look at it, then say that it is right."""

    exit_code = 20


class InvalidInput(VaultError, ValueError):
    """What was given cannot be stored as it is; the message says what to give instead."""

    exit_code = 2


class LimitExceeded(InvalidInput):
    """What was given is larger than the documented limit; split it or send it as a stream."""

    exit_code = 2


class LineRefused(InvalidInput):
    """A line is not what its format asks for; the reason quotes nothing of it."""

    exit_code = 2


class StorageUnavailable(VaultError):
    """The disk or database did not take or give the data; nothing is half-written, try again."""

    exit_code = 10


class StorageFull(StorageUnavailable):
    """The disk is full; nothing was half-written: free some space and try again."""

    exit_code = 10


class Busy(StorageUnavailable):
    """Another writer or run was in the way past the deadline; wait for it, or try again."""

    exit_code = 11


class VaultExists(VaultError):
    """There is a vault in this directory already; open it, or choose another directory."""

    exit_code = 12


class VaultClosed(VaultError):
    """The vault is closed, or was opened in another process; open it again."""

    exit_code = 13


class NewerVault(VaultError):
    """This vault was written by a newer version of the program; update the program to open it."""

    exit_code = 14
