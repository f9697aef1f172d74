"""The import contracts of pyproject.toml hold, and each of them is seen to fail when it is broken."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of a project in a process of its own, where only its copy of the package is known."""
    command = [sys.executable, "-c", LINT]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "vault", tmp_path / "vault", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_point_downwards_only():
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        pytest.param(
            "errors.py", "import vault.sessions", "Imports point downwards", id="word-imports-use-case"
        ),
        pytest.param(
            "sessions", "import vault.wiring", "Imports point downwards", id="use-case-imports-wiring"
        ),
        pytest.param(
            "storage", "import vault.sealing", "Imports point downwards", id="sibling-imports-sibling"
        ),
        pytest.param("policy", "import vault.ports", "Imports point downwards", id="policy-imports-ports"),
        pytest.param("adapters", "import vault.cli", "Imports point downwards", id="edge-imports-edge"),
        pytest.param("misc.py", "", "every module has its layer", id="module-without-a-layer"),
        pytest.param("errors.py", "import vault.clock", "No two siblings", id="words-in-a-circle"),
        pytest.param("sessions", "import cryptography.x509", "touch cryptography", id="cryptography-above"),
        pytest.param("storage", "import cryptography", "touch cryptography", id="cryptography-beside"),
        pytest.param("audit", "import sqlite3", "touches a database", id="sqlite3-above"),
        pytest.param("policy", "import sqlite_utils", "touches a database", id="sqlite-utils-below"),
        pytest.param("policy", "import os.path", "Policy decides", id="policy-does-input-and-output"),
        pytest.param("policy", "from time import time", "Policy decides", id="policy-asks-the-clock"),
    ],
)
def test_a_broken_contract_is_named(copy: Path, module: str, statement: str, contract: str):
    target = copy / "vault" / module
    if target.is_dir():
        target = target / "__init__.py"
    with target.open("a") as source:
        source.write(f"\n{statement}\n")
    result = lint(copy)
    broken = [line for line in result.stdout.splitlines() if line.endswith("BROKEN")]
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(contract in line for line in broken), result.stdout + result.stderr
