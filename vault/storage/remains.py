"""Looking for bytes in every file of a vault: what was deleted must stand in none of them.

Another process looks. POSIX drops all of a process's locks on a file when it closes any descriptor of that
file (fcntl(2)), so reading a database's file here would take SQLite's locks away from under it, and the next
checkpoint of another process would damage what is read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vault.errors import StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SCANNER: Final = Path(__file__).with_name("scanner.py")


class FileRemains:
    """The files of one vault's directory but its ledger, which names what was erased on purpose."""

    def __init__(self, directory: Path, ledger: Path) -> None:
        """Look through this directory."""
        self._directory, self._ledger = directory, ledger

    def found(
        self, groups: Sequence[Sequence[bytes]], progress: Callable[[int, int], None] | None = None
    ) -> tuple[int, list[list[str]]]:
        """Which files hold one of some byte strings; all groups are looked for in one pass.

        Args:
            groups: at most some thousand byte strings in all, of 16 bytes and more, by who wants to know.
            progress: told (bytes done, bytes in all).

        Returns:
            How many bytes were looked through, and for each group the names of the files that hold one of it,
            relative to the directory.

        Raises:
            StorageUnavailable: a file cannot be read.
        """
        asked = {
            "directory": str(self._directory),
            "ledger": str(self._ledger),
            "needles": [needle.hex() for group in groups for needle in group],
        }
        whose = [number for number, group in enumerate(groups) for _ in group]
        # -I: nothing of the user's environment or working directory is imported.
        command = [sys.executable, "-I", str(_SCANNER)]
        try:
            with subprocess.Popen(  # noqa: S603 - our own file, by this interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as scanner:
                done, found = self._told(scanner, json.dumps(asked), progress)
        except OSError:
            raise StorageUnavailable(
                "no process can be started to look through the vault's files; what was erased is not verified"
            ) from None
        held: list[list[str]] = [[] for _ in groups]
        for name, needles in found:
            for number in sorted({whose[needle] for needle in needles}):
                held[number].append(name)
        return done, held

    @staticmethod
    def _told(
        scanner: subprocess.Popen[str], asked: str, progress: Callable[[int, int], None] | None
    ) -> tuple[int, list[tuple[str, list[int]]]]:
        assert scanner.stdin is not None  # noqa: S101 - told to the type checker
        assert scanner.stdout is not None  # noqa: S101 - the same
        scanner.stdin.write(asked)
        scanner.stdin.close()
        result: tuple[int, list[tuple[str, list[int]]]] | None = None
        for line in scanner.stdout:
            said = json.loads(line)
            if "found" in said:
                result = said["done"], said["found"]
            elif progress is not None:
                progress(said["done"], said["size"])
        if result is None:
            raise StorageUnavailable("a file of the vault cannot be looked through; check its permissions")
        return result
