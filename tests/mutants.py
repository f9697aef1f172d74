"""Takes each security check of `mutants.toml` away, in a copy, and sees whether the tests that it names fail.

``python tests/mutants.py [WORD ...]``: all of them, or those whose check, file or tests hold one of the
words. A table is printed; the exit code is 1 when a mutant survives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("vault", "tests", "migrations", "policies", "pyproject.toml")
#: A check that ends a loop may hang without it; that is a killed mutant too.
SECONDS_MAX = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One check, how it is taken away, and the tests that must notice."""

    check: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def listed() -> list[Mutant]:
    """Every mutant of the list."""
    document = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(**mutant | {"tests": tuple(mutant["tests"])}) for mutant in document["mutant"]]


def copy_of_the_project(directory: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / name)


def apply(mutant: Mutant, directory: Path) -> None:
    file = directory / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.check}: its text stands {text.count(mutant.old)} times in {mutant.file}")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def failed_tests(directory: Path, tests: list[str]) -> tuple[set[str], bool]:
    """Ids of the tests that failed, and whether the run came to its end."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rf",
        "--tb=no",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
    ]
    environment = os.environ | {"PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(
            [*command, *tests],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return set(tests), True
    failed = set(re.findall(r"^FAILED (.+?)(?: - .*)?$", result.stdout, re.MULTILINE))
    return failed, result.returncode in {0, 1}


def verdict(mutant: Mutant) -> str:
    """``killed``, or what went otherwise."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        copy_of_the_project(directory)
        apply(mutant, directory)
        failed, complete = failed_tests(directory, list(mutant.tests))
    if not complete:
        return "broken: pytest did not run its tests"
    unmoved = [test for test in mutant.tests if not any(is_of(test, one) for one in failed)]
    return f"SURVIVED {unmoved[0]}" if unmoved else "killed"


def is_of(test: str, failed: str) -> bool:
    """Whether a failed id is the test, or one of its cases."""
    return failed == test or failed.startswith(test + "[")


def baseline(mutants: list[Mutant]) -> None:
    """The tests must pass with every check in its place, else a failure says nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with tempfile.TemporaryDirectory() as place:
        copy_of_the_project(Path(place))
        failed, complete = failed_tests(Path(place), tests)
    if failed or not complete:
        raise SystemExit(
            "these fail, or are not found, without any mutant:\n" + "\n".join(sorted(failed or tests))
        )


def main(words: list[str]) -> int:
    mutants = [
        mutant
        for mutant in listed()
        if not words or any(word in " ".join((mutant.check, mutant.file, *mutant.tests)) for word in words)
    ]
    print(f"{len(mutants)} mutants; first their tests with every check in its place ...", flush=True)
    baseline(mutants)
    survivors = 0
    with ThreadPoolExecutor(max_workers=max(1, os.cpu_count() or 1)) as pool:
        for mutant, word in zip(mutants, pool.map(verdict, mutants), strict=True):
            survivors += word != "killed"
            print(f"{word:10} {mutant.file:32} {mutant.check}", flush=True)
    print(f"{len(mutants) - survivors} killed, {survivors} not")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
