"""What tests share: how hypothesis searches, a machine's memory of their own, programs in other processes."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# No deadline: a shared machine is slow at random, and no test here judges time.
settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "vault"


@pytest.fixture
def python():
    """Starts a program in a process of its own; what still runs at the end of the test is killed."""
    with contextlib.ExitStack() as stack:

        def start(program, *arguments):
            command = [sys.executable, "-c", program, *map(str, arguments)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start
