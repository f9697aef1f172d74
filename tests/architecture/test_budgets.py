"""Nothing in the package outgrows what one reader holds in mind: module, function and class have a budget."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
PUBLIC_METHODS_MAX = 12

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def over_budget(source: str) -> Iterator[str]:
    """What in a module is larger than its budget, with its line; a function counts with its docstring."""
    lines = len(source.splitlines())
    if lines > MODULE_LINES_MAX:
        yield f"1: module has {lines} lines, at most {MODULE_LINES_MAX}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTION):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES_MAX}"
        elif isinstance(node, ast.ClassDef):
            # By name: a property with its setter, or a method with its overloads, is one.
            public = {item.name for item in node.body if isinstance(item, FUNCTION) and item.name[0] != "_"}
            if len(public) > PUBLIC_METHODS_MAX:
                yield f"{node.lineno}: {node.name} has {len(public)} methods, at most {PUBLIC_METHODS_MAX}"


def test_every_module_keeps_its_budgets():
    modules = sorted((ROOT / "vault").rglob("*.py"))
    assert modules
    findings = [
        f"{module.relative_to(ROOT)}:{finding}"
        for module in modules
        for finding in over_budget(module.read_text(encoding="utf-8"))
    ]
    assert not findings, "\n".join(findings)


def function(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


def class_with(methods: int) -> str:
    return "class C:\n    def _private(self): ...\n" + "".join(
        f"    def m{number}(self): ...\n" for number in range(methods)
    )


@pytest.mark.parametrize(
    ("fits", "too_large"),
    [
        pytest.param("x = 1\n" * 400, "x = 1\n" * 401, id="module"),
        pytest.param(function(50), function(51), id="function"),
        pytest.param("async " + function(50), "async " + function(51), id="coroutine"),
        pytest.param(class_with(12), class_with(13), id="class"),
    ],
)
def test_a_budget_is_full_at_its_limit_and_broken_one_above(fits: str, too_large: str):
    assert list(over_budget(fits)) == []
    assert len(list(over_budget(too_large))) == 1
