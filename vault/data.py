"""Where the shipped documents are: policies and migrations, which are reviewed data and not code.

In a wheel they lie inside the package, as ``vault/_data/<name>``. In a checkout, and in an editable install
of one, they lie beside the package, where a reviewer finds them.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def policies() -> Path:
    """The directory of the shipped policy documents (TOML).

    Raises:
        FileNotFoundError: this installation came without them; install the package again.
    """
    return _shipped("policies", _PACKAGE)


def migrations() -> Path:
    """The directory of the schema migrations, with one directory in it for each kind of database.

    Raises:
        FileNotFoundError: this installation came without them; install the package again.
    """
    return _shipped("migrations", _PACKAGE)


def _shipped(name: str, package: Path) -> Path:
    inside = package / "_data" / name
    if inside.is_dir():
        return inside
    # Only a checkout has the project file: a stranger's directory of that name beside an installed
    # package is never taken for ours.
    if (package.parent / "pyproject.toml").is_file() and (package.parent / name).is_dir():
        return package.parent / name
    raise FileNotFoundError(f"the shipped {name} are missing; install agent-session-vault again")
