"""The page about the OpenAI Agents SDK does what it shows."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "use-with-openai-agents.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_page_run_one_after_another(tmp_path, monkeypatch):
    """L1: in an empty directory, in one namespace."""
    monkeypatch.chdir(tmp_path)
    program = "".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    assert program.count("VaultSession(") >= 3
    exec(compile(program, PAGE.name, "exec"), {"__name__": "page"})  # noqa: S102 - our own page
    assert (tmp_path / "sessions.vault" / "data.db").exists()
