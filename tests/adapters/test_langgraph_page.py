"""The page on LangGraph's checkpointer does what it shows: its programs run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "use-with-langgraph.md").read_text(encoding="utf-8")


def test_the_programs_of_the_page_run_as_they_stand(tmp_path):
    """A1, A7, D4."""
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "work",
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['I am Alice, I drink tea.', 'Hello Alice.', 'Coffee from now on.', 'Coffee it is.']",
        "1 3 3 left out: api_key",
        "2",
        "erased, and stays so",
    ]
