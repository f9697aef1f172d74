"""The pages on frameworks do what they show: their programs run one after another, as they stand.

A1, A2, A3, A7, D4, D5.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What is printed, where all of it is the same each time; else its last lines.
SHOWN = {
    "claude-agent": ["erased, and stays so"],
    "google-adk": ["Noted.", "1 session, 1 event, 0 problems", "erased, and stays so"],
    "langgraph": [
        "['I am Alice, I drink tea.', 'Hello Alice.', 'Coffee from now on.', 'Coffee it is.']",
        "1 3 3 left out: api_key",
        "2",
        "erased, and stays so",
    ],
    "langgraph-store": [],
    "openai-agents": [],
}
#: Their own pages warn as the framework does.
WARNS = {"langgraph", "openai-agents"}


@pytest.mark.parametrize("page", SHOWN)
def test_the_programs_of_a_page_run_as_they_stand(tmp_path, page):
    text = (ROOT / "docs" / "howto" / f"use-with-{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    (tmp_path / "work").mkdir()
    strict = [] if page in WARNS else ["-W", "error"]
    done = subprocess.run(
        [sys.executable, *strict, "-c", "\n".join(blocks)],
        cwd=tmp_path / "work",
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shown = SHOWN[page]
    assert done.stdout.splitlines()[-len(shown) :] == shown or not shown
    assert list((tmp_path / "work").glob("*.vault/data.db"))


def test_every_page_on_a_framework_is_run():
    pages = (ROOT / "docs" / "howto").glob("use-with-*.md")
    assert {page.stem.removeprefix("use-with-") for page in pages} == SHOWN.keys()
