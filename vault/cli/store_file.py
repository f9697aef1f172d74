"""Another product's database on its way in: what is refused at once, what is shown, what is kept quiet."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from vault.cli.call import OwnerCall
from vault.cli.output import Advance, note, progress
from vault.errors import InvalidInput

PathArgument = Annotated[Path, typer.Argument(metavar="PATH", help="The database file; it is only read.")]

#: Told how many are done, and of how many when that is known.
Told = Callable[[int, int | None], None]


def check_file(call: OwnerCall, path: Path) -> None:
    """Refuse what is no file of another product, before anybody is asked for a passphrase or a key.

    Raises:
        InvalidInput: it is none.
        NotFound: there is no vault.
    """
    if path.is_dir():
        raise InvalidInput("this is a directory; name the database file in it")
    if not path.is_file():
        raise InvalidInput("there is no such file; give the path of the database")
    check_not_own(call, path)


def check_not_own(call: OwnerCall, path: Path) -> None:
    """Refuse the vault's own databases: opened once more, and closed, they lose this process's locks.

    Raises:
        InvalidInput: it is one of them.
        NotFound: there is no vault.
    """
    if path.exists() and any(own.samefile(path) for own in call.found().glob("*.db*")):
        raise InvalidInput("this file is the vault's own")


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say what to install when the package of a framework is not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # frameworks warn their own users, of nothing that is done here
            yield
    except ImportError:
        raise InvalidInput(
            f"the framework's own package is needed: pip install 'agent-session-vault[{name}]'"
        ) from None


@contextmanager
def taking(path: Path) -> Iterator[Told]:
    """A bar from when the first is done; when it breaks off after that, what became of the rest."""
    advance: Advance | None = None
    try:
        with ExitStack() as screen, _quietly():

            def told(done: int, total: int | None) -> None:
                nonlocal advance
                if advance is None:
                    advance = screen.enter_context(progress(path.name, total, of_bytes=False))
                advance(done)

            yield told
    except BaseException as broken:
        if advance is not None:
            # What the file itself is in the way of stays so.
            again = (
                "" if isinstance(broken, InvalidInput) else "; the same command, run again, takes the rest"
            )
            note(f"what was taken before this is in the vault{again}")
        raise


@contextmanager
def _quietly() -> Iterator[None]:
    """What a framework logs or warns of goes nowhere: it may quote what it read."""
    nowhere = logging.NullHandler()
    logging.getLogger().addHandler(nowhere)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger().removeHandler(nowhere)
