"""An erasure is killed before each of its steps, and at random moments: it always comes to the same end.

D3, D4, D6, D7. ``ERASURE_KILLS`` and ``ERASURE_GRAPHS`` set how many kills and graphs of sessions there are.
"""

import contextlib
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import time
import traceback
from functools import partial

import pytest

from vault import Principal, Vault, wiring
from vault.errors import Conflict, NotFound, VaultError
from vault.sealing.notes import Signer
from vault.sealing.receipts import chain_of, verified

KILLS, GRAPHS = int(os.environ.get("ERASURE_KILLS", "24")), int(os.environ.get("ERASURE_GRAPHS", "1"))
SETTINGS = {"synchronous": "NORMAL"}  # a kill loses nothing that the kernel has
SECONDS_MAX, MORE = 60, 100
OWNERS = ("alice", "bob")
#: By what an erasure is asked for; which session, the graph says.
CHOICES = ("session", "subject", "label", "tenant")


def who(subject, tenant="acme", role="owner"):
    return Principal(tenant=tenant, subject=subject, roles=frozenset({role}))


def officer(vault):
    return vault.access(who("pia", role="privacy_officer"))


# ------------------------------------------------------------------------------------------- the graphs


def grown(vault, choose):
    """Sessions, forks of one's own and of what was shared, payloads in the blob area, derived items."""
    for tenant in ("acme", "zeta"):
        faces = {owner: vault.access(who(owner, tenant)) for owner in OWNERS}
        made = {owner: [] for owner in OWNERS}
        for number in range(choose.randint(3, 5)):
            owner = choose.choice(OWNERS)
            session = faces[owner].sessions.create(title=f"{number}", labels={"case": str(number % 2)})
            fill(session, choose)
            made[owner].append(session)
        for _ in range(choose.randint(1, 3)):
            fork(faces, made, choose)
        for owner in OWNERS:
            derive(faces[owner], made[owner], choose)


def fill(session, choose):
    for number in range(choose.randint(1, 5)):
        session.append("message.user", {"number": number, "text": "word " * choose.choice([1, 300])})
    for size in choose.sample([90_000, 70_001, 1_200_000], choose.randint(0, 2)):
        session.append("file.read", raw=choose.randbytes(size), resource="file")


def fork(faces, made, choose):
    owner = choose.choice([name for name in OWNERS if made[name]])
    session, forker = choose.choice(made[owner]), choose.choice(OWNERS)
    if forker != owner:
        with contextlib.suppress(VaultError):  # a fork of what is not one's own cannot be shared on
            faces[owner].grants.give(session.id, forker, level="L3", may=["fork"])
    with contextlib.suppress(VaultError):
        made[forker].append(faces[forker].sessions.fork(session.id))
        fill(made[forker][-1], choose)


def derive(access, sessions, choose):
    sources = list(sessions)
    for number in range(choose.randint(0, 4) if sources else 0):
        some = choose.sample(sources, min(len(sources), choose.randint(1, 3)))
        rule = choose.choice(["erase_with_any", "erase_with_any", "erase_with_last", "recompute"])
        if choose.random() < 0.5:
            body = choose.randbytes(choose.choice([100, 90_000]))
            made = access.artifacts.put(f"art {number % 2}", body, sources=some, on_source_erased=rule)
        else:
            made = access.memories.put(
                ("notes",), f"key {number % 2}", number, sources=some, on_source_erased=rule
            )
        sources.append(made)


def told(vault):
    """All that anybody can read."""
    tales = {}
    for tenant in ("acme", "zeta"):
        for owner in OWNERS:
            access = vault.access(who(owner, tenant))
            tales[tenant, owner] = [tale(access, found.id) for found in access.sessions.find(limit=500).items]
            tales[tenant, owner] += [
                (memory.key, memory.version, memory.value) for memory in access.memories.search(limit=500)
            ]
            tales[tenant, owner] += [(one.name, one.version, one.id) for one in access.artifacts.list()]
            tales[tenant, owner] += [asked_again(one) for one in access.derived.stale(limit=500)]
    return tales


def asked_again(one):
    """What is asked for again; the id is of the erasure that asks."""
    return "again", one.kind, one.namespace, one.key, one.labels, one.sources


def tale(access, session_id):
    session = access.sessions.resume(session_id)
    try:
        events = [(event.seq, event.type, event.payload, event.payload_ref) for event in session.events()]
    except NotFound:  # what it shares is not its reader's any more
        events = []
    return session_id, session.info().title, events


def rows_of(place, tenant_id):
    """Every row of a tenant in both databases, and its blobs, byte for byte."""
    with contextlib.closing(sqlite3.connect(place / "data.db")) as data:
        rows = {name: data.execute(query, (tenant_id,)).fetchall() for name, query in ROWS.items()}
    with contextlib.closing(sqlite3.connect(place / "keys.db")) as keys:
        query = "SELECT * FROM keys WHERE tenant_id = ? ORDER BY scope, epoch"
        rows["keys"] = keys.execute(query, (tenant_id,)).fetchall()
    for name in ("area", "item_area"):
        for (address,) in rows[name]:
            rows[address] = (place / "blobs" / address.hex()[:2] / address.hex()).read_bytes()
    return rows


#: Without the audit trail, in which looking at what was shared leaves entries.
OF_SESSIONS = "WHERE session_no IN (SELECT no FROM sessions WHERE tenant_id = ? AND external IS NULL)"
ROWS = {
    "sessions": "SELECT * FROM sessions WHERE tenant_id = ? AND external IS NULL ORDER BY no",
    "events": f"SELECT * FROM events {OF_SESSIONS} ORDER BY session_no, seq",  # noqa: S608
    "blobs": f"SELECT * FROM blobs {OF_SESSIONS} ORDER BY no",  # noqa: S608
    "labels": f"SELECT * FROM labels {OF_SESSIONS} ORDER BY session_no, label",  # noqa: S608
    "touches": f"SELECT * FROM touches {OF_SESSIONS} ORDER BY session_no, seq, tag",  # noqa: S608
    "items": "SELECT * FROM items WHERE tenant_id = ? ORDER BY no",
    "lineage": "SELECT * FROM lineage WHERE item_no IN (SELECT no FROM items WHERE tenant_id = ?)"
    " ORDER BY source, item_no",
    "area": f"SELECT address FROM blobs {OF_SESSIONS} AND body IS NULL",  # noqa: S608
    "item_area": "SELECT address FROM items WHERE tenant_id = ? AND body IS NULL AND size > 0",
}


# ------------------------------------------------------------------------------------ processes that die


def say(pipe, fact):
    os.write(pipe, json.dumps(fact).encode() + b"\n")


class Child:
    """A forked process that does some work, and what it said by its end."""

    def __init__(self, work):
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                work(writing)
                status = 0
            except BaseException:  # noqa: BLE001 - said to the parent, which fails
                say(writing, {"error": traceback.format_exc()})
            finally:
                os._exit(status)
        os.close(writing)

    def ended(self):
        """Its status and what it said, once it ended or killed itself."""
        _, status = os.waitpid(self.pid, 0)
        with os.fdopen(self.reading, "rb") as pipe:
            facts = [json.loads(line) for line in pipe.read().split(b"\n")[:-1]]
        errors = [fact["error"] for fact in facts if "error" in fact]
        assert not errors, errors[0]
        return status, facts

    def killed(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return self.ended()[1]


def dying_at(number):
    """A step that is the last of its process: ``number`` more go before it."""
    left = [number]

    def step(_):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def stepped(step):
    """From here on each execution of this process tells its steps, also those of opening a vault."""
    wiring.Execution = partial(wiring.Execution, step=step)


def erase(place, selection, step, pipe):
    stepped(step)
    with Vault.open(place) as vault:
        outcome = officer(vault).erasure.erase(**selection)
        say(pipe, {"state": outcome.state})


def reopen(place, step, pipe):
    stepped(step)
    Vault.open(place)  # which carries on
    say(pipe, {"opened": True})


@pytest.fixture
def states(tmp_path, monkeypatch):
    """Copies of a vault with this machine's memory of it."""

    def copy(source, name):
        target = tmp_path / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(tmp_path / source, target)
        return use(name)

    def use(name):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name / "state"))
        return tmp_path / name / "vault"

    copy.use = use
    return copy


# ------------------------------------------------------------------------------------------- every step


@pytest.mark.parametrize("graph", range(GRAPHS))
def test_an_erasure_that_is_killed_before_any_of_its_steps_comes_to_the_same_end(states, graph):
    """D3, D4, D6: also when the process that carries it on is killed, at a step that is drawn by lot"""
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    base = states.use("base")
    base.parent.mkdir()
    with Vault.create(base, settings=SETTINGS) as vault:
        grown(vault, choose)
        zeta = vault._keys.tenant("zeta", create=False).tenant_id
        before, roots = told(vault), vault.access(who("alice")).sessions.find(limit=500).items
        selection = selected(CHOICES[(graph + choose.randrange(2) * 2) % 4], roots, choose)
    others = rows_of(base, zeta)
    whole = states("base", "whole")
    with Vault.open(whole) as vault:
        officer(vault).erasure.erase(**selection)
        after = told(vault)
        proved(vault)
    assert after != before, seed
    steps = 0
    for number in range(1_000):
        place = states("base", "broken")
        status, facts = Child(partial(erase, place, selection, dying_at(number))).ended()
        if status == 0:
            assert facts == [{"state": "verified"}]
            break
        steps += 1
        if number % 3 == 0:  # one of them more is killed, which carries it on
            Child(partial(reopen, place, dying_at(choose.randrange(12)))).ended()
        with Vault.open(place) as vault:
            tales = told(vault)
            assert tales == after or (number == 0 and tales == before), (seed, number)
            proved(vault, some=number > 0)
        assert rows_of(place, zeta) == others, (seed, number)
    assert steps >= 10, (seed, steps)
    assert left_of(place) == left_of(whole), seed


def test_what_is_to_be_made_again_is_asked_for_once_wherever_an_erasure_is_killed(states):
    """D3, D4: a request is there exactly if what it asks for is gone"""
    base = states.use("base")
    base.parent.mkdir()
    with Vault.create(base, settings=SETTINGS) as vault:
        alice = vault.access(who("alice"))
        one, two, three = (alice.sessions.create() for _ in range(3))
        again = {"on_source_erased": "recompute", "labels": {"case": "7"}}
        first = alice.memories.put(("notes",), "first", 1, sources=[one, two], **again)
        alice.artifacts.put("large", os.urandom(90_000), sources=[first, three], **again)
        alice.memories.put(("notes",), "alone", 1, sources=[one], **again)
        alice.memories.put(("notes",), "any", 1, sources=[one, two])
        before = told(vault)
    selection = {"session": one.id}
    whole = states("base", "whole")
    with Vault.open(whole) as vault:
        officer(vault).erasure.erase(**selection)
        after = told(vault)
        found = {asked.key: {source.id for source in asked.sources} for asked in stale(vault)}
        assert found == {"first": {two.id}, "large": {two.id, three.id}}
    for number in range(1_000):
        place = states("base", "broken")
        status, facts = Child(partial(erase, place, selection, dying_at(number))).ended()
        if status == 0:
            assert facts == [{"state": "verified"}]
            break
        Child(partial(reopen, place, dying_at(number % 5))).ended()  # who carries it on is killed too
        with Vault.open(place) as vault:
            assert told(vault) == (before if number == 0 else after), number
            proved(vault, some=number > 0)
            if number % 4 == 1:
                officer(vault).erasure.erase(session=two.id)
                assert stale(vault) == [], number
                proved(vault)
    assert number >= 10
    assert left_of(place) == left_of(whole)


def stale(vault):
    return vault.access(who("alice")).derived.stale()


def selected(kind, roots, choose):
    if kind == "session" and roots:
        return {"session": choose.choice(roots).id}
    if kind == "subject" and roots:
        return {"subject": "alice"}
    return {"label": ("case", "0")} if kind == "label" else {"tenant": True}


def proved(vault, *, some=True):
    """Everything verifies, nothing is under way, and the receipts are signed and chained."""
    assert vault.verify().findings == ()
    assert unnamed(vault._directory) == set()
    assert officer(vault).retention.health().unfinished == 0
    signer: Signer = vault._signer
    access = vault.access(who("otto", role="auditor"))
    receipts = [verified(one.receipt, signer.public) for one in access.erasure.receipts(limit=1_000)][::-1]
    chain_of(receipts)
    newest = {receipt.operation: receipt.state for receipt in receipts}
    assert set(newest.values()) <= ({"verified"} if some else set())
    return receipts


def unnamed(place):
    """Files of the blob area that no row names."""
    with contextlib.closing(sqlite3.connect(place / "data.db")) as data:
        query = "SELECT address FROM blobs UNION SELECT address FROM items"
        named = {address.hex() for (address,) in data.execute(query)}
    return {file.name for file in (place / "blobs").rglob("*") if file.is_file()} - named


def left_of(place):
    """How many rows and files are left at all."""
    with contextlib.closing(sqlite3.connect(place / "data.db")) as data:
        tables = ("events", "blobs", "labels", "items", "lineage", "touches", "runs")
        # The audit trail has more entries for a crash; nothing else may differ.
        trail = "WHERE session_no NOT IN (SELECT no FROM sessions WHERE external IS NOT NULL)"
        where = dict.fromkeys(tables, trail) | {"items": "", "lineage": ""}
        counts = {
            table: data.execute(f"SELECT count(*) FROM {table} {where[table]}").fetchone()  # noqa: S608
            for table in tables
        }
    files = sorted(file.name for file in (place / "blobs").rglob("*") if file.is_file())
    return counts, files


# --------------------------------------------------------------------------------------- random moments


def erase_until_killed(place, families, seed, pipe):
    """Erases families of sessions, saying before each what it is about to do, and after it what came."""
    choose = random.Random(seed)
    with Vault.open(place) as vault:
        access = vault.access(who("alice"))
        for root in choose.sample(families, len(families)):
            say(pipe, {"asked": root})
            try:
                outcome = access.erasure.erase(session=root)
            except Conflict:
                continue  # another process is at it
            say(pipe, {"done": root, "state": outcome.state})


def family(access, choose):
    """A session, a fork of it, a memory and a large artifact of both; how each is asked for."""
    root = access.sessions.create()
    root.append("message.user", {"text": "word"})
    root.append("file.read", raw=choose.randbytes(80_000))
    fork = access.sessions.fork(root.id)
    fork.append("message.user", {"text": "more"})
    access.memories.put(("notes",), root.id, 1, sources=[root, fork])
    access.artifacts.put(root.id, choose.randbytes(70_000), sources=[fork])
    return root.id, fork.id


def is_whole(access, root, fork):
    """Whether a family is all there; it is never there by half."""
    asked = (
        lambda: list(access.sessions.resume(root).events())[1].payload,
        lambda: len(list(access.sessions.resume(fork).events())),
        lambda: access.memories.get(("notes",), root).value,
        lambda: access.artifacts.get(root).open().read(),
    )
    answers = []
    for ask in asked:
        try:
            answers.append(bool(ask() or True))
        except NotFound:
            answers.append(False)
    assert len(set(answers)) == 1, answers
    return answers[0]


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_what_is_erased_is_gone_whole_and_what_is_not_stays_whole(place):
    """D3, D6, D7: two processes at a time, killed at random moments while they open the vault and erase"""
    seed = random.randrange(2**32)
    choose, kills, alive = random.Random(seed), 0, {}
    finished, broken = set(), 0
    Vault.create(place, settings=SETTINGS).close()
    # A slow machine needs some more kills until one erasure came to its end and one was interrupted.
    while kills < KILLS or (kills < KILLS + MORE and not (finished and broken)):
        with Vault.open(place) as vault:
            access = vault.access(who("alice"))
            alive |= dict(family(access, choose) for _ in range(6 - len(alive)))
        work = partial(erase_until_killed, place, list(alive))
        children = [Child(partial(work, choose.random())) for _ in range(2)]
        if choose.random() < 0.9:  # else they are killed while they open the vault
            select.select([child.reading for child in children], [], [], SECONDS_MAX)
        time.sleep(choose.choice([0.05, 0.2, 0.6]) * choose.random())
        facts = [fact for child in children for fact in child.killed()]
        kills += len(children)
        asked = {fact["asked"] for fact in facts if "asked" in fact}
        done = {fact["done"] for fact in facts if "done" in fact}
        with Vault.open(place) as vault:
            access = vault.access(who("alice"))
            there = {root for root, fork in alive.items() if is_whole(access, root, fork)}
            assert not done & there, (seed, "it was told that this is gone")
            assert alive.keys() - asked <= there, (seed, "nobody asked for this")
            assert officer(vault).retention.health().unfinished == 0
            if choose.random() < 0.2:
                proved(vault)
        finished |= done
        broken += len(alive.keys() - there - done)
        alive = {root: fork for root, fork in alive.items() if root in there}
    with Vault.open(place) as vault:
        proved(vault)
    assert finished, seed
    assert broken, (seed, "no kill interrupted anything")
