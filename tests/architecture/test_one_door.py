"""There is one door: one place makes Grants, every use case takes one, no query forgets whose it is."""

import ast
import re
from pathlib import Path

import pytest

from vault.storage.statements import STATEMENTS

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = ROOT / "vault" / "sessions"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

#: On sessions, without an owner: checkpoints and verification of the whole vault, which show nothing of a
#: session to anybody but hashes and counts, and writes to a row that was found by its owner just before.
WITHOUT_OWNER = {
    "all_heads": "every head, for a checkpoint",
    "owner_of_session": "an owner's blind index, for the door to decide with; the row is found by it again",
    "counts_of_tenant": "counts and sums, for an administrator",
    "sessions_of_tenant": "ids only, of which the door decides one by one",
    "all_sessions": "every row, for verification and checkpoints",
    "all_files": "addresses of sealed files and which ids name them, for backups and fsck",
    "all_ids": "ids, to hold against what was erased",
    "stray_rows": "rows of no session, for verification",
    "all_fenced_sessions": "ids, for verification",
    "facts_since": "facts that say what was erased, each opened under its owner's keys, for checkpoints",
    "number_of_session": "a number, to hold events against what was erased",
    "chain_in_session": "one hash of the session that a fork names, for verification",
    "places_forked": "places and hashes that forks name, whoever's, of a log that is sealed anew",
    "renewal_of_session": "a version and hashes, for verification",
    "renew_session": "compare-and-set of a row that was found by its tenant",
    "add_session": "states its owner",
    "advance_session": "compare-and-set of a row that was found by its owner",
    "move_session": "the same, for every field",
    "move_session_in_list": "the same row, right after",
}
#: The same for retention and erasure, which an officer or a policy asks for in a tenant: ids, what decides
#: about them, and rows on their way; nothing that opens anything. All but the last two name the tenant.
OF_ERASURE = {
    "session_to_erase": "the row to fence or delete",
    "sessions_of_tenant_to_erase": "ids",
    "sessions_labelled_to_erase": "ids",
    "fence_session": "a state",
    "session_facts": "times and terms",
    "session_as_planned": "the same, and how much hangs on it",
    "labels_of": "tags that a hold may name",
    "sealed_of_session": "pieces of ciphertext to look for afterwards",
    "count_live": "a number",
    "sessions_to_bind": "rows, each verified under its own keys, to bind anew by a policy",
    "delete_session": "by its number, of a row that was found by its tenant just before",
    "look_at_session_in": "when the sweep looks again",
    "due_sessions": "ids, of all tenants: each is decided under its own tenant's keys",
    "all_session_ids": "ids, to find what was erased and came back",
    "whose": "the tenant and owner of one that came back",
}
#: On what belongs to a session, without naming the session: the same walks over everything.
WITHOUT_SESSION = {
    "stray_rows",
    "file_named",
    "add_event",
    "add_blob",
    "add_label",
    "add_touch",
    "keep_run",
    "delete_blob",
}


#: What a use case takes: a grant, what asks the door for one, or what was read under one.
GIVEN = {
    "Sequence[Prepared]",
    "UnderKeys",
    "Grant",
    "Authorise",
    "View",
    "Fact",
    "EpochKeys",
    "EventRow",
    "Base",
}


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def calls(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name | ast.Attribute) and name == getattr(
                called, "attr", getattr(called, "id", None)
            ):
                yield node


def public_functions(tree):
    return [node for node in tree.body if isinstance(node, FUNCTION) and not node.name.startswith("_")]


def methods(tree, class_name):
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    for node in found.body:
        if isinstance(node, FUNCTION) and not node.name.startswith("_") and not node.decorator_list:
            yield node


def annotations(function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {ast.unparse(argument.annotation) for argument in every if argument.annotation}


def test_grants_are_made_at_the_door_only():
    """O1, invariant 8"""
    modules = (ROOT / "vault").rglob("*.py")
    makers = {str(path.relative_to(ROOT)) for path in modules if any(calls(parsed(path), "Grant"))}
    assert makers == {"vault/access/door.py"}


def refuses(node):
    """Whether a statement ends the function for what is not allowed."""
    ends = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return)
    return ends and any(getattr(part, "attr", "") == "allowed" for part in ast.walk(node.test))


def test_a_grant_is_made_only_after_the_decision_allowed_it():
    """O1, invariant 8: each Grant has a decision of its own before it, and what ends the call without"""
    makers = set()
    for method in methods(parsed(ROOT / "vault" / "access" / "door.py"), "Door"):
        made = sorted(call.lineno for call in calls(method, "Grant"))
        if not made:
            continue
        makers.add(method.name)
        if method.name in {"for_trail", "for_masking"}:  # of the vault itself
            continue
        decided = [call.lineno for name in ("decide", "_of_another") for call in calls(method, name)]
        refused = [node.lineno for node in ast.walk(method) if refuses(node)]
        after = 0
        for line in made:
            assert any(after < at < line for at in decided), method.name
            assert any(after < at < line for at in refused), method.name
            after = line
    assert makers == {
        "authorise",
        "authorise_export",
        "authorise_session",
        "authorise_shared",
        "authorise_tenant",
        "for_masking",
        "for_trail",
    }


def test_the_leave_for_masking_is_used_by_what_makes_views_only():
    """O1, R2: nothing decides about it, and it shows nothing"""
    users = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / "vault").rglob("*.py")
        for name in ("for_masking", "masking")
        if any(calls(parsed(path), name))
    }
    assert users == {
        ("vault/access/door.py", "for_masking"),
        ("vault/access/door.py", "masking"),
        ("vault/sessions/viewing.py", "masking"),
    }


def test_the_leave_of_the_trail_is_used_by_the_trail_only():
    """O1, K4: it is the one that nothing decides about"""
    users = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / "vault").rglob("*.py")
        for name in ("for_trail", "TrailLeave")
        if any(calls(parsed(path), name))
    }
    assert users == {
        ("vault/access/door.py", "for_trail"),  # what it is made for, and to keep everybody else out
        ("vault/audit/trail.py", "for_trail"),
        ("vault/audit/trail.py", "TrailLeave"),
    }


@pytest.mark.parametrize("path", [pytest.param(p, id=p.name) for p in sorted(SESSIONS.glob("*.py"))])
def test_every_use_case_that_touches_the_log_takes_a_grant_or_what_a_grant_gave(path):
    """O1, invariants 8 and 16: an event's row is sealed, and comes from a view"""
    for function in public_functions(parsed(path)):
        kinds = annotations(function)
        if "Log" in kinds:
            assert kinds & GIVEN, f"{path.name}: {function.name}"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("service.py", "Sessions"),
        ("reader.py", "SessionReader"),
        ("session.py", "Session"),
        ("run.py", "Run"),
    ],
)
def test_every_call_of_the_face_goes_through_the_door(module, name):
    """O1, invariant 8: a handle is not a permission"""
    tree = parsed(SESSIONS / module)
    (face,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    asks, named = {"_authorise"}, {}
    for node in face.body:
        if isinstance(node, FUNCTION):
            # Called, or handed to what calls it.
            named[node.name] = {getattr(part, "attr", "") for part in ast.walk(node)}
    for _ in named:  # what calls a method that asks, asks
        asks |= {method for method, through in named.items() if through & asks and method != "__init__"}
    found = list(methods(tree, name))
    assert len(found) >= 5
    assert {method.name for method in found} <= asks


def tables(statement):
    return set(re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)", statement)) - {"SET"}


def binds(statement, column):
    """Whether a statement takes only rows with a given value of the column."""
    condition = statement.partition("WHERE")[2]
    return re.search(rf"\b{column} = :{column}\b", condition) and " OR " not in condition


def test_no_statement_finds_a_session_without_its_tenant_and_owner():
    """O1, O4, invariant 8"""
    unowned = {
        name
        for name, text in STATEMENTS.items()
        if "sessions" in tables(text) and not (binds(text, "tenant_id") and binds(text, "owner"))
    }
    assert unowned == WITHOUT_OWNER.keys() | OF_ERASURE.keys()


def test_what_finds_sessions_for_erasure_is_asked_by_nothing_else():
    """O1, O4, invariant 8"""
    users = {
        (path.relative_to(ROOT / "vault").parts[0], name)
        for path in (ROOT / "vault").rglob("*.py")
        for name in OF_ERASURE
        if f'"{name}"' in path.read_text(encoding="utf-8")
    }
    assert {module for module, _ in users} == {"erasure"}
    assert {name for _, name in users} == OF_ERASURE.keys()


def test_no_statement_finds_an_event_blob_or_label_without_its_session():
    """O1, invariant 8"""
    unbound = {
        name
        for name, text in STATEMENTS.items()
        if tables(text) & {"events", "blobs", "runs", "labels", "touches"}
        and "sessions" not in tables(text)
        and not binds(text, "session_no")
    }
    assert unbound | {"stray_rows"} == WITHOUT_SESSION


def test_no_statement_finds_an_owners_key_without_the_owner():
    """O1, invariant 16"""
    unowned = {
        name for name, text in STATEMENTS.items() if "keys" in tables(text) and not binds(text, "owner")
    }
    assert unowned == {
        "add_key",
        "key_exists",
        "all_keys",
        # Nothing of these unwraps a key: they count, replace, condemn and delete.
        "keys_of_tenant",
        "keys_under_root",
        "rewrap_key",
        "wrapped_key",
        "keys_of_scope",
        "epochs_of_scope",
        "epochs_due",
        "all_keys_counted",
        "condemn_key",
        "drop_key",
        "owner_of_scope",
        "delete_dying_keys",
        "operations_dying",
        "scopes_dying",
    }


def test_statements_are_run_nowhere_but_in_storage():
    """Invariant 8"""
    users = {
        path.relative_to(ROOT / "vault").parts[0]
        for path in (ROOT / "vault").rglob("*.py")
        if any(
            not ast.unparse(call.func).endswith(("self.execute", "erasure.execute"))
            for call in calls(parsed(path), "execute")
        )
        or "STATEMENTS" in path.read_text(encoding="utf-8")
    }
    assert users == {"storage"}
