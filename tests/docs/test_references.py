"""The reference pages say what the code does: errors, settings, limits, columns, requirements, links.

Each check is seen to fail: pages and code are compared in both directions, and the readers below are tried on
pages that lack something.
"""

import ast
import importlib
import inspect
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from vault import Vault, errors, model
from vault.config import Settings
from vault.erasure import fsck
from vault.sessions import prepare

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
LIMITS = DOCS / "explanation" / "limits.md"
INVARIANTS = DOCS / "explanation" / "invariants.md"
ADR = DOCS / "explanation" / "adr"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

KEPT = {"clear", "blind index", "sealed", "keyed hash", "hash", "random"}
GOES_WITH = {"session", "item", "tenant", "vault"}
STATUSES = {"works", "partly", "not yet"}
GROUPS = {"L": 12, "C": 5, "S": 7, "O": 4, "R": 5, "D": 7, "K": 4, "A": 8}

#: Directories that only exist on somebody's machine; a place within a page's own example is relative.
MACHINE_PATH = re.compile(r"(?<![\w.~*>}])/(?:home|Users|root|work|tmp|private|mnt|media)(?:/|\b)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row, without the marks of code."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield [cell.strip().replace("`", "") for cell in line.split("|")[1:-1]]


def named(text: str, known: set[str]) -> dict[str, list[str]]:
    """Rows by their first cell, of those that are known."""
    return {row[0]: row for row in rows(text) if row[0] in known}


def anchors(text: str) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and file.suffix == ".md" and fragment not in anchors(read(file))):
            yield target


# ---------------------------------------------------------------------------------------- errors


def error_classes() -> dict[str, type[errors.VaultError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.VaultError)
    }


def test_every_error_is_listed_with_its_parents_and_exit_code():
    classes = error_classes()
    listed = named(read(REFERENCE / "errors.md"), set(classes))
    stated = {name: (row[1], row[2]) for name, row in listed.items()}
    actual = {
        name: (", ".join(base.__name__ for base in cls.__bases__), str(cls.exit_code))
        for name, cls in classes.items()
    }
    assert stated == actual


def test_no_error_is_listed_that_does_not_exist():
    text = read(REFERENCE / "errors.md").partition("\n## ")[0]
    assert {row[0] for row in rows(text)} - {"error"} == set(error_classes())


def test_every_kind_of_finding_is_listed():
    """K4."""
    source = "".join(map(read, (ROOT / "vault" / "audit").glob("verify*.py")))
    used = set(re.findall(r'(?:kind=|_found\(\s*)"(\w+)"', source))
    used |= set(re.findall(r'Found\(\s*"(\w+)"', read(ROOT / "vault" / "derived" / "verification.py")))
    assert used
    assert listed_kinds("verify") == used


def listed_kinds(command: str) -> set[str]:
    section = read(REFERENCE / "errors.md").partition(f"## Findings of `{command}`")[2].partition("\n## ")[0]
    return {kind for row in rows(section) for kind in row[0].split(", ")} - {"kind"}


def test_every_kind_of_finding_of_fsck_is_listed():
    """D6."""
    source = read(ROOT / "vault" / "erasure" / "fsck.py")
    used = set(re.findall(r'kind="(\w+)"', source)) | fsck.LINEAGE
    assert listed_kinds("fsck") == used
    assert used >= fsck.DAMAGE


# -------------------------------------------------------------------------------------- settings


def test_every_setting_is_listed_with_its_default():
    text = read(REFERENCE / "settings.md").partition("\n## ")[0]
    table = {row[0]: row[1] for row in rows(text) if row[0] != "setting"}
    stated = {name: tomllib.loads(f"value = {default}")["value"] for name, default in table.items()}
    actual = {name: field.default for name, field in Settings.model_fields.items()}
    assert stated == actual
    assert {name: type(value) for name, value in stated.items()} == {
        name: type(value) for name, value in actual.items()
    }


# ---------------------------------------------------------------------------------------- limits


def stated_limits() -> dict[tuple[str, str], int]:
    return {
        (row[1], row[0]): int(row[2].replace(",", ""))
        for row in rows(read(LIMITS))
        if re.fullmatch(r"[A-Z_]+_(MAX|MIN)", row[0])
    }


@pytest.mark.parametrize("module", [model, prepare], ids=lambda module: module.__name__)
def test_every_limit_of_a_module_is_listed(module):
    """Invariant 12."""
    listed = {name for _, name in stated_limits()}
    limits = {name for name in vars(module) if re.fullmatch(r"[A-Z][A-Z_]*_MAX", name)}
    assert limits
    assert limits <= listed


def test_every_listed_limit_has_the_value_of_the_code():
    """Invariant 12."""
    stated = stated_limits()
    assert stated
    assert stated == {place: getattr(importlib.import_module(place[0]), place[1]) for place in stated}


# ---------------------------------------------------------------------------------------- schema


def declared_columns(text: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Table → column → (kept, goes with), from the sections of the page."""
    tables = {}
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"`(\w+)`", section)
        columns = {row[0]: (row[1], row[2]) for row in rows(section) if len(row) == 4 and row[0] != "column"}
        if name and columns:
            tables[name[1]] = columns
    return tables


def stored_columns(directory: Path) -> dict[str, set[str]]:
    tables = {}
    for file in ("data.db", "keys.db"):
        connection = sqlite3.connect(directory / file)
        query = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        for (table,) in connection.execute(query).fetchall():
            info = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            tables[table] = {column for (column,) in info}
        connection.close()
    return tables


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Vault.create(tmp_path / "vault").close()
    return tmp_path / "vault"


def test_every_column_declares_how_it_is_kept_and_what_it_goes_with(directory: Path):
    """Invariant 15, K1."""
    declared = declared_columns(read(REFERENCE / "sql-schema.md"))
    assert {table: set(columns) for table, columns in declared.items()} == stored_columns(directory)
    for columns in declared.values():
        for kept, goes_with in columns.values():
            assert kept in KEPT
            assert goes_with in GOES_WITH


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("ALTER TABLE events ADD COLUMN note TEXT", id="column"),
        pytest.param("CREATE TABLE notes (note TEXT) STRICT", id="table"),
    ],
)
def test_a_column_that_is_not_declared_is_found(directory: Path, statement: str):
    """Invariant 15: the gate closes."""
    connection = sqlite3.connect(directory / "data.db")
    connection.execute(statement)
    connection.commit()
    connection.close()
    declared = declared_columns(read(REFERENCE / "sql-schema.md"))
    assert {table: set(columns) for table, columns in declared.items()} != stored_columns(directory)


# --------------------------------------------------------------------- requirements and invariants


def test_every_requirement_has_a_status():
    ids = [f"{group}{number}" for group, last in GROUPS.items() for number in range(1, last + 1)]
    listed = {row[0]: row[2] for row in rows(read(REFERENCE / "requirements.md")) if row[0] in ids}
    assert list(listed) == ids
    assert set(listed.values()) <= STATUSES


def said_in(file: Path) -> set[str]:
    """The words of a test file's docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(read(file))) if isinstance(node, kinds))
    return {word for node in nodes for word in re.findall(r"\w+", ast.get_docstring(node) or "")}


def test_every_requirement_that_works_names_tests_that_name_it():
    unproven = []
    for row in rows(read(REFERENCE / "requirements.md")):
        if not re.fullmatch(r"[LCSORDKA]\d+", row[0]) or row[2] == "not yet":
            continue
        files = [ROOT / file for file in re.findall(r"tests/[\w/]+\.py", row[4])]
        if not files or not all(row[0] in said_in(file) for file in files):
            unproven.append(row[0])
    assert not unproven


def test_every_invariant_is_explained():
    listed = re.findall(r"^\| (\d+) \|", read(INVARIANTS), re.MULTILINE)
    assert listed == [str(number) for number in range(1, 19)]


def test_every_file_and_test_that_the_pages_name_exists():
    missing = []
    for page in PAGES:
        text = read(page)
        places = re.findall(r"\b((?:tests|vault|migrations|policies)/[\w/.-]+\.(?:py|sql|toml))", text)
        missing += [f"{page.name}: {place}" for place in places if not (ROOT / place).is_file()]
        for file, test in re.findall(r"(tests/[\w/]+\.py)::(\w+)", text):
            if (ROOT / file).is_file() and f"def {test}(" not in read(ROOT / file):
                missing.append(f"{page.name}: {file}::{test}")
    assert not missing


def test_every_decision_is_short_whole_and_in_the_index():
    index = read(DOCS / "index.md")
    decisions = sorted(ADR.glob("*.md"))
    assert [file.name[:4] for file in decisions] == [f"{number:04}" for number in range(len(decisions))]
    for file in decisions:
        text = read(file)
        assert f"explanation/adr/{file.name}" in index
        assert len(text.splitlines()) <= 60, file.name
        for part in ("**Context.**", "**Options.**", "**Outcome.**", "**Negative consequences.**"):
            assert part in text, file.name


# ------------------------------------------------------------------------------------ every page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_resolves(page: Path):
    assert not list(broken_links(page, read(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_holds_a_path_of_a_machine(page: Path):
    assert not MACHINE_PATH.findall(read(page))


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        pytest.param("[a](reference/errors.md)", False, id="page"),
        pytest.param("[a](reference/errors.md#findings-of-verify)", False, id="heading"),
        pytest.param("[a](https://example.org/x)", False, id="elsewhere"),
        pytest.param("[a](reference/nothing.md)", True, id="no-page"),
        pytest.param("[a](reference/errors.md#nothing)", True, id="no-heading"),
        pytest.param("```\n[a](nothing.md)\n```", False, id="example"),
    ],
)
def test_a_broken_link_is_found(link: str, broken: bool):
    assert bool(list(broken_links(DOCS / "index.md", link))) is broken


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("cd /home/alice/vault", True, id="home"),
        pytest.param("`/mnt/disk/x`", True, id="mounted"),
        pytest.param("root=file:/another/place", False, id="example"),
        pytest.param("my.vault/root.key", False, id="relative"),
        pytest.param("~/.local/state", False, id="tilde"),
    ],
)
def test_a_path_of_a_machine_is_found(text: str, found: bool):
    assert bool(MACHINE_PATH.findall(text)) is found
