"""docs/reference/cli.md and the program say the same: every command, option, variable and exit code."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from vault import errors
from vault.cli import program
from vault.cli.call import NEW_PASSPHRASE, PASSPHRASE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
#: Options that are described once, for all commands that have them.
SHARED = {"--vault", "-V", "--tenant", "--as", "--role", "--team", "--json", "--debug", "--help", "-h"}


def commands(group=None, path=()):
    group = group or get_command(program.app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())


def sections(page: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def options(text: str) -> set[str]:
    """The options in the first cells of a section's tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `-")]
    return {option for cell in cells for option in re.findall(r"`(--?[\w-]+)`", cell)}


def taken(command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")}


def test_there_is_a_section_for_every_command_and_for_no_other():
    named = [name for name in sections(PAGE) if name != "What all commands have in common"]
    assert sorted(named) == sorted(COMMANDS)
    assert all(f"[`{name}`](#{name.replace(' ', '-')})" in PAGE for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_described_and_no_other(name: str):
    assert options(sections(PAGE)[name]) == taken(COMMANDS[name]) - SHARED


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_of_a_command_is_shown(name: str):
    [shown] = re.findall(rf"`session-vault {name}([^`]*)`", sections(PAGE)[name])[:1]
    arguments = [parameter for parameter in COMMANDS[name].params if parameter.param_type_name == "argument"]
    assert len(shown.split()) == len(arguments)
    for parameter in arguments:
        assert (parameter.metavar or parameter.name).strip("[]") in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_shape_of_the_json_of_a_command_is_described(name: str):
    assert "--json" in sections(PAGE)[name]


def test_what_all_commands_share_is_described_once():
    assert options(sections(PAGE)["What all commands have in common"]) == SHARED | {"--version"}


def test_every_variable_of_the_environment_is_described():
    used = {PASSPHRASE, NEW_PASSPHRASE}
    for command in COMMANDS.values():
        for parameter in command.params:
            used |= {parameter.envvar} if isinstance(parameter.envvar, str) else set(parameter.envvar or ())
    assert len(used) == 5
    assert set(re.findall(r"\bSESSION_VAULT\w*", PAGE)) == used


def test_every_exit_code_is_described_with_the_errors_that_end_with_it():
    table = PAGE.partition("### Exit codes")[2].partition("\n## ")[0]
    rows = {int(code): text for code, text in re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)}
    stated = {(code, name) for code, text in rows.items() for name in re.findall(r"`([A-Z]\w+)`", text)}
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert stated == {
        (kind.exit_code, kind.__name__) for kind in kinds if issubclass(kind, errors.VaultError)
    }
    own = {program.USAGE, program.UNEXPECTED, program.INTERRUPTED, program.BROKEN_PIPE}
    assert set(rows) == {0} | own | {code for code, _ in stated}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("| `--a`, `-b` PATH | `x` | uses `--c` |", {"--a", "-b"}, id="row"),
        pytest.param("a `--a` in a sentence", set(), id="sentence"),
    ],
)
def test_options_are_read_from_the_first_cells_of_tables(text: str, found: set[str]):
    assert options(text) == found
