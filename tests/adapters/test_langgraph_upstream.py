"""LangGraph's own tests of graphs that save, travel in time and are interrupted, run over the vault.

Its sources are moved aside, so that what is tested is what is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.source_distributions import unpacked

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GRAPHS = "pregel pregel_async large_cases large_cases_async"
STEPS = """
    time_travel time_travel_async interruption interrupt_state strict_resume subgraph_persistence
    subgraph_persistence_async
"""
DELTAS = """
    delta_channel_exit_mode delta_channel_fork delta_channel_parallel_order delta_channel_subgraph
    delta_channel_to_plain delta_channel_update_state
"""
#: It expects an order of parallel tasks that 10 ms of sleep decide.
BY_THE_CLOCK = "tests/test_pregel_async.py::test_imp_nested"

pytestmark = pytest.mark.slow


@pytest.fixture
def suites(tmp_path):
    """The suite with fixtures that give it the vault, LangGraph's own sources out of reach."""
    root = unpacked("langgraph", tmp_path)
    shutil.move(root / "langgraph", root / "moved_aside")
    for name in ("conftest_checkpointer.py", "conftest_store.py"):
        (root / "tests" / name).unlink()
    shutil.copy(HERE / "langgraph_fixtures.py", root / "tests" / "conftest.py")
    return root


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("files", "passes"),
    [
        pytest.param(GRAPHS, 274, id="graphs"),
        pytest.param(STEPS, 192, id="steps"),
        pytest.param(DELTAS, 168, id="delta channels"),
    ],
)
def test_the_suite_of_langgraph_passes_over_the_vault(tmp_path, suites, files, passes):
    """A1: a graph that ran over another checkpointer runs over the vault."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--timeout", "120", "-k", "vault"]
    plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:langsmith_plugin"]
    chosen = [f"tests/test_{name}.py" for name in files.split()]
    done = subprocess.run(
        [*command, *plugins, "-c", os.devnull, "--rootdir", ".", "--deselect", BY_THE_CLOCK, *chosen],
        cwd=suites,
        env={
            **os.environ,
            "LANGGRAPH_STRICT_MSGPACK": "true",
            "PYTEST_ADDOPTS": "",
            "PYTHONPATH": f"{suites}{os.pathsep}{ROOT}",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    ending = done.stdout[-4_000:] + done.stderr[-2_000:]
    assert done.returncode == 0, ending
    assert re.search(rf"^{passes} passed\b(?!.*(failed|error))", done.stdout, re.MULTILINE), ending
