"""Whatever goes wrong ends as one sentence, an exit code and, when asked for, one JSON document."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from typer.main import get_command

from vault import Principal, Vault, errors
from vault.cli import demo
from vault.cli.program import app

SECRET = "4929-1234-card-number"


def commands(group=None, path=()):
    """Every command with its path, and the options and arguments that it takes."""
    group = group or get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def names_of(command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


ALL = [pytest.param(path, command, id=" ".join(path)) for path, command in commands()]


def test_the_commands_are_those_that_are_promised():
    promised = [
        "init",
        "demo",
        "export",
        "sessions",
        "show",
        "follow",
        "label",
        "end",
        "verify",
        "info",
        "checkpoint",
        "runs",
        "stop",
        "why",
        "wake",
        "replay",
        "context",
        "fork",
        "restart",
        "view",
        "erase",
        "lineage",
        "backup",
        "restore",
        "fsck",
        "drill",
        "worker",
    ]
    assert {path for path, _ in commands()} == {(name,) for name in promised} | {
        *(("keys", verb) for verb in ("rotate-passphrase", "list", "rotate", "barrier", "reencrypt")),
        *(("import", verb) for verb in ("files", "openai-sqlite", "langgraph-sqlite")),
        *(("import", verb) for verb in ("langgraph-store-sqlite", "adk-sqlite")),
        ("effects", "list"),
        ("effects", "resolve"),
        *(("grants", verb) for verb in ("give", "revoke", "list")),
        *(("break-glass", verb) for verb in ("request", "approve", "end")),
        *(("audit", verb) for verb in ("list", "verify", "export", "reveal")),
        *(("tenants", verb) for verb in ("list", "show", "add")),
        *(("principals", verb) for verb in ("list", "add", "remove")),
        *(("hold", verb) for verb in ("place", "lift", "list")),
        *(
            ("retention", verb)
            for verb in ("preview", "run", "status", "explain", "undo", "date", "trust-clock")
        ),
        *(("policy", verb) for verb in ("list", "show", "check", "activate", "diff", "pending")),
        *(("policy", verb) for verb in ("approve", "cancel", "explain")),
        *(("receipt", verb) for verb in ("list", "get", "show", "verify")),
        *(("memory", verb) for verb in ("put", "get", "list", "search", "history", "stale")),
        *(("artifact", verb) for verb in ("put", "get", "list")),
        *(("subject", verb) for verb in ("export", "report", "erase")),
    }


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_command_takes_json_and_debug_and_names_its_vault(path, command):
    names = names_of(command)
    assert {"--json", "--debug"} <= names
    without = {("demo",), ("restore",), ("receipt", "show"), ("receipt", "verify")}
    assert ("--vault" in names) is (path not in without)
    of_the_vault = {"init", "demo", "verify", "info", "keys", "worker", "backup", "restore", "fsck", "drill"}
    whose = path[0] not in of_the_vault and path not in without
    assert ({"--tenant", "--as"} <= names) is whose
    assert not any("passphrase" in name for name in names)


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_command_and_option_explains_itself(path, command, call):
    done = call(*path, "--help")
    assert done.code == 0
    assert done.err == ""
    assert command.help
    for parameter in command.params:
        assert parameter.help, parameter.name
        assert all(name in done.out for name in parameter.opts if name.startswith("-"))


def test_without_anything_the_program_says_what_it_can_do(call):
    done = call()
    assert done.code == 0
    assert "Commands:" in done.out
    assert call("--version").out.startswith("session-vault ")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["nothing"], id="unknown-command"),
        pytest.param(["show"], id="missing-argument"),
        pytest.param(["show", "latest", "--no-such-option"], id="unknown-option"),
        pytest.param(["show", "latest", "--limit", "many"], id="not-a-number"),
        pytest.param(["show", "latest", "--limit", "0"], id="out-of-range"),
        pytest.param(["import", "x", "--format", "csv"], id="unknown-format"),
        pytest.param(["keys"], id="missing-command"),
        pytest.param(["nothing\x1b[2J"], id="control-character"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(call, arguments):
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("session-vault: ")
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err
    said = call(*arguments, "--json")
    assert said.document["exit_code"] == said.code == 2
    assert said.document["error"] == "UsageError"


ERRORS = [value for value in vars(errors).values() if isinstance(value, type)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_vault_ends_with_its_sentence_and_code(call, monkeypatch, vault, kind):
    def refuse(*_, **__):
        raise kind

    monkeypatch.setattr(Vault, "open", refuse)
    done = call("info", "--json")
    assert done.document == {"error": kind.__name__, "message": str(kind()), "exit_code": kind.exit_code}
    assert done.code == kind.exit_code
    assert done.err.count("\n") == 1
    assert done.err.lower() == f"session-vault: {kind()}\n".lower()


@pytest.mark.parametrize("debug", [False, True])
def test_an_unexpected_error_says_where_it_arose_and_nothing_that_it_held(call, monkeypatch, vault, debug):
    """K1: an exception's own text may quote a payload."""

    def fail(*_, **__):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(Vault, "info", fail)
    done = call("info", *(["--debug"] if debug else []))
    assert done.code == 70
    assert SECRET not in done.out + done.err
    assert "RuntimeError" in done.err
    assert ("in fail" in done.err) is debug
    assert call("info", "--json").document["exit_code"] == 70


def test_a_refusal_of_the_system_quotes_no_path(call, monkeypatch, vault):
    def fail(*_, **__):
        raise OSError(28, "No space left on device", f"/{SECRET}")

    monkeypatch.setattr(Vault, "info", fail)
    done = call("info")
    assert (done.code, done.err) == (10, "session-vault: the system refused: no space left on device\n")


def test_a_missing_vault_is_named_by_how_it_was_asked_for(call):
    done = call("sessions")
    assert done.code == 3
    assert "./my.vault" in done.err
    assert "at the path given" in call("sessions", "--vault", SECRET).err
    assert SECRET not in call("sessions", "--vault", SECRET, "--json").out


@pytest.fixture
def many(vault):
    """The vault with more in it than a pipe holds."""
    with Vault.open(vault) as opened:
        session = opened.access(Principal(tenant="default", subject="owner")).sessions.latest()
        for number in range(150):
            session.append("message.user", {"content": f"{number} " * 500})
    return vault


@pytest.mark.parametrize(
    "arguments", [["show", "latest"], ["show", "latest", "--json"], ["export", "latest"]], ids=" ".join
)
def test_a_reader_that_stops_reading_is_no_reason_to_complain(start, many, arguments):
    process = start(*arguments)
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert b"Error" not in err
    assert b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    "arguments", [["info", "--json"], ["info"], ["show", "latest"], ["export", "latest"]], ids=" ".join
)
def test_a_full_disk_behind_standard_output_is_one_sentence(start, vault, arguments):
    with Path("/dev/full").open("wb") as full:
        process = start(*arguments, stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 10
    assert err.decode() == "session-vault: the system refused: no space left on device\n"


def test_ctrl_c_ends_with_130_and_one_word(start, vault):
    process = start("follow", "latest", "--json")
    for _ in range(3):
        assert json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"session-vault: interrupted\n"
    assert json.loads(out) == {"error": "Interrupted", "message": "interrupted", "exit_code": 130}


def test_a_terminal_that_knows_no_unicode_still_gets_everything(start, vault):
    process = start("show", "latest", env={"PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"Why did sales drop?" in out


def test_main_can_be_called_from_a_thread(vault, call):
    done = []
    thread = threading.Thread(target=lambda: done.append(call("import", os.devnull)))
    thread.start()
    thread.join()
    assert done[0].code == 2


def test_the_installed_name_is_the_module():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'session-vault = "vault.cli:main"' in project


def test_a_file_in_the_working_directory_is_not_taken_for_a_part_of_the_program(place):
    """The demonstration starts the program again, wherever it is called."""
    (place / "orjson.py").write_text("raise SystemExit('taken over')")
    done = demo._child("--version")
    assert (done.returncode, done.stderr) == (0, b"")
