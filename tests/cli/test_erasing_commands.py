"""`erase`, and `receipt list` and `get`: look first, say yes to exactly that, keep the proof (D4, D5, D6)."""

import json
import os
import re
import select
import shutil
import sqlite3
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from vault import Principal, Vault
from vault.cli.erasing import _STEPS
from vault.cli.plans import print_plan
from vault.policy.lineage import Kind
from vault.policy.plan import Item, Plan, Reason, Selector

OFFICER = ["--as", "dpo", "--role", "privacy_officer"]
AUDITOR = ["--as", "ann", "--role", "auditor"]
NOBODYS = "ses_00000000-0000-7000-8000-000000000000"
TOKEN = "0" * 64
TITLE = "Ottoline's August sales"


@pytest.fixture
def made(place):
    """A vault with a session of `owner` and what was made from it, also a fork of `bob`'s."""
    with Vault.create(place / "my.vault") as opened:
        owner, bob = (
            opened.access(Principal(tenant="default", subject=subject, roles={"agent", "owner"}))
            for subject in ("owner", "bob")
        )
        session = owner.sessions.create(title=TITLE, labels={"purpose": "sales"})
        session.append("message.user", {"content": "Why did sales drop?"})
        session.append("message.user", raw=os.urandom(200_000))
        memory = owner.memories.put(("users", "ann"), "likes", {"tea": True}, sources=[session])
        artifact = owner.artifacts.put("chart.png", b"chart", sources=[session])
        other = owner.sessions.create(title="A refund", labels={"purpose": "refund"})
        either = [session, other]
        both = owner.memories.put(("all",), "both", 1, sources=either, on_source_erased="erase_with_last")
        fork = owner.sessions.fork(session.id, title="Another try")
        owner.grants.give(session.id, "bob", level="L3", may=["fork"])
        bobs = bob.sessions.fork(session.id, title="Bob's try")
    return SimpleNamespace(
        session=session.id,
        memory=memory.id,
        artifact=artifact.id,
        other=other.id,
        both=both.id,
        fork=fork.id,
        bobs=bobs.id,
    )


def token_of(call, *arguments):
    return call("erase", *arguments, "--plan", "--json").document["token"]


def there(call, session, *who):
    """Whether somebody finds a session."""
    return call("show", session, *who).code == 0


# ------------------------------------------------------------------------------------------------ the plan


def test_a_plan_says_what_goes_what_goes_with_it_and_why_and_does_nothing(call, made, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call("erase", made.session, "--plan")
    assert (done.code, done.err) == (0, "")
    goes, with_it, stays = re.split(r"goes with it:|stays:", done.out)
    assert re.search(rf"goes:\n  session +{made.session}\n +{TITLE}\n", goes)
    for kind, id_ in (("memory", made.memory), ("artifact", made.artifact)):
        assert re.search(rf"{kind} +{id_}\n +made from {made.session}\n", with_it)
    assert re.search(rf"session +{made.fork}\n +Another try\n +forked from {made.session}\n", with_it)
    assert re.search(rf"memory +{made.both}\n +made from something else too\n", stays)
    assert "2 sessions, 1 memory, 1 artifact would go\n" in stays
    assert made.bobs not in done.out  # it keeps what is its own
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert there(call, made.session)
    assert there(call, made.fork)


def test_a_plan_as_json_names_every_item_with_its_reason(call, made):
    told = call("erase", made.session, "--plan", "--json").document
    assert {item["id"]: (item["action"], item["reason"], item["through"]) for item in told["items"]} == {
        made.session: ("erase", "root", None),
        made.memory: ("erase", "derived_from", made.session),
        made.artifact: ("erase", "derived_from", made.session),
        made.fork: ("erase", "fork_of", made.session),
        made.both: ("keep", "other_source_remains", made.session),
    }
    assert told["counts"]["session"] == {"erase": 2}
    assert told["of_others"] == 0
    assert f"token {told['token']}\n" in call("erase", made.session, "--plan").out


def test_an_officer_sees_what_would_go_but_not_what_it_says(call, made):
    for selection in ([made.session], ["--subject", "owner"]):
        out = call("erase", *selection, "--plan", *OFFICER).out
        assert made.session in out
        assert "sales" not in out
        assert "refund" not in out


def test_what_a_fork_shares_stays_when_forks_are_to_stay(call, made):
    done = call("erase", made.session, "--forks", "exclude", "--plan")
    assert re.search(rf"stays:\n  session +{made.session}\n +{TITLE}\n +a fork shares it\n", done.out)
    done = call("erase", made.session, "--forks", "exclude", "--yes")
    assert (done.code, done.out, done.err.count("\n")) == (7, "", 1)
    assert there(call, made.session)


def test_a_long_plan_is_cut_for_people_and_whole_as_json(call, vault):
    with Vault.open(vault) as opened:
        sessions = opened.access(Principal(tenant="default", subject="owner")).sessions
        for number in range(30):
            sessions.create(title=f"number {number}")
    out = call("erase", "--subject", "owner", "--plan").out
    assert out.count("ses_") == 20
    assert "and 11 more; --json lists all\n31 sessions would go\n" in out
    assert len(call("erase", "--subject", "owner", "--plan", "--json").document["items"]) == 31


SOURCE, THING = b"s" * 16, b"t" * 16
ENDS = 1_900_000_000_000_000  # 2030-03-17 17:46 UTC


@pytest.mark.parametrize(
    ("action", "reason", "through", "words"),
    [
        pytest.param("erase", "root", THING, ["goes:"], id="root"),
        pytest.param("erase", "derived_from", SOURCE, ["goes with it:", "made from mem_7373"], id="derived"),
        pytest.param("erase", "fork_of", SOURCE, ["goes with it:", "forked from mem_7373"], id="fork"),
        pytest.param("erase", "last_source_gone", SOURCE, ["its last source is mem_7373"], id="last"),
        pytest.param(
            "recompute", "derived_from", SOURCE, ["to be made again from what stays"], id="recompute"
        ),
        pytest.param("detach", "derived_from", SOURCE, ["stays:", "holds nothing of it"], id="detach"),
        pytest.param("keep", "other_source_remains", SOURCE, ["stays:", "something else too"], id="keep"),
        pytest.param("keep", "shared_by_fork", b"?" * 16, ["stays:", "a fork shares it"], id="shared"),
        pytest.param("held", "hold", THING, ["is held back:", "a hold\n"], id="held"),
        pytest.param("held", "hold", SOURCE, ["a hold,\n", "on mem_7373"], id="held-for"),
        pytest.param("minimum", "minimum", THING, ["minimum until 2030-03-17 17:46\n"], id="minimum"),
        pytest.param("minimum", "minimum", SOURCE, ["17:46,\n", "on mem_7373"], id="minimum-for"),
    ],
)
@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_line_of_a_plan_says_why(capsys, monkeypatch, action, reason, through, words, kind):
    monkeypatch.setenv("COLUMNS", "80")
    until_us = ENDS if action == "minimum" else 0
    source = Item(SOURCE, "memory", b"a", "erase", "root", SOURCE, 0, 0)
    item = Item(THING, kind, b"b", action, reason, through, 1, until_us)
    plan = Plan(
        selector=Selector("memory", SOURCE),
        cause="request",
        items=(item, source),
        counts={("memory", "erase"): 1, (kind, action): 1},
        digest=b"",
    )
    grant = SimpleNamespace(own=False, owner=b"")
    planned = SimpleNamespace(plan=plan, counts=plan.counts, token=TOKEN, grant=grant)
    print_plan(None, planned, as_json=False)
    out = capsys.readouterr().out
    assert all(word in out for word in words)
    assert all(len(line) <= 80 for line in out.splitlines())
    print_plan(None, planned, as_json=True)
    [told] = [one for one in json.loads(capsys.readouterr().out)["items"] if one["reason"] == reason][:1]
    assert (told["until"] == "2030-03-17T17:46:40.000000Z") is (action == "minimum")


def test_no_reason_of_a_plan_is_without_words():
    shown = {mark.values[1] for mark in test_every_line_of_a_plan_says_why.pytestmark[-1].args[1]}
    assert shown == set(get_args(Reason))


# -------------------------------------------------------------------------------------------- carrying out


def test_a_token_erases_exactly_what_was_shown(call, made):
    done = call("erase", made.session, "--token", token_of(call, made.session))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("erased: 2 sessions, 1 memory, 1 artifact\nverified: ")
    assert re.search(r"^operation era_[0-9a-f-]{36}$", done.out, re.MULTILINE)
    assert re.search(r"shown once.*:\n[0-9a-f]{64}\n$", done.out, re.DOTALL)
    assert not there(call, made.session)
    assert not there(call, made.fork)
    assert there(call, made.other)
    assert call("verify").code == 0


def test_a_token_is_refused_when_more_would_go_than_was_shown(call, made, place):
    token = token_of(call, made.session)
    with Vault.open(place / "my.vault") as opened:
        owner = opened.access(Principal(tenant="default", subject="owner"))
        owner.memories.put(("users", "ann"), "new", 1, sources=[made.session])
    for refused in (token, token[::-1]):
        done = call("erase", made.session, "--token", refused, "--yes")
        assert (done.code, done.out, done.err.count("\n")) == (7, "", 1)
        assert "--plan" in done.err
    assert there(call, made.session)


def test_nothing_is_erased_where_nobody_can_be_asked_and_nobody_said_yes(call, made):
    for extra in ([], ["--json"]):
        done = call("erase", made.session, *extra)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "--yes" in done.err
    assert there(call, made.session)


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        pytest.param(b"4\n", 0, "erased: 2 sessions, 1 memory, 1 artifact", id="the-number"),
        pytest.param(b"erase\n", 2, "nothing was erased, as 4 was not what was typed", id="another-word"),
        pytest.param(b"\x04", 2, "nothing was erased", id="end-of-file"),
        pytest.param(b"\x03", 130, "interrupted", id="ctrl-c"),
    ],
)
def test_on_a_terminal_the_plan_is_shown_and_somebody_types_how_many_go(call, made, start, typed, code, said):
    shown = on_terminal(start, typed, "erase", made.session)
    assert shown.code == code
    assert made.fork in shown.text
    assert "this cannot be taken back; type 4 to go on: " in shown.text
    assert said in shown.text
    assert there(call, made.session) is (code != 0)


def test_for_one_thing_a_word_is_typed(call, start, vault):
    session = call("sessions", "--json").document["sessions"][0]["id"]
    shown = on_terminal(start, b"erase\n", "erase", session)
    assert (shown.code, there(call, session)) == (0, False)
    assert "type erase to go on: " in shown.text


def test_on_a_terminal_it_is_said_how_far_each_step_is(call, made, start):
    """A2: which step, how much of it is done, of how much; and it is gone from the screen in the end"""
    shown = on_terminal(start, b"", "erase", made.session, "--yes")
    assert shown.code == 0
    steps = "|".join(_STEPS.values())
    assert re.search(rf"erasing 4 things: ({steps})[^\n]* [\d.]+( \w+)?/[\d.]+", shown.text)
    assert shown.text.rstrip().splitlines()[-1].strip("\x1b[?25h").isalnum()  # the receipt's key


def test_the_answer_as_json_is_nothing_else_whatever_the_screen_shows(made, start):
    ours, theirs = os.openpty()
    process = start("erase", made.session, "--yes", "--json", stderr=theirs)
    os.close(theirs)
    out = process.communicate(timeout=60)[0]
    assert json.loads(out)["state"] == "verified"
    assert out.count(b"\n") == 1
    assert b"\x1b" not in out
    os.close(ours)


def on_terminal(start, typed, *arguments):
    """Runs a command on a terminal of its own, and types when it asks."""
    ours, theirs = os.openpty()
    process = start(
        *arguments, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_own
    )
    os.close(theirs)
    text, answered = b"", False
    while True:
        if not select.select([ours], [], [], 60)[0]:
            process.kill()  # it waits for what was typed already: told by its exit code
            break
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
        if b"to go on: " in text and not answered:
            answered = True
            os.write(ours, typed)
    os.close(ours)
    return SimpleNamespace(code=process.wait(timeout=60), text=text.decode().replace("\r\n", "\n"))


def _own():
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_receipt_and_its_key_go_into_files_and_prove_whom_it_was_about(call, made, place):
    files = ["--receipt", "gone.json", "--key-file", "gone.key"]
    done = call("erase", "--subject", "owner", "--yes", *files)
    assert done.code == 0
    assert "receipt written to gone.json" in done.out
    key = (place / "gone.key").read_text().strip()
    assert re.fullmatch("[0-9a-f]{64}", key)
    assert key not in done.out
    assert {(place / name).stat().st_mode & 0o777 for name in ("gone.json", "gone.key")} == {0o600}
    public = call("info", "--json").document["ledger_public_key"]
    checked = ["receipt", "verify", "gone.json", "--key", public, "--subject-key", key, "--subject"]
    assert call(*checked, "owner").code == 0
    assert call(*checked, "bob").code == 3


def test_each_item_gets_a_proof_that_it_is_among_those_erased(call, made, place):
    """D6: offline, and of no other item"""
    files = ["-o", "r.json", "--key-file", "r.key", "--proofs", "proofs"]
    done = call("erase", "--subject", "owner", "--yes", *files)
    assert done.code == 0
    assert "written to proofs" in done.out
    proofs = sorted((place / "proofs").iterdir())
    assert len(proofs) >= 2
    assert {path.stat().st_mode & 0o777 for path in proofs} == {0o600}
    public = call("info", "--json").document["ledger_public_key"]
    key = (place / "r.key").read_text().strip()
    checked = ["receipt", "verify", "r.json", "--key", public, "--item-key", key, "--proof"]
    for path in proofs:
        assert call(*checked, f"proofs/{path.name}", "--item", path.stem).code == 0
    assert call(*checked, f"proofs/{proofs[0].name}", "--item", proofs[1].stem).code != 0


def test_proofs_are_never_written_over_anything(call, made, place):
    (place / "proofs").mkdir()
    assert call("erase", made.other, "--yes", "--proofs", "proofs").code == 2
    assert call("show", made.other).code == 0


def test_the_outcome_as_json_has_the_key_unless_it_is_in_a_file(call, made):
    done = call("erase", made.other, "--yes", "--json").document
    assert (done["state"], done["before"], done["receipt"]) == ("verified", False, None)
    assert done["counts"] == {"session": {"erased": 1}}
    assert re.fullmatch("[0-9a-f]{64}", done["key"])
    files = ["-o", "r.json", "--key-file", "r.key"]
    done = call("erase", made.session, "--yes", "--json", *files).document
    assert (done["receipt"], done["key"]) == ("r.json", None)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        pytest.param(["-o", "there.json"], 2, id="receipt-there"),
        pytest.param(["--key-file", "there.json"], 2, id="key-there"),
        pytest.param(["--key-file", "there.json", "--overwrite"], 2, id="key-never-replaced"),
        pytest.param(["-o", "new", "--key-file", "new"], 2, id="one-file"),
        pytest.param(["-o", "nowhere/r.json"], 10, id="no-directory"),
        pytest.param(["-o", "new", "--key-file", "nowhere/r.key"], 10, id="no-directory-for-the-key"),
    ],
)
def test_nothing_is_erased_when_its_proof_could_not_be_kept(call, made, place, files, code):
    (place / "there.json").write_text("kept")
    done = call("erase", made.session, "--yes", *files)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert there(call, made.session)
    assert (place / "there.json").read_text() == "kept"
    assert not (place / "new").exists()


def test_a_key_is_shown_when_the_disk_takes_neither_it_nor_the_receipt(call, made, place, monkeypatch):
    making = tempfile.mkstemp

    def on_a_full_disk(*arguments, **options):
        descriptor, name = making(*arguments, **options)
        if options["dir"] == Path():
            os.close(descriptor)
            descriptor = os.open("/dev/full", os.O_WRONLY)
        return descriptor, name

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkstemp", on_a_full_disk)
        done = call("erase", made.other, "--yes", "-o", "r.json", "--key-file", "r.key", "--json")
    assert (done.code, done.document["error"]) == (10, "StorageUnavailable")
    assert re.search(r"its key, shown once: [0-9a-f]{64}\n", done.err)
    assert [file.name for file in place.iterdir()] == ["my.vault"]
    assert not there(call, made.other)
    again = call("erase", made.other, "--yes", "-o", "r.json")
    assert again.out.startswith("this was erased before")


def test_what_was_erased_before_gives_its_first_receipt_again(call, made, place):
    first = call("erase", made.session, "--yes", "-o", "first.json").out
    again = call("erase", made.session, "--yes", "-o", "again.json", "--key-file", "again.key")
    assert again.code == 0
    assert again.out.startswith("this was erased before; its receipt says:\nerased: 2 sessions")
    assert re.search("operation era_.*", again.out)[0] in first
    assert (place / "first.json").read_bytes() == (place / "again.json").read_bytes()
    assert not (place / "again.key").exists()
    told = call("erase", made.session, "--yes", "--json").document
    assert (told["before"], told["key"]) == (True, None)
    assert call("erase", made.session, "--plan").out.startswith("this was erased before")
    assert call("erase", made.session, "--yes", "-o", "first.json").code == 2
    assert call("erase", made.session, "--yes", "-o", "first.json", "--overwrite").code == 0


def test_what_never_was_is_not_found_and_what_is_anothers_answers_alike(call, made):
    never = call("erase", NOBODYS, "--yes")
    assert (never.code, never.out) == (3, "")
    for session, *who in ((made.session, "--as", "mallory"), (made.bobs,)):
        foreign = call("erase", session, "--yes", *who)
        assert (foreign.code, foreign.out, foreign.err) == (never.code, never.out, never.err)
    assert there(call, made.session)
    call("erase", made.session, "--yes")
    assert call("erase", made.session, "--yes", "--as", "mallory").err == never.err


def test_one_memory_or_artifact_goes_alone(call, made):
    for option, id_, kind in (("--memory", made.memory, "memory"), ("--artifact", made.artifact, "artifact")):
        done = call("erase", option, id_, "--yes")
        assert (done.code, done.out.splitlines()[0]) == (0, f"erased: 1 {kind}")
    assert there(call, made.session)


def test_an_officer_erases_a_person_a_label_and_the_tenant(call, made):
    done = call("erase", "--label", "purpose=refund", "--yes", "--reason", "court", *OFFICER)
    assert (done.code, there(call, made.other), there(call, made.session)) == (0, False, True)
    assert call("erase", "--subject", "bob", "--yes", *OFFICER).code == 0
    assert not there(call, made.bobs, "--as", "bob")
    assert call("erase", "--tenant-whole", "--yes", "--reason", "contract_end", *OFFICER).code == 0
    assert not there(call, made.session)
    assert call("audit", "list", *AUDITOR).code == 0


def test_what_a_hold_keeps_is_held_back_hidden_and_said_to_be(call, made):
    call("hold", "place", "--session", made.session, "--reason", "case 7", *OFFICER)
    plan = call("erase", made.session, "--plan").out
    assert re.search(rf"held back: .*\n  session +{made.session}\n +{TITLE}\n +a hold\n", plan)
    assert "nothing would go; 2 sessions, 1 memory, 1 artifact held back\n" in plan
    done = call("erase", made.session, "--yes")
    assert done.code == 0
    assert "kept because of a hold: 2 sessions, 1 memory, 1 artifact\n" in done.out
    assert "nothing was erased\n" in done.out
    assert not there(call, made.session)
    assert "A hold keeps it" in call("retention", "explain", made.session).out


def test_an_erasure_that_a_store_keeps_from_its_end_says_so_and_is_finished_later(call, made, place):
    with Vault.open(place / "my.vault") as opened:
        session = opened.access(Principal(tenant="default", subject="owner")).sessions.resume(made.session)
        [large] = [event.payload_ref for event in session.events() if event.size > 200_000]
    [blob] = (place / "my.vault" / "blobs").rglob(large.rpartition("/")[2])
    shutil.move(blob, place / "aside")
    (blob / "in the way").mkdir(parents=True)
    done = call("erase", made.session, "--yes", "--forks", "include")
    assert done.code == 10
    assert "incomplete: a store did not give something up" in " ".join(done.out.split())
    assert done.err == "session-vault: not everything is gone yet\n"
    assert not there(call, made.session)
    assert "incomplete" in call("erase", made.session, "--yes").out
    shutil.rmtree(blob)
    again = call("erase", made.session, "--yes")
    assert (again.code, "verified: " in again.out) == (0, True)


def test_while_somebody_reads_the_database_the_search_is_said_not_to_be_over(call, made, place):
    reader = sqlite3.connect(place / "my.vault" / "data.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sessions").fetchone()
    done = call("erase", made.session, "--yes")
    reader.close()
    assert done.code == 0
    assert "somebody still reads the database" in " ".join(done.out.split())
    assert "verified: " in call("erase", made.session, "--yes").out


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        pytest.param([], "one thing", 2, id="nothing"),
        pytest.param([""], "no wildcard", 2, id="empty-session"),
        pytest.param(["*"], "no wildcard", 2, id="wildcard-session"),
        pytest.param(["%"], "no wildcard", 2, id="like-session"),
        pytest.param(["latest"], "full id", 2, id="latest"),
        pytest.param(["--subject", ""], "no wildcard", 2, id="empty-subject"),
        pytest.param(["--subject", "  "], "no wildcard", 2, id="blank-subject"),
        pytest.param(["--subject", "*"], "no wildcard", 2, id="wildcard-subject"),
        pytest.param(["--memory", ""], "no wildcard", 2, id="empty-memory"),
        pytest.param(["--artifact", "*"], "no wildcard", 2, id="wildcard-artifact"),
        pytest.param(["--label", "purpose"], "name=value", 2, id="no-label"),
        pytest.param(["--label", "purpose="], "no wildcard", 2, id="empty-value"),
        pytest.param(["--label", "=sales"], "no wildcard", 2, id="empty-name"),
        pytest.param(["--label", "purpose=*"], "no wildcard", 2, id="wildcard-label"),
        pytest.param(["--subject", "owner", "--label", "purpose=sales"], "one thing", 2, id="two"),
        pytest.param(["--tenant-whole", "--subject", "owner"], "one thing", 2, id="whole-and-part"),
        pytest.param([NOBODYS, "--subject", "owner"], "one thing", 2, id="session-and-subject"),
        pytest.param(["--subject", "owner", "--reason", "because"], "a reason is one of", 2, id="reason"),
        pytest.param(["--subject", "owner", "--reason", ""], "a reason is one of", 2, id="empty-reason"),
        pytest.param(["--subject", "owner", "--forks", "maybe"], "include or exclude", 2, id="forks"),
        pytest.param(["--subject", "owner", "--token", "abc"], "64 hexadecimal digits", 2, id="token"),
        pytest.param(["--subject", "owner", "--plan"], "--plan only shows", 2, id="plan-and-yes"),
        pytest.param(["ses_nonsense"], "nothing of that", 3, id="no-id"),
        pytest.param([NOBODYS], "nothing of that", 3, id="unknown-session"),
        pytest.param(["--memory", "mem_nonsense"], "nothing of that", 3, id="no-memory"),
        pytest.param(["--artifact", NOBODYS], "nothing of that", 3, id="another-kind"),
        pytest.param(["--subject", "Ottoline"], "nothing of that", 3, id="another-person"),
        pytest.param(["--label", "purpose=sales"], "nothing of that", 3, id="label-as-owner"),
        pytest.param(["--tenant-whole"], "nothing of that", 3, id="tenant-as-owner"),
        pytest.param(["--subject", "owner", "--as", "s", "--role", "support"], "no such", 3, id="support"),
        pytest.param(["--tenant-whole", *AUDITOR], "no such", 3, id="auditor"),
        pytest.param(["--subject", "Ottoline", *OFFICER], "nothing of that", 3, id="unknown-subject"),
        pytest.param(["--label", "purpose=Ottoline", *OFFICER], "nothing of that", 3, id="unknown-label"),
    ],
)
def test_what_names_nothing_or_too_much_is_refused_in_one_sentence(call, vault, given, said, code):
    done = call("erase", *given, "--yes")
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err
    assert "Ottoline" not in done.err
    assert len(call("sessions", "--json").document["sessions"]) == 1


# ------------------------------------------------------------------------------------------------ receipts


def test_receipts_are_listed_and_gotten_by_who_may_audit(call, made, place, monkeypatch):
    assert call("receipt", "list", *AUDITOR).err == "nothing was erased in this tenant yet\n"
    operations = [
        call("erase", made.other, "--yes", "-o", "first.json", "--json").document["operation"],
        call("erase", "--subject", "bob", "--yes", "--json", *OFFICER).document["operation"],
    ]
    monkeypatch.setenv("COLUMNS", "80")
    listed = call("receipt", "list", *AUDITOR)
    assert listed.out.index(operations[1]) < listed.out.index(operations[0])
    assert "subject, asked for by privacy_officer: person_request" in listed.out
    assert listed.out.endswith("2 receipts\n")
    assert all(len(line) <= 80 for line in listed.out.splitlines())
    told = call("receipt", "list", "--limit", 1, "--json", *OFFICER).document
    assert ([one["operation"] for one in told["receipts"]], told["more"]) == (operations[1:], True)
    assert call("receipt", "get", operations[0], "-o", "gotten.json", *AUDITOR).code == 0
    assert (place / "gotten.json").read_bytes() == (place / "first.json").read_bytes()
    assert call("receipt", "get", operations[0], *AUDITOR).out.encode() == (place / "first.json").read_bytes()
    about = call("receipt", "get", operations[0], "-o", "json.json", "--json", *AUDITOR).document
    assert (about["operation"], about["file"]) == (operations[0], "json.json")
    assert json.loads((place / "json.json").read_bytes())["receipt"]["operation"] == operations[0]


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        pytest.param(["list"], "no receipts for this tenant and role", 3, id="list-as-owner"),
        pytest.param(["get", "era_x"], "no receipts for this tenant and role", 3, id="get-as-owner"),
        pytest.param(["get", "era_x", *AUDITOR], "no receipt of such an operation", 3, id="unknown"),
        pytest.param(["list", *AUDITOR, "--tenant", "t2"], "no receipts for this tenant", 3, id="tenant"),
    ],
)
def test_receipts_are_refused_in_one_sentence(call, vault, given, said, code):
    done = call("receipt", *given)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err
