"""What an erasure would do, or did, in words and as JSON: the plan with its reasons, the counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

from vault.cli.output import document, say, show
from vault.cli.printable import iso, local, one_line, visible
from vault.clock import from_us
from vault.derived.item import item_name
from vault.errors import NotFound
from vault.model import format_id
from vault.policy.durations import FOREVER_US

if TYPE_CHECKING:
    from datetime import datetime

    from vault.erasure.service import ErasurePlan
    from vault.faces import Access
    from vault.policy.plan import Item

#: Lines of one group of a plan that a person is shown; ``--json`` has all.
SHOWN_MAX: Final = 20
#: What goes, and what an earlier decision keeps.
GOING: Final = frozenset({"erase", "recompute"})
KEPT: Final = frozenset({"held", "minimum"})
_TITLE_MAX: Final = 60
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "session": ("session", "sessions"),
    "fork": ("fork", "forks"),
    "event": ("event", "events"),
    "memory": ("memory", "memories"),
    "summary": ("summary", "summaries"),
    "embedding": ("embedding", "embeddings"),
    "artifact": ("artifact", "artifacts"),
    "cache": ("cached item", "cached items"),
    "export": ("export", "exports"),
}
#: What a receipt says was done, for people.
_DONE: Final[Mapping[str, str]] = {
    "erased": "erased",
    "recomputed": "erased, to be made again from what stays",
    "detached": "kept, and no longer derived from it",
    "held": "kept because of a hold",
    "minimum": "kept because of a statutory minimum",
    "already_gone": "gone before",
}


def tell(sentence: str) -> None:
    """A sentence for people, on standard output, wrapped at the terminal's width."""
    show(Text(visible(sentence)))


def done_lines(counts: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """What an erasure did, as a receipt counts it: one action a line."""
    for action, words in _DONE.items():
        found = counted((kind, count) for (kind, done), count in counts.items() if done == action)
        if found:
            yield f"{words}: {found}"
    if not any(action in {"erased", "recomputed"} for _, action in counts):
        yield "nothing was erased"


def counted(found: Iterable[tuple[str, int]]) -> str:
    """``2 sessions, 1 memory``; empty for nothing."""
    order = list(_KINDS)
    told = sorted(found, key=lambda one: order.index(one[0]))
    return ", ".join(f"{count:,} {_KINDS[kind][count != 1]}" for kind, count in told if count)


def nested(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Counts as JSON has them: by kind, then by action."""
    told: dict[str, dict[str, int]] = {}
    for (kind, action), count in sorted(counts.items()):
        told.setdefault(kind, {})[action] = count
    return told


class _Told(NamedTuple):
    """An item of a plan in words."""

    group: str
    id: str
    because: str


_GROUPS: Final[Mapping[str, str]] = {
    "goes": "goes:",
    "with it": "goes with it:",
    "held back": "is held back: hidden, and erased once nothing keeps it any more:",
    "stays": "stays:",
}


def print_plan(access: Access, planned: ErasurePlan, *, as_json: bool) -> None:
    """What would go and what stays, each with its reason, and the token."""
    items = planned.plan.items
    names = {item.id: _name(item) for item in items}
    if as_json:
        told = [_item_document(item, names) for item in items]
        others = sum(_is_of_another(item, planned) for item in items if item.action in GOING)
        counts = nested(planned.counts)
        document({"token": planned.token, "counts": counts, "of_others": others, "items": told})
        return
    groups: dict[str, list[tuple[Item, _Told]]] = {}
    for item in sorted(items, key=lambda one: (one.depth, one.id)):  # what was asked for comes first
        told_item = _told(item, names)
        groups.setdefault(told_item.group, []).append((item, told_item))
    for group, heading in _GROUPS.items():
        if group in groups:
            _print_group(access, planned, heading, groups[group])
    _print_sums(planned)


def _print_group(access: Access, planned: ErasurePlan, heading: str, found: list[tuple[Item, _Told]]) -> None:
    lines = [Text(heading, style="bold")]
    for item, told in found[:SHOWN_MAX]:
        lines.append(Text.assemble(f"  {_KINDS[item.kind][0]:<11}  ", told.id))
        title = _title(access, planned, item, told.id)
        about = [title, *told.because.splitlines()]
        lines += [Text(f"{' ' * 15}{line}", style="dim") for line in about if line]
    if len(found) > SHOWN_MAX:
        lines.append(Text(f"  and {len(found) - SHOWN_MAX:,} more; --json lists all"))
    show(Text("\n").join(lines))


def _print_sums(planned: ErasurePlan) -> None:
    items = planned.plan.items
    going = [item for item in items if item.action in GOING]
    kept = [item for item in items if item.action in KEPT]
    say(f"{_sum(going) or 'nothing'} would go" + (f"; {_sum(kept)} held back" if kept else ""))
    if others := sum(_is_of_another(item, planned) for item in going):
        say(f"{others:,} of these belong{'s' if others == 1 else ''} to somebody else")
    say(f"token {planned.token}")


def _sum(items: list[Item]) -> str:
    kinds = sorted({item.kind for item in items})
    return counted((kind, sum(item.kind == kind for item in items)) for kind in kinds)


def _told(item: Item, names: Mapping[bytes, str]) -> _Told:
    """An item's group, and why it is in it."""
    through = names.get(item.through) if item.through != item.id else None
    id_ = names[item.id]
    if item.action in KEPT:
        ends = _until(item)
        until = f" until {local(ends)}" if ends else ""
        keeps = "a hold" if item.action == "held" else f"a statutory minimum{until}"
        return _Told("held back", id_, f"{keeps},\non {through}" if through else keeps)
    because = _BECAUSE[item.reason].format(through or "it")
    if item.action in GOING:
        again = ",\nto be made again from what stays" if item.action == "recompute" else ""
        return _Told("goes" if item.reason == "root" else "with it", id_, f"{because}{again}")
    return _Told("stays", id_, because if item.action == "keep" else "holds nothing of it")


_BECAUSE: Final[Mapping[str, str]] = {
    "root": "",
    "derived_from": "made from {}",
    "fork_of": "forked from {}",
    "last_source_gone": "its last source is {}",
    "other_source_remains": "made from something else too",
    "shared_by_fork": "a fork shares it",
}


def _title(access: Access, planned: ErasurePlan, item: Item, id_: str) -> str:
    """What a session of one's own is recognised by; empty for others'."""
    grant = planned.grant
    if item.kind != "session" or not grant.own or item.owner != grant.owner:
        return ""
    with suppress(NotFound):  # held back by an earlier erasure, or gone at this moment
        info = access.sessions.resume(id_).info()
        return one_line(info.title or info.first_message or "", _TITLE_MAX)
    return ""


def _is_of_another(item: Item, planned: ErasurePlan) -> bool:
    """Whether it belongs to somebody else than what was asked for does."""
    if planned.plan.selector.kind in {"tenant", "label"}:
        return False
    owners = {root.owner for root in planned.plan.items if root.reason == "root"}
    return bool(owners) and item.owner not in owners


def _item_document(item: Item, names: Mapping[bytes, str]) -> dict[str, Any]:
    return {
        "id": names[item.id],
        "kind": item.kind,
        "action": item.action,
        "reason": item.reason,
        "through": names.get(item.through) if item.through != item.id else None,
        "until": iso(_until(item)),
    }


def _until(item: Item) -> datetime | None:
    """When a minimum that keeps an item ends; None for none, or where its clock has not started."""
    return from_us(item.until_us) if 0 < item.until_us < FOREVER_US else None


def _name(item: Item) -> str:
    return format_id("ses", item.id) if item.kind == "session" else item_name(item.kind, item.id)
