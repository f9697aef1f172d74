"""Commands ``policy``: which retention policy is in force, what another one would change, bringing it in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from vault.cli.call import OwnerCall, command
from vault.cli.output import document, note, say, show
from vault.cli.plans import GOING, KEPT, counted, nested, tell
from vault.cli.printable import iso, local
from vault.cli.retaining import explain
from vault.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from vault.erasure.activation import KnownPolicy, PolicyAnswer
    from vault.erasure.changing import WaitingChange
    from vault.faces import Access
    from vault.policy.changes import Change
    from vault.policy.durations import Duration
    from vault.policy.rules import Policy, Rule

_NOBODY: Final = "no policies for this tenant and role: they are for --role privacy_officer, with --as"
_SHOWN_DIGITS: Final = 16
_DIGEST: Final = re.compile(r"[0-9a-f]{8,64}")
#: Said by what makes a tenant known.
NEW_TENANT: Final = "nobody used this tenant before; check its name, if that surprises you"
_STATES: Final = {
    "active": "in force from now on",
    "unchanged": "in force already; nothing was done",
    "pending": "announced: by it something that is stored goes earlier, so it waits",
}

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A policy document in TOML; `policy show` prints one.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    policy = typer.Typer(rich_markup_mode=None, help="Set how long things are kept, as privacy_officer.")
    command(policy, "list")(list_policies)
    command(policy, "show")(show_policy)
    command(policy, "check")(check)
    command(policy, "diff")(diff)
    command(policy, "activate")(activate)
    command(policy, "pending")(pending)
    command(policy, "approve")(approve)
    command(policy, "cancel")(cancel)
    command(policy, "explain")(explain)
    app.add_typer(policy, name="policy")


@contextmanager
def _officer(call: OwnerCall) -> Iterator[Access]:
    """What an officer reaches; anybody else is told who may.

    Raises:
        NotFound: no leave to retain.
    """
    with call.access() as access:
        try:
            access.policies.active()
        except NotFound:
            raise NotFound(_NOBODY) from None
        yield access


def is_new_tenant(access: Access) -> bool:
    """Whether nobody used the tenant yet, so that a mistyped name is told of; as seen by an officer."""
    try:
        access.policies.active()
    except NotFound:
        return True
    return False


def _text_of(file: Path) -> str:
    """The text of a document.

    Raises:
        InvalidInput: the file cannot be read, is too large, or is no UTF-8.
    """
    from vault.policy.document import DOCUMENT_BYTES_MAX  # noqa: PLC0415 - pydantic: only who reads one needs it

    try:
        with file.open("rb") as source:
            content = source.read(DOCUMENT_BYTES_MAX + 1)
        return content.decode("utf-8")
    except OSError:
        raise InvalidInput("the policy document cannot be read; check its path") from None
    except UnicodeDecodeError:
        raise InvalidInput("the policy document is not UTF-8 text, or larger than 256 KiB") from None


# ------------------------------------------------------------------------------------------------ looking


def list_policies(call: OwnerCall) -> None:
    """List the policies that are or were in force, and those that come with the vault."""
    with _officer(call) as access:
        known = access.policies.list()
    if call.as_json:
        document({"policies": [_known_document(one) for one in known]})
        return
    show(*map(_known_line, known))


def _known_line(one: KnownPolicy) -> Text:
    state = "in force" if one.active else "was in force" if one.since else "comes with the vault"
    since = f" since {local(one.since)}" if one.active and one.since else ""
    style = "green" if one.active else "dim"
    named = f"{one.name} {one.version}"
    return Text.assemble((named, "bold"), f"  {one.digest[:_SHOWN_DIGITS]}  ", (f"{state}{since}", style))


def _known_document(one: KnownPolicy) -> dict[str, Any]:
    return {
        "name": one.name,
        "version": one.version,
        "digest": one.digest,
        "active": one.active,
        "since": iso(one.since),
    }


def show_policy(
    call: OwnerCall,
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One that comes with the vault, or 8 or more digits of the digest of one that was in force; "
            "left out: the one in force.",
        ),
    ] = None,
) -> None:
    """Print a policy's document: the one in force, one that was, or one that comes with the vault."""
    from vault.erasure.policies import NAMES, shipped  # noqa: PLC0415 - only this command needs it

    if name is not None and name not in NAMES and not _DIGEST.fullmatch(name):
        raise InvalidInput(
            f"these come with the vault: {', '.join(NAMES)}; another one is named by 8 or more digits of its "
            "digest, as policy list shows it; leave it out for the one in force"
        )
    with _officer(call) as access:
        if name is not None and name not in NAMES:
            policy = access.policies.of_digest(name)
        else:
            policy = access.policies.active() if name is None else shipped(name)
    if call.as_json:
        about = {"name": policy.name, "version": policy.version, "digest": policy.digest.hex()}
        document({**about, "text": policy.text})
    else:
        say(policy.text.rstrip("\n"))


def check(call: OwnerCall, *, file: FileArgument) -> None:
    """Check a document, and say what activating it would do; nothing is done."""
    with _officer(call) as access:
        answer = access.policies.check(_text_of(file), file=file.name)
    if call.as_json:
        document(_answer_document(answer))
        return
    would = {"active": "would be in force at once", "unchanged": "is in force already"}
    tell(f"{answer.name} {answer.version} {would.get(answer.state, 'would have to wait')}")
    _say_answer(answer)


def diff(call: OwnerCall, *, file: FileArgument) -> None:
    """Say rule by rule how a document differs from the policy in force."""
    from vault.policy.changes import diff as changes_of  # noqa: PLC0415 - only this command needs it
    from vault.policy.document import read_policy  # noqa: PLC0415 - pydantic: the same

    new = read_policy(_text_of(file), file=file.name)
    with _officer(call) as access:
        old = access.policies.active()
    changes = changes_of(old, new)
    if call.as_json:
        document({"changes": [_change_document(one) for one in changes]})
    elif not changes:
        tell("no rule differs from the policy in force")
    else:
        show(*(line for one in changes for line in _change_lines(one, old, new)))


# ------------------------------------------------------------------------------------------------ changing


def activate(call: OwnerCall, *, file: FileArgument) -> None:
    """Bring a document into force as the tenant's policy.

    At once, unless something that is stored goes earlier by it: then it waits for a day, and if that is much,
    for the approval of a second person.
    """
    with call.access() as access:
        new = is_new_tenant(access)
        try:
            answer = access.policies.activate(_text_of(file), file=file.name)
        except NotFound:
            raise NotFound(_NOBODY) from None
    if call.as_json:
        document(_answer_document(answer))
        return
    tell(f"{answer.name} {answer.version} is {_STATES[answer.state]}")
    if new:
        note(NEW_TENANT)
    _say_answer(answer)


def pending(call: OwnerCall) -> None:
    """Show the change of policy that waits: what it changes, what would go, from when on."""
    with _officer(call) as access:
        waiting = access.policies.pending()
        answer = None if waiting is None else access.policies.check(waiting.text, file="the document")
    if waiting is None or answer is None:
        if call.as_json:
            document({"waiting": None})
        else:
            note("no change of the retention policy waits")
        return
    if call.as_json:
        document(
            {"waiting": _waiting_document(waiting), "changes": list(map(_change_document, answer.changes))}
        )
        return
    _say_changes(answer)
    _say_waiting(waiting)


def approve(
    call: OwnerCall,
    *,
    digest: Annotated[
        str, typer.Argument(metavar="DIGEST", help="Which change: the digits that policy pending shows.")
    ],
) -> None:
    """Approve the change that waits, as somebody else than who asked for it."""
    with _officer(call) as access:
        waiting = access.policies.approve(digest)
    if call.as_json:
        document({"waiting": None if waiting is None else _waiting_document(waiting)})
    elif waiting is None:
        tell("in force from now on; the next sweep binds what is stored by it")
    else:
        tell(f"approved; in force from {local(waiting.in_force_from)} on, with the first sweep after that")


def cancel(call: OwnerCall) -> None:
    """Take back the change of policy that waits; it never comes into force."""
    with _officer(call) as access:
        access.policies.cancel()
    if call.as_json:
        document({"cancelled": True})
    else:
        tell("cancelled; the policy in force stays")


# ------------------------------------------------------------------------------------------------ in words


def _say_answer(answer: PolicyAnswer) -> None:
    _say_changes(answer)
    for sentence in answer.clampings:
        tell(f"bounded: {sentence}")
    for sentence in answer.not_enforced:
        tell(f"not enforced: {sentence}")
    if answer.waiting is not None:
        _say_waiting(answer.waiting)


def _say_changes(answer: PolicyAnswer) -> None:
    for one in answer.changes:
        what = f"changed ({', '.join(one.fields)})" if one.fields else one.what
        tell(f"rule {one.rule}: {what}{_consequence(one)}")


def _consequence(one: Change) -> str:
    if not one.shortens:
        return ""
    return "; what is stored may go earlier" if one.existing else "; what is stored from then on goes earlier"


def _say_waiting(waiting: WaitingChange) -> None:
    going, kept = (
        counted((kind, count) for (kind, action), count in waiting.counts.items() if action in actions)
        for actions in (GOING, KEPT)
    )
    oldest = f"; the oldest is of {local(waiting.oldest)}" if waiting.oldest else ""
    tell(f"expired by it: {going or 'nothing'}{oldest}" + (f"; held back: {kept}" if kept else ""))
    tell(f"in force from {local(waiting.in_force_from)} on, with the first sweep after that")
    if waiting.second_person:
        told = "approved" if waiting.approved else "a second person has to approve it, with policy approve"
        tell(told)
    say(f"change {waiting.digest[:_SHOWN_DIGITS]}")


def _change_lines(one: Change, old: Policy, new: Policy) -> Iterator[Text]:
    before, after = (
        next((rule for rule in policy.rules if rule.id == one.rule), None) for policy in (old, new)
    )
    style = "red" if one.shortens else "green"
    yield Text.assemble((one.rule, "bold"), "  ", (one.what, style), _consequence(one))
    for field in one.fields if before and after else _FIELDS:
        values = [_VALUES[field](rule) if rule else "" for rule in (before, after)]
        if values[0] != values[1]:
            arrow = " -> ".join(filter(None, values)) or "nothing"
            yield Text(f"  {field}: {arrow}")


def _period(duration: Duration | None, none: str) -> str:
    return none if duration is None else str(duration)


def _pairs(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in found.items()) or "any"


def _keep(rule: Rule) -> str:
    keep = rule.keep_min
    why = ", ".join(filter(None, [keep.basis, keep.ref]))
    return _period(keep.duration, "0d") + (f" ({why})" if why else "")


#: Each field of a rule as a person reads it.
_VALUES: Final[Mapping[str, Any]] = {
    "kinds": lambda rule: ", ".join(rule.kinds),
    "labels": lambda rule: _pairs(rule.labels),
    "types": lambda rule: ", ".join(rule.types) or "any",
    "level": lambda rule: rule.level or "any",
    "anchor": lambda rule: rule.anchor,
    "keep_min": _keep,
    "expire_after": lambda rule: _period(rule.expire_after, "never"),
    "on_expire": lambda rule: rule.on_expire,
    "grace": lambda rule: _period(rule.grace, "0d"),
    "derived": lambda rule: _pairs(rule.derived) if rule.derived else "erase_with_any",
    "applies_to": lambda rule: rule.applies_to,
}
_FIELDS: Final = ("kinds", "labels", "expire_after", "keep_min", "applies_to")


# ------------------------------------------------------------------------------------------------- as JSON


def _change_document(one: Change) -> dict[str, Any]:
    return {
        "rule": one.rule,
        "what": one.what,
        "fields": list(one.fields),
        "shortens": one.shortens,
        "existing": one.existing,
    }


def _answer_document(answer: PolicyAnswer) -> dict[str, Any]:
    return {
        "name": answer.name,
        "version": answer.version,
        "digest": answer.digest,
        "state": answer.state,
        "changes": list(map(_change_document, answer.changes)),
        "clampings": list(answer.clampings),
        "not_enforced": list(answer.not_enforced),
        "waiting": None if answer.waiting is None else _waiting_document(answer.waiting),
    }


def _waiting_document(waiting: WaitingChange) -> dict[str, Any]:
    return {
        "name": waiting.name,
        "version": waiting.version,
        "digest": waiting.digest,
        "asked_at": iso(waiting.asked_at),
        "asked_by": waiting.asked_by,
        "in_force_from": iso(waiting.in_force_from),
        "second_person": waiting.second_person,
        "approved": waiting.approved,
        "counts": nested(waiting.counts),
        "oldest": iso(waiting.oldest),
        "text": waiting.text,
    }
