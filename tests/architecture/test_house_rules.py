"""What a linter does not know: the rules of this house, read off the syntax tree of every module."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]

BROAD = {"Exception", "BaseException"}
CLOCK_READS = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "time.gmtime",
    "time.localtime",
    "time.time",
    "time.time_ns",
    "uuid.uuid1",
}
LOGGING = {"debug", "error", "exception", "info", "log", "warning"}
RUN_DATA = {"dill", "jsonpickle", "marshal", "pickle", "shelve"}
RUN_TEXT = {"__import__", "compile", "eval", "exec"}
SQL_CALLS = {"execute", "executemany", "executescript", "query"}
TEXT_BUILDERS = {"format", "format_map", "join", "replace"}
VAGUE = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

Nodes = Iterator[ast.AST]


def imported_roots(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return set()


def imports_of(tree: ast.Module, packages: set[str]) -> Nodes:
    return (node for node in ast.walk(tree) if imported_roots(node) & packages)


def full_names(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every name and attribute that is used, as it would be called without `import ... as` and `from`."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            yield node, known.get(first, first) + dot + rest


def is_below(path: PurePosixPath, *places: str) -> bool:
    return any(path == PurePosixPath(place) or PurePosixPath(place) in path.parents for place in places)


def cryptography_is_touched_below_sealing_and_keyring_only(tree: ast.Module, path: PurePosixPath) -> Nodes:
    if not is_below(path, "vault/sealing", "vault/keyring"):
        yield from imports_of(tree, {"cryptography"})


def only_clock_asks_for_the_time(tree: ast.Module, path: PurePosixPath) -> Nodes:
    if path != PurePosixPath("vault/clock.py"):
        yield from (node for node, name in full_names(tree) if name in CLOCK_READS)


def sql_is_never_built_from_strings(tree: ast.Module, _: PurePosixPath) -> Nodes:
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_built(node.value)]
    built = {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SQL_CALLS
        ):
            statements = node.args[:1]
            if any(
                is_built(item) or (isinstance(item, ast.Name) and item.id in built) for item in statements
            ):
                yield node


def is_built(node: ast.AST) -> bool:
    """Whether an expression puts a text together from parts that are not all literal."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in TEXT_BUILDERS
    return isinstance(node, ast.BinOp)


def errors_are_never_swallowed(tree: ast.Module, _: PurePosixPath) -> Nodes:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and is_broad(node.type) and all(map(is_silent, node.body)):
            yield node
    for node, name in full_names(tree):
        if name == "contextlib.suppress" and isinstance(call := parent_call(tree, node), ast.Call):
            yield from (call for argument in call.args if is_broad(argument))


def is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(is_broad, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in BROAD)


def is_silent(statement: ast.stmt) -> bool:
    """Whether a statement goes on as if nothing had happened; logging it first is no better."""
    if isinstance(statement, ast.Return):
        return statement.value is None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr in LOGGING
    return isinstance(statement, ast.Pass | ast.Continue | ast.Break | ast.Expr)


def parent_call(tree: ast.Module, function: ast.AST) -> ast.Call | None:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func is function)
    return next(calls, None)


def data_is_never_run(tree: ast.Module, _: PurePosixPath) -> Nodes:
    yield from imports_of(tree, RUN_DATA)
    yield from (node for node, name in full_names(tree) if name.removeprefix("builtins.") in RUN_TEXT)


def nothing_is_imported_by_a_name_from_data(tree: ast.Module, path: PurePosixPath) -> Nodes:
    # The face of the package loads its own names lazily, from a table that stands beside the call.
    if path == PurePosixPath("vault/__init__.py"):
        return
    for node, name in full_names(tree):
        if name == "importlib.import_module":
            call = parent_call(tree, node)
            if call is None or not all(isinstance(argument, ast.Constant) for argument in call.args):
                yield node


def nothing_below_the_rim_is_async(tree: ast.Module, path: PurePosixPath) -> Nodes:
    if not is_below(path, "vault/aio.py", "vault/aio", "vault/adapters"):
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await))


def names_say_what_is_inside(tree: ast.Module, path: PurePosixPath) -> Nodes:
    if VAGUE & {path.stem, *path.parts}:
        yield tree


Rule = Callable[[ast.Module, PurePosixPath], Nodes]
# Each rule, with snippets that break it (at the path given) and one that keeps it.
RULES: list[tuple[Rule, str, list[str], str]] = [
    (
        cryptography_is_touched_below_sealing_and_keyring_only,
        "vault/sessions/append.py",
        [
            "import cryptography",
            "from cryptography.hazmat.primitives import hashes",
            "import cryptography.x509 as x",
        ],
        "from vault.sealing import seal",
    ),
    (
        only_clock_asks_for_the_time,
        "vault/sessions/append.py",
        [
            "import time\nstarted = time.time()",
            "from time import time_ns as now\nnow()",
            "from datetime import datetime, UTC\ndatetime.now(UTC)",
            "import datetime as dt\nfield(default_factory=dt.datetime.utcnow)",
            "from datetime import date\ndate.today()",
        ],
        "import time\ntime.monotonic()\nclock.now()\nself.time.time()",
    ),
    (
        sql_is_never_built_from_strings,
        "vault/storage/sqlite.py",
        [
            "connection.execute(f'SELECT * FROM {table}')",
            "connection.execute('SELECT * FROM %s' % table)",
            "connection.execute('SELECT * FROM ' + table)",
            "connection.execute('SELECT * FROM {}'.format(table))",
            "connection.executemany(' '.join(parts), rows)",
            "sql = f'DELETE FROM {table}'\nself.db.execute(sql, ())",
            "db.query(TEXT.replace('$table', table))",
        ],
        "connection.execute(STATEMENTS['append'], {'id': f'{prefix}{number}'})\nlog(f'{count} rows')",
    ),
    (
        errors_are_never_swallowed,
        "vault/sessions/append.py",
        [
            "try: f()\nexcept Exception: pass",
            "try: f()\nexcept: ...",
            "for x in y:\n    try: f()\n    except (OSError, BaseException): continue",
            "try: f()\nexcept Exception: log.warning('it failed')",
            "import contextlib\nwith contextlib.suppress(Exception): f()",
            "from contextlib import suppress as ignore\nwith ignore(OSError, BaseException): f()",
        ],
        "try: f()\nexcept FileNotFoundError: pass\nexcept Exception as error: waiter.fail(error)",
    ),
    (
        data_is_never_run,
        "vault/sessions/append.py",
        [
            "import pickle",
            "from marshal import loads",
            "eval(text)",
            "import builtins\nbuiltins.exec(text)",
            "__import__(n)",
        ],
        "import re\nre.compile('a')\nsession.eval = 1",
    ),
    (
        nothing_is_imported_by_a_name_from_data,
        "vault/keyring/__init__.py",
        [
            "import importlib\nimportlib.import_module(name)",
            "from importlib import import_module\nimport_module(f'a.{b}')",
        ],
        "import importlib\nimportlib.import_module('vault.keyring.passphrase')",
    ),
    (
        nothing_below_the_rim_is_async,
        "vault/sessions/append.py",
        ["async def append(): ...", "class C:\n    async def close(self): ...", "await x"],
        "def append(): ...",
    ),
    (names_say_what_is_inside, "vault/sealing/utils.py", ["x = 1"], ""),
    (names_say_what_is_inside, "vault/common/text.py", ["x = 1"], ""),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, *_ in RULES), ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Rule):
    modules = sorted((ROOT / "vault").rglob("*.py"))
    assert modules
    findings = []
    for module in modules:
        path = PurePosixPath(module.relative_to(ROOT).as_posix())
        broken = rule(ast.parse(module.read_text(encoding="utf-8"), filename=str(path)), path)
        findings += [f"{path}:{getattr(node, 'lineno', 1)}" for node in broken]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    ("rule", "path", "snippet"),
    [
        pytest.param(rule, path, snippet, id=f"{rule.__name__}-{number}")
        for rule, path, snippets, _ in RULES
        for number, snippet in enumerate(snippets)
    ],
)
def test_a_module_that_breaks_the_rule_is_found(rule: Rule, path: str, snippet: str):
    assert list(rule(ast.parse(snippet), PurePosixPath(path)))


@pytest.mark.parametrize(
    ("rule", "path", "snippet"),
    [pytest.param(rule, path, kept, id=rule.__name__) for rule, path, _, kept in RULES if kept],
)
def test_a_module_that_keeps_the_rule_is_let_be(rule: Rule, path: str, snippet: str):
    assert not list(rule(ast.parse(snippet), PurePosixPath(path)))


@pytest.mark.parametrize(
    ("rule", "place", "snippet"),
    [
        (
            cryptography_is_touched_below_sealing_and_keyring_only,
            "vault/sealing/keys.py",
            "import cryptography",
        ),
        (
            cryptography_is_touched_below_sealing_and_keyring_only,
            "vault/keyring/file.py",
            "import cryptography",
        ),
        (only_clock_asks_for_the_time, "vault/clock.py", "import time\ntime.time_ns()"),
        (nothing_below_the_rim_is_async, "vault/aio.py", "async def append(): ..."),
        (nothing_below_the_rim_is_async, "vault/adapters/openai_agents.py", "async def append(): ..."),
        (
            nothing_is_imported_by_a_name_from_data,
            "vault/__init__.py",
            "import importlib\nimportlib.import_module(n)",
        ),
    ],
)
def test_a_rule_leaves_out_the_place_that_does_the_work(rule: Rule, place: str, snippet: str):
    assert not list(rule(ast.parse(snippet), PurePosixPath(place)))
    assert list(rule(ast.parse(snippet), PurePosixPath("vault/sessions/append.py")))
