"""Where a session stands, and why it stands still: one sentence, and the longer account, for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from vault.policy.drift import one_line, plural
from vault.policy.freshness import ago, duration
from vault.policy.state import TEXT_LENGTH_MAX, check_state

Kind = Literal[
    "new",
    "running",
    "waiting_approval",
    "crashed_in_effect",
    "crashed_in_tool",
    "crashed",
    "failed",
    "stopped",
    "idle",
]

LISTED_MAX: Final = 10  # open tools, approvals or effects that ``why_lines`` names; the rest is counted
_NAME_SHOWN_MAX: Final = 80  # characters of a name within a sentence

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTES: Final = str.maketrans("“”", "''")  # so that a name ends where its quotes end

_NEXT: Final[dict[Kind, str]] = {
    "new": "append the first event, or start a run",
    "running": "wait, or follow the session; when its holder is dead, the lease runs out by itself",
    "waiting_approval": "grant or deny the approval; then wake the session if no run is at work",
    "crashed_in_effect": "find out whether the effect happened, then wake the session and resolve it",
    "crashed_in_tool": "wake the session; the tool may have run, so ask again only for what may run twice",
    "crashed": "wake the session; it goes on from the last event",
    "failed": "look at the error, then wake the session to try again",
    "stopped": "nothing has to be done; wake the session to go on",
    "idle": "nothing has to be done; start a run to work under a lease",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a session stands.

    Attributes:
        kind: for a program.
        sentence: for a person, without a capital and a full stop; it may hold names that users gave, each
            on one line and shortened, so it is no text for a log.
        since_us: since when it stands so; of a crash, the last sign of life. None when nothing tells.
        pending_tools: event ids of the tool requests without an answer, the oldest first.
        effects_open: event ids of the intentions that were neither committed nor failed, the oldest first.
    """

    kind: Kind
    sentence: str = field(repr=False)
    since_us: int | None
    pending_tools: tuple[str, ...]
    effects_open: tuple[str, ...]


def standing(state: Any, *, lease_live: bool, shared_through: int = 0) -> Standing:
    """Where a session stands, from the state of ``recovery.DEFAULT`` and whether a run holds its lease.

    A run that did not end and holds no lease has crashed: what it had begun itself (an effect before a tool)
    says in what. An open approval comes before a tool without an answer, because the tool waits for it.

    Args:
        state: what the log was folded into.
        lease_live: whether a run holds the session's lease now.
        shared_through: of a fork, the last seq that it shares with its original: a run up to there is the
            original's, and its end is not this session's matter.

    Raises:
        InvalidInput: not a state of ``recovery.DEFAULT``.
    """
    state = _own_view(state, shared_through)
    kind, sentence, since_us = _stands(state, lease_live=lease_live)
    in_doubt = _by_age(state["effects"]["open"])
    named = 1 if kind == "crashed_in_effect" else 0
    others = len(in_doubt) + state["effects"]["dropped"] - named
    # What is in doubt must not hide behind a later run; while one is at work, it may be its own.
    if others and kind != "running":
        sentence = f"{sentence}; {plural(others, 'other effect' if named else 'effect')} in doubt"
    return Standing(
        kind=kind,
        sentence=sentence,
        since_us=since_us,
        pending_tools=tuple(event_id for event_id, _ in _by_age(state["tools"]["pending"])),
        effects_open=tuple(event_id for event_id, _ in in_doubt),
    )


def _own_view(state: Any, shared_through: int) -> Any:
    check_state(state)
    run = state["run"]
    return state if run is None or run["seq"] > shared_through else {**state, "run": None}


_Found = tuple[Kind, str, int | None]


def _stands(state: Mapping[str, Any], *, lease_live: bool) -> _Found:
    if state["through"] == 0:
        return "new", "new: nothing has happened yet", None
    if lease_live:
        return _waiting(state) or _at_work(state)
    if state["run"] is not None and state["run"]["ended"] is None:
        return _crashed_in_effect(state) or _waiting(state) or _crashed(state)
    return _at_rest(state)


def _at_work(state: Mapping[str, Any]) -> _Found:
    run = state["run"]
    if run is None or run["ended"] is not None:  # the lease comes before the first event under it
        return "running", "running: a run holds the lease and has recorded nothing yet", None
    return "running", f"running since {_moment(run['since_us'])}", run["since_us"]


def _at_rest(state: Mapping[str, Any]) -> _Found:
    if (run := state["run"]) is None:
        since_us = state["last_us"]
        used = "" if since_us is None else f", last used {_moment(since_us)}"
        return _waiting(state) or ("idle", f"idle: no run was started{used}", since_us)
    ended = run["ended"]
    if ended["how"] == "failed":
        return "failed", f"failed {_moment(ended['at_us'])}{_reason(ended['reason'])}", ended["at_us"]
    return _waiting(state) or ("stopped", f"stopped{_reason(ended['reason'])}", ended["at_us"])


def _waiting(state: Mapping[str, Any]) -> _Found | None:
    if not (approvals := _by_age(state["approvals"]["open"])):
        return None
    _, oldest = approvals[0]
    others = len(approvals) - 1 + state["approvals"]["dropped"]
    more = f" and {plural(others, 'more approval')}" if others else ""
    sentence = f"waiting for {_approval(oldest)}{more} since {_moment(oldest['since_us'])}"
    return "waiting_approval", sentence, oldest["since_us"]


def _crashed_in_effect(state: Mapping[str, Any]) -> _Found | None:
    if not (own := _own(state, state["effects"]["open"])):
        return None
    intended = f"{_effect(own[-1])}, intended {_moment(own[-1]['since_us'])}"
    sentence = f"crashed during {intended}: nobody knows whether it happened"
    return "crashed_in_effect", sentence, _last_sign(state)


def _crashed(state: Mapping[str, Any]) -> _Found:
    since_us = _last_sign(state)
    if not (own := _own(state, state["tools"]["pending"])):
        return "crashed", f"crashed: the run ended without a word, last seen {_moment(since_us)}", since_us
    more = f" and {plural(len(own) - 1, 'other tool request')}" if len(own) > 1 else ""
    asked = f"asked for {_moment(own[-1]['since_us'])}"
    return "crashed_in_tool", f"crashed while {_tool(own[-1])} was running, {asked}{more}", since_us


def _last_sign(state: Mapping[str, Any]) -> int:
    """When the last run was last seen: its start, or an event since."""
    since_us: int = state["run"]["since_us"]
    return max(since_us, state["last_us"] or since_us)


def _own(state: Mapping[str, Any], entries: Mapping[str, Any]) -> list[Any]:
    """Of some open entries those that the last run began, the oldest first."""
    return [entry for _, entry in _by_age(entries) if entry["run"] == state["run"]["id"]]


def _by_age(entries: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(entries.items(), key=lambda item: (item[1]["seq"], item[0]))


def why_lines(state: Any, *, lease_live: bool, now_us: int, shared_through: int = 0) -> list[str]:
    """The account of why a session stands as it does, in plain sentences, one for each line.

    Where it stands and since when, what its last run did and did last, what is open (``LISTED_MAX`` of a kind
    by name), and what to do next. It may hold names that users gave, as ``Standing.sentence``. The arguments
    are those of ``standing``, and the time now.

    Raises:
        InvalidInput: not a state of ``recovery.DEFAULT``.
    """
    state = _own_view(state, shared_through)
    found = standing(state, lease_live=lease_live)
    tools, approvals, effects = state["tools"], state["approvals"], state["effects"]
    lines = [_sentence(found.sentence)]
    if found.since_us is not None:
        lines.append(f"It has stood so for {duration(now_us - found.since_us)}.")
    if found.kind != "new":
        lines += [_run_line(state, now_us, lease_live=lease_live), _last_line(state)]
    if state["node"]:
        lines.append(f"The last state that it changed to is {_quoted(state['node'])}.")
    lines += _open_lines(effects["open"], effects["dropped"], "in doubt: ", _effect, now_us)
    lines += _open_lines(approvals["open"], approvals["dropped"], "not decided: ", _approval, now_us)
    lines += _open_lines(tools["pending"], tools["dropped"], "no answer yet: ", _tool, now_us)
    lines.append(f"What to do: {_NEXT[found.kind]}.")
    return lines


def _run_line(state: Mapping[str, Any], now_us: int, *, lease_live: bool) -> str:
    run = state["run"]
    if run is None:
        return "No run was started in this session."
    begun = f"The last run ({run['id'] or 'without an id'}) was {run['how']} {_when(run['since_us'], now_us)}"
    if run["ended"] is not None:
        ended, reason = run["ended"], _reason(run["ended"]["reason"])
        return f"{begun} and {ended['how']} {_when(ended['at_us'], now_us)}{reason}."
    if lease_live:
        return f"{begun} and holds the lease."
    return f"{begun}, did not end and holds no lease: its process is gone."


def _last_line(state: Mapping[str, Any]) -> str:
    """The newest of what the state knows by place; other events may have followed."""
    answered, observations = state["tools"]["completed"]["recent"], state["observations"]
    places: list[tuple[int, str]] = [(seq, "a message") for seq in state["messages"]["recent"][-1:]]
    places += [(seq, f"a tool request that {outcome}") for _, seq, outcome in answered[-1:]]
    places += [
        (entry["seq"], f"the request of {_tool(entry)}") for entry in state["tools"]["pending"].values()
    ]
    places += [
        (entry["seq"], f"the wait for {_approval(entry)}") for entry in state["approvals"]["open"].values()
    ]
    places += [
        (entry["seq"], f"the intention of {_effect(entry)}") for entry in state["effects"]["open"].values()
    ]
    places += [(seen[0], f"an observation of {_quoted(name)}") for name, seen in observations.items()]
    if (summary := state["summary"]) is not None:
        places.append((summary["seq"], f"a summary of {summary['first_seq']:,} to {summary['last_seq']:,}"))
    if not places:
        return (
            f"Its log has {plural(state['through'], 'event')}, none of a message, tool, approval or effect."
        )
    # The first of several at one place: an answer says more than the observation that it is as well.
    seq, what = max(places, key=lambda place: place[0])
    return f"The last that is known of its work is {what}, at {seq:,} of {state['through']:,} in the log."


def _open_lines(
    entries: Mapping[str, Any], dropped: int, label: str, words: Callable[[Any], str], now_us: int
) -> list[str]:
    newest = [entry for _, entry in reversed(_by_age(entries))]
    lines = [
        _sentence(f"{label}{words(entry)}, since {_when(entry['since_us'], now_us)}")
        for entry in newest[:LISTED_MAX]
    ]
    rest = len(newest[LISTED_MAX:]) + dropped
    return [*lines, *[_sentence(f"{label}{rest:,} more, older ones")] * (rest > 0)]


def _effect(entry: Mapping[str, Any]) -> str:
    return f"effect {_shown(entry['kind'])} {_quoted(entry['key'])}"


def _tool(entry: Mapping[str, Any]) -> str:
    return "a tool" if entry["tool"] is None else f"tool {_shown(entry['tool'])}"


def _approval(entry: Mapping[str, Any]) -> str:
    return f"approval of {_quoted(entry['what'])}" if one_line(entry["what"], 1) else "an approval"


def _shown(name: str) -> str:
    return one_line(name, _NAME_SHOWN_MAX)


def _quoted(text: str) -> str:
    return f"“{one_line(text, TEXT_LENGTH_MAX).translate(_QUOTES)}”"


def _reason(text: str) -> str:
    shown = one_line(text, TEXT_LENGTH_MAX)
    return f": {shown}" if shown else ""


def _when(moment_us: int, now_us: int) -> str:
    return f"{_moment(moment_us)} ({ago(now_us - moment_us)})"


def _moment(moment_us: int) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:  # beyond the calendar; the vault's own clock never gets there
        return "at an unknown time"
    return f"{moment.isoformat(' ', 'minutes').removesuffix('+00:00')} UTC"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
