"""How long one item stays: from what binds it, its clocks and the time of day, to a decision with reasons.

A hold is stronger than a minimum, a minimum than a person's request, a request than the expiry. Hidden and
erased are two things: an item is hidden from the moment it expires or somebody asks for its erasure, whether
or not anything has swept; it may be kept much longer, because a hold or a minimum says so.

The same decision is taken again inside the transaction that erases.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal, NamedTuple

from vault.policy.durations import DAY_US, FOREVER_US, LAST_US, MINUTE_US, in_words, later
from vault.policy.rules import ANCHORS, ON_EXPIRE, Policy
from vault.policy.terms import Terms

State = Literal["KEEP", "DUE", "HELD"]

#: No month is shorter or longer than this, wherever it starts and however many follow.
_MONTH_LEAST_US: Final = 28 * DAY_US
_MONTH_MOST_US: Final = 31 * DAY_US
_CREATED, _LAST, _ENDED, _LABELLED, _EXTERNAL = range(len(ANCHORS))


class Times(NamedTuple):
    """The clocks that run by themselves, in microseconds since 1970; 0: it has not started.

    None is a client's word. The two that somebody sets, by labels and from outside, stand with the terms.
    """

    created_us: int
    last_us: int = 0
    ended_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to become of an item.

    Attributes:
        state: DUE: what ``action`` says is to be done now; HELD: a hold forbids it; KEEP: not yet, or never.
        visible: whether it can be read.
        restricted: somebody asked for its erasure, and a hold or a minimum keeps it: it is read by nobody and
            is no source of anything.
        expires_us: when it is hidden by its rule; None: never.
        min_until_us: not erased before; 0: no minimum; ``FOREVER_US``: counted from a clock that has not
            started.
        delete_at_us: when it is due if nothing changes and no hold is placed; None: never.
        action: ``erase``, ``redact:L0`` or ``review``; a person's request always means ``erase``.
        reasons: why, the strongest first; they name no one and nothing.
    """

    state: State
    visible: bool
    restricted: bool
    expires_us: int | None
    min_until_us: int
    delete_at_us: int | None
    action: str
    reasons: tuple[str, ...]


class Stay(NamedTuple):
    """Why something that is due is not taken by the next sweep.

    ``name``: the id of what keeps it as people see it; empty where it is not for whoever asks. ``until_us``:
    how long that stays at least; 0: no date is known, or it is not said.
    """

    why: Literal["hold", "minimum", "fork", "newer_version", "review", "over_cap", "being_erased"]
    name: str = ""
    until_us: int = 0


HOLD: Final = "a hold matches it"
MINIMUM: Final = "a minimum has not passed"
REQUEST: Final = "somebody asked for its erasure"
EXPIRED: Final = "its period is over"
GRACE: Final = "it can still be restored"
RUNNING: Final = "its period is not over"
NOT_STARTED: Final = "the clock of its period has not started"
NEVER: Final = "it never expires"


def decide(terms: Terms, times: Times, *, held: bool, now_us: int) -> Decision:
    """What is to become of an item now.

    ``held`` says whether a hold matches the item, its session, its subject or its tenant.
    """
    expires_us = _expires_us(terms, times)
    min_until_us = _min_until_us(terms, times)
    delete_at_us = _delete_at_us(terms, expires_us, min_until_us)
    requested = terms.requested_us != 0
    due = delete_at_us is not None and now_us >= delete_at_us
    return Decision(
        state="HELD" if held else "DUE" if due else "KEEP",
        visible=not requested and (expires_us is None or now_us < expires_us),
        restricted=requested and (held or now_us < min_until_us),
        expires_us=expires_us,
        min_until_us=min_until_us,
        delete_at_us=delete_at_us,
        action=ON_EXPIRE[0 if requested else terms.on_expire],
        reasons=((HOLD,) if held else ()) + _reasons(terms, now_us, expires_us, min_until_us, delete_at_us),
    )


def is_visible(terms: Terms, created_us: int, last_us: int, ended_us: int, now_us: int) -> bool:
    """As ``Decision.visible``, for every read: about half a microsecond."""
    if terms.requested_us:
        return False
    months, us = terms.expire_months, terms.expire_us
    if not months and not us:
        return True
    start = _start_us(terms, terms.anchor, (created_us, last_us, ended_us))
    if start is None:
        return True
    start = max(start, terms.restored_us)
    if months:
        # Most answers need no calendar.
        passed = now_us - start
        if passed < months * _MONTH_LEAST_US and now_us < LAST_US:
            return True
        if passed >= months * _MONTH_MOST_US:
            return False
    return now_us < later(start, months, us)


def due_us(terms: Terms, times: Times) -> int:
    """When it is due at the earliest if nothing changes: ``Decision.delete_at_us``, or 0 for never."""
    expires_us = _expires_us(terms, times)
    if expires_us is None and not terms.requested_us:
        return 0
    due = _delete_at_us(terms, expires_us, _min_until_us(terms, times))
    return 0 if due is None else max(due, 1)


def expires_us(terms: Terms, created_us: int) -> int | None:
    """When something that is made at a time expires by that time alone; None for never."""
    return _expires_us(terms, Times(created_us))


def _start_us(terms: Terms, anchor: int, clocks: tuple[int, int, int]) -> int | None:
    """When a clock started; None: it has not. No clock of the item's own starts before it was made."""
    if anchor == _CREATED:
        return clocks[_CREATED]
    if anchor == _LABELLED:
        return max(clocks[_CREATED], terms.labelled_us)  # 0: it was made with its labels
    if anchor == _EXTERNAL:
        return terms.external_us or None
    start = clocks[anchor]
    if anchor == _LAST:
        return max(clocks[_CREATED], start)
    return max(clocks[_CREATED], start) if start else None


def _expires_us(terms: Terms, times: Times) -> int | None:
    if not terms.expire_months and not terms.expire_us:
        return None
    start = _start_us(terms, terms.anchor, times)
    if start is None:
        return None
    return later(max(start, terms.restored_us), terms.expire_months, terms.expire_us)


def _min_until_us(terms: Terms, times: Times) -> int:
    until = 0
    for anchor, months, us, *came_us in terms.keeps:
        start = _start_us(terms, anchor, times)
        if anchor == _LABELLED:  # not when the labels of the deciding rule came: when those of its own did
            start = max((times.created_us, *came_us))
        # A minimum whose clock has not started cannot have passed.
        until = max(until, FOREVER_US if start is None else later(start, months, us))
    return until


def _delete_at_us(terms: Terms, expires_us: int | None, min_until_us: int) -> int | None:
    if min_until_us == FOREVER_US:
        return None
    wanted = None if expires_us is None else later(expires_us, terms.grace_months, terms.grace_us)
    if terms.requested_us and (wanted is None or terms.requested_us < wanted):
        wanted = terms.requested_us
    return None if wanted is None else max(min_until_us, wanted)


def _reasons(
    terms: Terms, now_us: int, expires_us: int | None, min_until_us: int, delete_at_us: int | None
) -> tuple[str, ...]:
    reasons = [MINIMUM] if now_us < min_until_us else []
    if terms.requested_us:
        reasons.append(REQUEST)
    if expires_us is None:
        reasons.append(NOT_STARTED if terms.expire_months or terms.expire_us else NEVER)
    elif now_us < expires_us:
        reasons.append(RUNNING)
    else:
        reasons.append(EXPIRED)
        if not reasons[:-1] and delete_at_us is not None and now_us < delete_at_us:
            reasons.append(GRACE)
    return tuple(reasons)


# ------------------------------------------------------------------------------------------ for a person

_AFTER: Final = (
    "after it was made",
    "after it was last used",
    "after it ended",
    "after it was labelled",
    "after a date that is set from outside",
)
_DONE: Final = {"erase": "erased", "redact:L0": "reduced to its structure", "review": "put up for review"}
#: Within so long of now a date is said with its time of day.
_NEAR_US: Final = 2 * DAY_US


def explain(
    decision: Decision, terms: Terms, policy: Policy | None, now_us: int, stay: Stay | None = None
) -> str:
    """Why it is still there and when it will go, in one to three sentences.

    Args:
        decision: of this item at this time.
        terms: that it was taken by.
        policy: the one the terms were made from, for the name of the rule and what a minimum refers to;
            any other, or None, leaves these out.
        now_us: the time it was taken at.
        stay: why it stays although it is due; None when the next sweep takes it.
    """
    if policy is not None and policy.mark != terms.policy:
        policy = None
    asked = (
        f"Somebody asked for its erasure on {_date(terms.requested_us, now_us)}."
        if terms.requested_us
        else ""
    )
    if decision.state == "HELD":
        return " ".join(
            filter(None, [_HELD, asked or _expired(decision, now_us), _without_hold(decision, now_us)])
        )
    if decision.state == "DUE":
        said = asked or f"{_expired(decision, now_us)[:-1]}, because {_rule(terms, policy)}."
        return f"{said} {_due(decision, stay, now_us)}"
    if now_us < decision.min_until_us and not decision.visible:
        return (
            f"{asked or _expired(decision, now_us)} It is hidden. {_minimum(decision, terms, policy, now_us)}"
        )
    if asked:
        return f"{asked} It is hidden, and erased on {_date(decision.delete_at_us, now_us)}."
    if decision.visible:
        return _living(decision, terms, policy, now_us)
    until, done = _date(decision.delete_at_us, now_us), _DONE[decision.action]
    expired = f"{_expired(decision, now_us)[:-1]}, because {_rule(terms, policy)}."
    return f"{expired} It is hidden, and can be restored until {until}; then it is {done}."


_HELD: Final = "A hold keeps it, whatever else is said, until the hold is released."


def _without_hold(decision: Decision, now_us: int) -> str:
    if decision.delete_at_us is None:
        return ""
    when = "at once" if decision.delete_at_us <= now_us else f"on {_date(decision.delete_at_us, now_us)}"
    return f"Without the hold it is {_DONE[decision.action]} {when}."


_STAYS: Final = {
    "hold": "It stays because {}, which was made from it, is kept by a hold; it goes once that is released.",
    "minimum": "It stays because {}, which was made from it, is not erased before {}.",
    "newer_version": "It stays while the newer version that was made from it does.",
    "review": "It stays until a person erases it, because its rule wants a person to decide.",
    "over_cap": "It stays until a privacy officer lets the sweep go on, because more of the tenant is due "
    "than goes by itself.",
    "being_erased": "It is being erased at this moment.",
}


def _due(decision: Decision, stay: Stay | None, now_us: int) -> str:
    if stay is None:
        return f"It is due, and is {_DONE[decision.action]} by the next sweep."
    said = f"It has been due since {_date(decision.delete_at_us, now_us)}."
    if stay.why == "fork":
        until = f", until {_date(stay.until_us, now_us)}" if stay.until_us else ""
        return (
            f"{said} The fork {stay.name} shares it. The next sweep makes that the fork's own where it can, "
            f"and then erases this; else this stays as long as the fork{until}."
        )
    return f"{said} {_STAYS[stay.why].format(stay.name or 'something', _date(stay.until_us, now_us))}"


def _expired(decision: Decision, now_us: int) -> str:
    if decision.expires_us is None or now_us < decision.expires_us:
        return ""
    return f"It expired on {_date(decision.expires_us, now_us)}."


def _living(decision: Decision, terms: Terms, policy: Policy | None, now_us: int) -> str:
    if decision.expires_us is None:
        waits = bool(terms.expire_months or terms.expire_us)
        said = f"It is kept without a date, because {_rule(terms, policy)}{', which has not come' * waits}."
        if now_us < decision.min_until_us:
            said += f" {_minimum(decision, terms, policy, now_us)}"
        return said
    expires = _date(decision.expires_us, now_us)
    said = f"It is kept until {expires}, because {_rule(terms, policy)}."
    if decision.delete_at_us is None:
        return f"{said} Then it is hidden. {_minimum(decision, terms, policy, now_us)}"
    if decision.delete_at_us == decision.expires_us:
        return f"{said} Then it is {_DONE[decision.action]}."
    gone = f"and {_DONE[decision.action]} on {_date(decision.delete_at_us, now_us)}"
    if decision.delete_at_us == decision.min_until_us:
        return f"{said} Then it is hidden, {gone}, because of {_keeps(terms, policy)}."
    return f"{said} Then it is hidden, can be restored for a while, {gone}."


def _minimum(decision: Decision, terms: Terms, policy: Policy | None, now_us: int) -> str:
    because = f"because of {_keeps(terms, policy)}"
    if decision.min_until_us == FOREVER_US:
        return f"It is not erased before a date that is not known yet, {because}."
    return f"It is not erased before {_date(decision.min_until_us, now_us)}, {because}."


def _rule(terms: Terms, policy: Policy | None) -> str:
    who = "its rule"
    if terms.rule < 0:
        who = "no rule of its policy speaks of it" if terms.policy else "it was stored under no policy"
        if not terms.expire_months and not terms.expire_us:
            return who
        who += ", and the vault"
    elif policy is not None and terms.rule < len(policy.rules):
        who = f'the rule "{policy.rules[terms.rule].id}" of the policy "{policy.name}"'
    if not terms.expire_months and not terms.expire_us:
        return f"{who} says that it never expires"
    start = _AFTER[terms.anchor] + ", or after it was restored" * bool(terms.restored_us)
    return f"{who} gives it {in_words(terms.expire_months, terms.expire_us)} {start}"


def _keeps(terms: Terms, policy: Policy | None) -> str:
    if len(terms.keeps) > 1:
        return f"the longest of {len(terms.keeps)} minimums{_cited(terms, policy)}"
    anchor, months, us = terms.keeps[0][:3]
    return f"a minimum of {in_words(months, us)} {_AFTER[anchor]}{_cited(terms, policy)}"


def _cited(terms: Terms, policy: Policy | None) -> str:
    """What the minimums refer to, as far as the policy says it."""
    refs, keeps = [], {keep[:3] for keep in terms.keeps}
    for rule in policy.rules if policy else ():
        keep = rule.keep_min.duration
        if keep and rule.keep_min.ref and (ANCHORS.index(rule.anchor), keep.months, keep.us) in keeps:
            refs.append(rule.keep_min.ref)
    return f" ({'; '.join(dict.fromkeys(refs))})" if refs else ""


def _date(moment_us: int | None, now_us: int) -> str:
    """A day in UTC, with the time of day where that matters."""
    if moment_us is None or moment_us >= LAST_US:
        return "the end of the year 9999"
    days, rest = divmod(moment_us, DAY_US)
    day = (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    minutes = rest // MINUTE_US
    near = abs(moment_us - now_us) < _NEAR_US
    return f"{day} {minutes // 60:02}:{minutes % 60:02} UTC" if near else day
