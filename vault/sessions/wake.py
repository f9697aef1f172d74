"""Waking: one call gives a fresh process all that it needs to go on, from one consistent point of the log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from vault.errors import ConfigDrift, InvalidInput
from vault.model import NewEvent, check_name
from vault.policy.drift import choose, drift, normalised, pending_tools_gone
from vault.policy.freshness import note
from vault.policy.recovery import DEFAULT
from vault.policy.standing import standing
from vault.sessions.gap import gap_of
from vault.sessions.log import open_about
from vault.sessions.read import Part, read, shared_of, verified_view
from vault.sessions.recover import recover_through
from vault.sessions.run import begin
from vault.sessions.stated import find_effect, in_doubt_by_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vault.access.door import Authorise, Grant
    from vault.policy.drift import Choice, Drift, Policy
    from vault.policy.freshness import WorldGap
    from vault.policy.recovery import Reducer, Trigger
    from vault.policy.standing import Standing
    from vault.ports.records import SessionRow
    from vault.sessions.facts import EffectState
    from vault.sessions.log import Log
    from vault.sessions.recover import Recovered
    from vault.sessions.run import Run

_CONFIG: Final = "config.changed"
#: Where a session stands when there is nothing to tell a model about it.
_USUAL: Final = frozenset({"new", "idle", "stopped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """Where a session stood, and the run that goes on from there.

    ``recovered`` is the state before this run began; ``pending_tools`` are calls that were requested and
    neither returned nor failed; ``in_doubt`` effects that were intended and of which nobody knows whether
    they happened, and ``in_doubt_hidden`` how many more there are, of which a view does not show all;
    ``standing`` says where and why it stopped; ``gap`` how the world moved on; ``drift`` how
    the agent's configuration differs from the pinned one, and ``choice`` which of the two counts; ``note``
    is a text to put into the model's context, empty when there is nothing to say.
    """

    run: Run
    recovered: Recovered
    pending_tools: tuple[Mapping[str, Any], ...] = field(repr=False)
    in_doubt: tuple[EffectState, ...] = field(repr=False)
    standing: Standing = field(repr=False)
    gap: WorldGap = field(repr=False)
    drift: Drift = field(repr=False)
    choice: Choice = field(repr=False)
    note: str = field(repr=False)
    in_doubt_hidden: int = 0

    @property
    def state(self) -> Any:
        """The state that was recovered."""
        return self.recovered.state


def wake(
    log: Log,
    authorise: Authorise,
    row: SessionRow,
    *,
    config: str | None,
    config_document: Mapping[str, Any] | None,
    on_drift: Policy,
    lease_seconds: float,
    wait: float | None,
    trigger: Trigger,
    reducer: Reducer,
) -> Woken:
    """Take the lease of a session, and tell where it stood before that.

    Raises:
        ConfigDrift: the configuration is another one and ``on_drift`` is ``ask``; no lease was taken.
        Busy: another run is active.
        Diverged: a replay gives another state than a checkpoint holds.
    """
    found, pinned, current = _drift(log, authorise("read"), row, config, config_document)
    choice = choose(on_drift, found)
    if choice.config == "ask":
        raise ConfigDrift(
            "the agent's configuration is not the one of this session; look at what differs, then wake it "
            "with on_drift old or new"
        )
    counts = current if choice.config == "new" else pinned
    opening = [NewEvent(type="run.woken", payload={} if counts is None else {"config": counts})]
    if choice.config == "new":
        said = {"config": current, "document": config_document}
        changed = {name: value for name, value in said.items() if value is not None}
        opening.insert(0, NewEvent(type=_CONFIG, payload=changed))
    run, stored = begin(
        log,
        authorise,
        row,
        lambda run_id: [replace(event, run=run_id) for event in opening],
        lease_seconds=lease_seconds,
        wait=wait,
        trigger=trigger,
        reducer=reducer,
    )
    try:
        return _woken(log, authorise("read"), row, run, stored[0].seq - 1, reducer, (found, choice))
    except BaseException:
        run.stop("waking it failed")  # whoever tries again must not wait for a lease that nobody uses
        raise


def _woken(
    log: Log,
    grant: Grant,
    row: SessionRow,
    run: Run,
    through: int,
    reducer: Reducer,
    config: tuple[Drift, Choice],
) -> Woken:
    """What is told of a session as it was before its new run: the log up to there never changes again."""
    found, choice = config
    session_id = row.session_id
    recovered = recover_through(log, grant, session_id, reducer, through)
    state = recovered.state
    if reducer is not DEFAULT:
        state = recover_through(log, grant, session_id, DEFAULT, through).state
    stands = standing(state, lease_live=False, shared_through=row.base_seq)
    pending = tuple({"id": event_id, **call} for event_id, call in state["tools"]["pending"].items())
    in_doubt, hidden = _in_doubt(log, grant, session_id, state)
    gap = gap_of(log, grant, session_id, state)
    tools = [str(call["tool"]) for call in pending]
    gone = [
        f"The tool “{name}” is awaited and no longer exists." for name in pending_tools_gone(found, tools)
    ]
    text = note(
        gap,
        standing=None if stands.kind in _USUAL else stands.sentence,
        pending_tools=tools,
        in_doubt=[
            *(f"{effect.kind} {effect.key}" for effect in in_doubt),
            *([f"{hidden:,} of which this view does not tell"] if hidden else []),
        ],
        drift=[*(found.lines if found.changed else ()), *gone],
    )
    return Woken(
        run=run,
        recovered=recovered,
        pending_tools=pending,
        in_doubt=in_doubt,
        in_doubt_hidden=hidden,
        standing=stands,
        gap=gap,
        drift=found,
        choice=choice,
        note=text,
    )


def _in_doubt(
    log: Log, grant: Grant, session_id: bytes, state: Mapping[str, Any]
) -> tuple[tuple[EffectState, ...], int]:
    """The effects in doubt, and how many more there are that a view does not show whole."""
    by_view = in_doubt_by_view(log, grant, session_id)
    if by_view is not None:
        return tuple(by_view[0]), by_view[1]
    intended = [(effect["kind"], effect["key"]) for effect in state["effects"]["open"].values()]
    known = [find_effect(log, grant, session_id, *subject) for subject in intended]
    return tuple(effect for effect in known if effect is not None and effect.state == "in doubt"), 0


def _drift(
    log: Log,
    grant: Grant,
    row: SessionRow,
    config: str | None,
    config_document: Mapping[str, Any] | None,
) -> tuple[Drift, str | None, str | None]:
    """How a configuration differs from the pinned one, and both names; what is left out is as pinned."""
    pinned, document = pinned_config(log, grant, row.session_id)
    old = None if document is None else normalised(document)
    if config is None and config_document is None:
        return drift(pinned, old, pinned, old), pinned, pinned
    name = pinned if config is None else check_name(config, "a config")
    new = None if config_document is None else normalised(config_document)
    return drift(pinned, old, name, new), pinned, name


def pinned_config(log: Log, grant: Grant, session_id: bytes) -> tuple[str | None, Any]:
    """The configuration that counts for a session: as created, or by the newest decision for a new one."""
    with verified_view(log, grant, session_id) as found:
        about = open_about(found.keys, found.row)
        part = Part(
            types=(_CONFIG,),
            high=found.row.head_seq + 1,
            newest_first=True,
            shared=shared_of(found),
        )
    for event in read(log, grant, session_id, part):
        if (said := _said(event.payload)) is not None:
            return said
    return about.get("config"), about.get("config_document")


def _said(payload: Any) -> tuple[str | None, Any] | None:
    """The configuration that a decision names; None when it names none, as a product's own event may."""
    if not isinstance(payload, dict):
        return None
    config, document = payload.get("config"), payload.get("document")
    try:
        if config is not None:
            check_name(config, "a config")
        if document is not None:
            normalised(document)
    except InvalidInput:
        return None
    return None if config is None and document is None else (config, document)
