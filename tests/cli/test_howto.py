"""The how-to pages do what they show, each in one shell from top to bottom."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from vault import Principal, Vault

ROOT = Path(__file__).resolve().parents[2]
#: Those on frameworks are programs; the tests of their adapters run them.
PAGES = sorted(
    set((ROOT / "docs" / "howto").glob("*.md")) - set((ROOT / "docs" / "howto").glob("use-with-*.md"))
)
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAME = "Ottoline Quarrenby"


def steps(page: str) -> list[tuple[str, str]]:
    """Each command of a page, with what stands under it."""
    found: list[tuple[str, str]] = []
    for line in "".join(BLOCK.findall(page)).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def matches(shown: str, printed: str) -> bool:
    """Whether the output is what is shown, white space aside; `…` stands for anything."""
    parts = (r"\s+".join(map(re.escape, part.split())) for part in shown.split("…"))
    return re.fullmatch(r"[\s\S]*?".join(rf"\s*{part}\s*" for part in parts), printed) is not None


@pytest.fixture
def session(place: Path) -> str:
    """A session that names a customer, which was shared with a team and seen by support; its id."""
    with Vault.create(place / "my.vault") as opened:
        owner = Principal(tenant="default", subject="owner", roles={"agent", "owner"})
        access = opened.access(owner)
        made = access.sessions.create(title="A card")
        made.append("message.user", {"content": f"I'm {NAME}, ottoline@example.org"})
        made.append("tool.returned", {"name": NAME, "email": "ottoline@example.org"}, tool="crm")
        made.append("message.assistant", {"content": f"Thank you, {NAME}."})
        access.grants.give(made.id, "team:north")
        sam = Principal(tenant="default", subject="sam", roles={"support"})
        list(opened.access(sam).sessions.resume(made.id).events())
    return made.id


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_every_step_of_a_how_to_prints_what_it_shows(place: Path, session: str, page: Path):
    """O2, O3, R5."""
    shown = steps(page.read_text(encoding="utf-8"))
    assert len(shown) >= 3
    program = f'session-vault() {{ {shlex.quote(sys.executable)} -m vault.cli "$@"; }}\n'
    script = program + "".join(f"{command}\necho @@$?\n" for command, _ in shown)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SES": session, "COLUMNS": "80"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    printed = re.split(r"@@(\d+)\n", done.stdout)
    assert len(printed) == 2 * len(shown) + 1
    for (command, expected), output, code in zip(shown, printed[::2], printed[1::2], strict=False):
        assert code == "0", f"{command}\n{output}"
        assert matches(expected, output), f"{command}\n{output}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        pytest.param("made it\n", "made\n  it\n", True, id="white-space"),
        pytest.param("…[NAME]…", "I'm [NAME].\n", True, id="within"),
        pytest.param("…[NAME]…", "I'm Ann.\n", False, id="not-within"),
        pytest.param("made it\n", "made it not\n", False, id="more"),
        pytest.param("", "anything", False, id="nothing-shown"),
    ],
)
def test_output_that_is_not_what_is_shown_is_found(shown: str, printed: str, same: bool):
    assert matches(shown, printed) is same
