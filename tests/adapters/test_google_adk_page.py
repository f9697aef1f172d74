"""The page on Google ADK does what it shows: its programs run one after another, as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "use-with-google-adk.md").read_text(encoding="utf-8")


def test_the_programs_of_the_page_run_as_they_stand(tmp_path):
    """A7, D4, D5."""
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path / "work",
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shown = ["Noted.", "1 session, 1 event, 0 problems", "erased, and stays so"]
    assert done.stdout.splitlines() == shown
