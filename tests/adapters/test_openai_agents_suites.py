"""The SDK's own tests of its sessions and of its Runner, run over the vault. A1.

They travel in the SDK's source distribution only, which is fetched once and kept outside of the repository.
Its sources are moved aside, so that what is tested is what is installed. Tests that look at SQLite's insides
are left out by name (`openai_agents/not_portable.txt`); what they protect is in `test_openai_agents_settled`.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent / "openai_agents"
ROOT = Path(__file__).resolve().parents[2]
VERSION = importlib.metadata.version("openai-agents")
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


def fetched() -> Path:
    """The source distribution of the installed version; from the index unless it is kept already."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-session-vault" / "suites"
    archive = kept / f"openai_agents-{VERSION}.tar.gz"
    if not archive.exists():
        kept.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(kept)]
        flags = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, *flags, f"openai-agents=={VERSION}"], check=True, timeout=240)
    return archive


@pytest.fixture
def unpacked(tmp_path):
    """The SDK's tests, its own sources out of reach."""
    with tarfile.open(fetched()) as archive:
        archive.extractall(tmp_path, filter="data")
    [root] = tmp_path.glob("openai_agents-*")
    shutil.move(root / "src", root / "moved_aside")
    return root


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("swap", "files", "passes"),
    [pytest.param("sqlite", SESSIONS, 477, id="sessions"), pytest.param("simple", RUNS, 1_080, id="runs")],
)
def test_the_suites_of_the_sdk_pass_over_the_vault(tmp_path, unpacked, swap, files, passes):
    """S1, A4: an agent that ran over the SDK's store runs over the vault."""
    left_out = [line for line in (HERE / "not_portable.txt").read_text().splitlines() if swap == "sqlite"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--timeout", "60"]
    plugins = ["-p", "vault_swap", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:langsmith_plugin"]
    chosen = [f"tests/{name}" for name in files.split()]
    skipped = [word for name in left_out for word in ("--deselect", name)]
    done = subprocess.run(
        [*command, *plugins, "--swap", swap, *chosen, *skipped],
        cwd=unpacked,
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
