"""README and tutorial do what they show: their programs run, their commands print what stands under them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "docs" / "reference" / "requirements.md").read_text(encoding="utf-8")

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IDS = re.compile(r"\b[LCSORDKA]\d+\b")


def blocks(text: str) -> list[tuple[str, str]]:
    return BLOCK.findall(text)


def commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block, with what stands under it; `> ` carries a command on."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def matches(shown: str, printed: str) -> bool:
    """Whether the output is what is shown; `…` stands for anything, and so does an empty output."""
    printed = re.sub(r" +$", "", printed, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return not shown or re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, where `session-vault` and `python` are those of this checkout."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = shlex.quote(sys.executable)
    for name, command in {"session-vault": f"{python} -m vault.cli", "python": python}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o700)
    for name in [name for name in os.environ if name.startswith("SESSION_VAULT")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def run(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_quickstart_of_the_readme_runs_as_it_stands(place: Path):
    """L1, S1."""
    [(_, program)] = [block for block in blocks(README) if block[0] == "python"]
    (place / "quickstart.py").write_text(program, encoding="utf-8")
    done = run("python quickstart.py", place)
    assert done.returncode == 0, done.stdout
    assert done.stdout == "1 message.user {'content': 'Why did sales drop?'}\nTrue\n"
    assert len(program.splitlines()) <= 12


def test_every_command_of_the_readme_exists(place: Path):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    lines = [
        line.partition("#")[0].split()
        for kind, block in blocks(README)
        if kind == "sh"
        for line in block.splitlines()
    ]
    assert lines
    for program, command, *_ in lines:
        if program == "make":
            assert command in targets
        else:
            assert run(f"{program} {command} --help", place).returncode == 0


def test_every_step_of_the_tutorial_prints_what_it_shows(place: Path):
    """S1, S2, O1, K4, L12, C4, C5: one shell from top to bottom, as a reader would do it."""
    shown: list[tuple[str, str]] = []
    for kind, block in blocks(TUTORIAL):
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", block)
            assert name, "a program of the tutorial begins with its name"
            (place / name[1]).write_text(block, encoding="utf-8")
        else:
            assert kind == "console"
            shown += commands(block)
    assert len(shown) > 20
    script = "".join(f"{command}\necho @@$?\n" for command, _ in shown)
    printed = re.split(r"@@(\d+)\n", run(script, place).stdout)
    for (command, expected), output, code in zip(shown, printed[::2], printed[1::2], strict=False):
        assert code == "0", f"{command}\n{output}"
        assert matches(expected, output), f"{command}\n{output}"
    assert len(printed) == 2 * len(shown) + 1


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        pytest.param("made it\n", "made it\n", True, id="same"),
        pytest.param("made …/it\n", "made there/it\n", True, id="wildcard"),
        pytest.param("", "anything\n", True, id="nothing-shown"),
        pytest.param("made it\n", "made it not\n", False, id="more"),
        pytest.param("a.b\n", "axb\n", False, id="literal"),
        pytest.param("a\nb\n", "a\n", False, id="less"),
    ],
)
def test_output_that_is_not_what_is_shown_is_found(shown: str, printed: str, same: bool):
    assert matches(shown, printed) is same


def statuses(text: str) -> dict[str, str]:
    """Each requirement's status in the README's table: one row per group, one column per status."""
    section = text.partition("\n## Status\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")]
    [header, *groups] = rows
    return {
        name: status.strip()
        for cells in groups
        for status, cell in zip(header[1:], cells[1:], strict=True)
        for name in IDS.findall(cell)
    }


def test_the_status_in_the_readme_is_that_of_the_requirements():
    rows = [line.split("|")[1:-1] for line in REQUIREMENTS.splitlines() if line.startswith("| ")]
    stated = {cells[0].strip(): cells[2].strip() for cells in rows if IDS.fullmatch(cells[0].strip())}
    assert len(stated) > 40
    assert statuses(README) == stated


def test_the_readme_says_where_a_security_report_goes_and_how_it_is_measured():
    assert "(SECURITY.md)" in README
    assert "docs/reference/benchmarks.md" in README
