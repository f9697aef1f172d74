"""The SDK's own tests of its sessions and of its Runner, run over the vault. A1.

Its sources are moved aside, so that what is tested is what is installed. Tests that look at SQLite's insides
are left out by name (`openai_agents/not_portable.txt`); what they protect is in `test_openai_agents_settled`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.source_distributions import unpacked

HERE = Path(__file__).resolve().parent / "openai_agents"
ROOT = Path(__file__).resolve().parents[2]
SESSIONS = """
    memory/test_session.py memory/test_session_limit.py test_soft_cancel.py
    test_programmatic_tool_calling.py test_tool_batch_failure_history.py test_run_impl_resume_paths.py
"""
RUNS = """
    test_agent_runner.py test_agent_runner_streamed.py test_hitl_session_scenario.py deferred_session_writes
    test_run_state_pending_input.py test_prompt_cache_key.py test_runner_guardrail_resume.py test_max_turns.py
    test_cancel_streaming.py test_runtime_symmetry_contract.py test_run_impl_resume_paths.py
    test_handoff_history_duplication.py test_invalid_final_output_handler.py test_runner_tracing_disabled.py
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def suites(tmp_path):
    """The SDK's tests, its own sources out of reach."""
    root = unpacked("openai-agents", tmp_path)
    shutil.move(root / "src", root / "moved_aside")
    return root


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("swap", "files", "passes"),
    [pytest.param("sqlite", SESSIONS, 477, id="sessions"), pytest.param("simple", RUNS, 1_080, id="runs")],
)
def test_the_suites_of_the_sdk_pass_over_the_vault(tmp_path, suites, swap, files, passes):
    """S1, A4: an agent that ran over the SDK's store runs over the vault."""
    left_out = [line for line in (HERE / "not_portable.txt").read_text().splitlines() if swap == "sqlite"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--timeout", "60"]
    plugins = ["-p", "vault_swap", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:langsmith_plugin"]
    chosen = [f"tests/{name}" for name in files.split()]
    skipped = [word for name in left_out for word in ("--deselect", name)]
    done = subprocess.run(
        [*command, *plugins, "--swap", swap, *chosen, *skipped],
        cwd=suites,
        env={
            **os.environ,
            "PYTEST_ADDOPTS": "",
            "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT}",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    ending = done.stdout[-4_000:] + done.stderr[-2_000:]
    assert done.returncode == 0, ending
    assert re.search(rf"^{passes} passed\b(?!.*(failed|error))", done.stdout, re.MULTILINE), ending
