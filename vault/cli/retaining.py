"""Commands ``retention``: what is due, a sweep, why something is there, taking an expiry back, a date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from vault.cli.call import LATEST, OwnerCall, command, latest
from vault.cli.erasing import TokenOption, check_token
from vault.cli.output import document, note, progress, say, show
from vault.cli.plans import tell
from vault.cli.printable import ago, iso, local, plural
from vault.clock import SystemClock, from_us
from vault.errors import Conflict, InvalidInput, NotFound, StorageUnavailable, VaultError

if TYPE_CHECKING:
    from vault.erasure.retention import Explanation, Health, Sweep
    from vault.faces import Access

_NO_DATE: Final = "none"
_DAY_LENGTH: Final = len("2027-01-31")
#: A sweeper that came to no end for so long does not work.
SILENT_MAX: Final = timedelta(days=2)
_NOBODY: Final = "no retention for this tenant and role: it is for --role privacy_officer, with --as"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    retention = typer.Typer(rich_markup_mode=None, help="What is kept how long, and what is due now.")
    command(retention, "preview")(preview)
    command(retention, "run")(run)
    command(retention, "status")(status)
    command(retention, "explain")(explain)
    command(retention, "undo")(undo)
    command(retention, "date")(date)
    command(retention, "trust-clock")(trust_clock)
    app.add_typer(retention, name="retention")


@contextmanager
def _officer(call: OwnerCall) -> Iterator[Access]:
    """What an officer reaches; anybody else is told who may.

    Raises:
        NotFound: no leave to retain.
    """
    with call.access() as access:
        try:
            yield access
        except NotFound:
            try:
                access.retention.health()
            except NotFound:
                raise NotFound(_NOBODY) from None
            raise


# --------------------------------------------------------------------------------------------- preview, run


def preview(call: OwnerCall) -> None:
    """Say what a sweep of the tenant would do now, and the token that stands for it, as privacy_officer."""
    with _officer(call) as access:
        would = access.retention.preview()
    if call.as_json:
        document(_document(would))
        return
    tell(_would(would))
    if would.token:
        say(f"token {would.token}")


def run(
    call: OwnerCall,
    *,
    token: TokenOption = None,
    once: Annotated[  # noqa: ARG001 - scripts say so, and it is so anyway
        bool, typer.Option("--once", help="One sweep, then an end, as always; for scripts that say so.")
    ] = False,
    all_tenants: Annotated[
        bool,
        typer.Option("--all-tenants", help="Sweep every tenant, as the worker does; needs no role."),
    ] = False,
) -> None:
    """Erase what is due in the tenant, as privacy_officer: one sweep.

    What a crash left unfinished is finished first. More than its share of what is live waits for the token
    that retention preview prints; then the exit code is 7.
    """
    check_token(token)
    if all_tenants:
        if token is not None:
            raise InvalidInput("a token is of one tenant; leave out --all-tenants")
        with call.opened() as opened, progress("erasing", None, of_bytes=False) as advance:
            swept = opened.sweep(progress=lambda done, _: advance(done))
    else:
        with _officer(call) as access, progress("erasing", None, of_bytes=False) as advance:
            swept = [access.retention.run(token=token, progress=lambda done, _: advance(done))]
    _print_swept(swept, as_json=call.as_json)


def _print_swept(swept: list[Sweep], *, as_json: bool) -> None:
    """What sweeps did.

    Raises:
        Exit: something was not done.
    """
    if as_json:
        document({"sweeps": [_document(one) for one in swept]})
    else:
        _say_swept(swept)
    if any(one.unfinished for one in swept):
        note("session-vault: a store did not give something up; each sweep tries again")
        raise typer.Exit(StorageUnavailable.exit_code)
    if any(_waits(one) for one in swept):
        note("session-vault: what is due is more than its share, so it waits for a person")
        raise typer.Exit(Conflict.exit_code)


def _say_swept(swept: list[Sweep]) -> None:
    gone = sum(one.going for one in swept if one.operations)
    operations = sum(one.operations for one in swept)
    done = f"erased {plural(gone, 'thing')} in {plural(operations, 'erasure')}, each with its receipt"
    epochs = sum(one.epochs for one in swept)
    hours = f"{plural(epochs, 'hour')} of events expired, whose sessions live on"
    tell(done if operations else hours if epochs else "nothing was erased")
    if operations and epochs:
        tell(hours)
    if kept := sum(one.held for one in swept):
        say(f"{plural(kept, 'thing')} kept by a hold or a statutory minimum")
    if review := sum(one.review for one in swept):
        tell(f"{plural(review, 'thing')} due wait for a person, as the policy says so")
    for one in filter(_waits, swept):
        tell(
            f"{plural(one.going, 'thing')} due: more than their share of what the tenant has, so nothing"
            " went; look at retention preview, then run with its --token"
        )


def _waits(one: Sweep) -> bool:
    """Whether what is due waits for its token."""
    return one.over_cap and one.going > 0 and not one.operations


def _would(would: Sweep) -> str:
    told = [f"{plural(would.going, 'thing')} would be erased now" if would.going else "nothing is due now"]
    if would.held:
        told.append(f"{plural(would.held, 'thing')} kept by a hold or a statutory minimum")
    if would.shared:
        told.append(f"{plural(would.shared, 'session')} due, once forks have taken over what they share")
    if would.review:
        told.append(f"{plural(would.review, 'thing')} due wait for a person, as the policy says so")
    if would.over_cap:
        told.append("it is more than its share of what the tenant has, so retention run wants this token")
    return "; ".join(told)


def _document(sweep: Sweep) -> dict[str, Any]:
    return {
        "going": sweep.going,
        "held": sweep.held,
        "shared": sweep.shared,
        "review": sweep.review,
        "over_cap": sweep.over_cap,
        "token": sweep.token or None,
        "operations": sweep.operations,
        "unfinished": sweep.unfinished,
        "epochs": sweep.epochs,
    }


# ------------------------------------------------------------------------------------------ status, clock


def status(call: OwnerCall) -> None:
    """Say whether sweeps work, as privacy_officer.

    The exit code is 1 when none came to its end for two days, or an erasure is unfinished.
    """
    with _officer(call) as access:
        health = access.retention.health()
    now = _now()
    wrong = _wrong(health, now)
    if call.as_json:
        about = {"last_sweep": iso(health.last_sweep), "working": health.working}
        document({"ok": not wrong, **about, "unfinished": health.unfinished})
    else:
        last = health.last_sweep
        swept = "nothing was ever swept" if last is None else f"swept {ago(last, now)} ({local(last)})"
        say(f"{swept}{'; a sweep is at work now' if health.working else ''}")
        for sentence in wrong:
            show(Text(sentence, style="bold red"))
        if not wrong:
            say("nothing is wrong")
    if wrong:
        raise typer.Exit(VaultError.exit_code)


def _wrong(health: Health, now: datetime) -> list[str]:
    wrong = []
    if health.last_sweep is None or now - health.last_sweep > SILENT_MAX:
        wrong.append("nothing was swept for two days: is a worker running? retention run sweeps once")
    if health.unfinished:
        wrong.append(f"{plural(health.unfinished, 'erasure')} not finished; retention run tries again")
    return wrong


def trust_clock(call: OwnerCall) -> None:
    """Say that this machine's clock is right, after it jumped, as privacy_officer; sweeps go on.

    Look at the time that it prints: what is due by this clock is erased by the next sweep.
    """
    with _officer(call) as access:
        access.retention.trust_clock()
    now = _now()
    if call.as_json:
        document({"trusted": iso(now)})
    else:
        tell(f"the clock is believed from now on: it is {local(now)} here; sweeps go on")


def _now() -> datetime:
    return from_us(SystemClock().now_us())


# ------------------------------------------------------------------------------------------ explain, undo


def explain(
    call: OwnerCall,
    *,
    item: Annotated[str, typer.Argument(metavar="ID", help="A session, memory or artifact; or `latest`.")],
) -> None:
    """Say why a session or derived item is still there, and when it goes.

    One's own; as privacy_officer any of the tenant.
    """
    with call.access() as access:
        named = latest(access.sessions).id if item == LATEST else item
        told = access.retention.explain(named)
    if call.as_json:
        document(_explained(named, told))
    else:
        tell(told.text)


def undo(
    call: OwnerCall,
    *,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session, by its full id.")],
) -> None:
    """Take back that a session expired, while it can still be restored: its whole period begins again."""
    with call.access() as access:
        access.retention.undo(session)
        told = access.retention.explain(session)
    if call.as_json:
        document(_explained(session, told))
    else:
        say(f"{session} is back")
        tell(told.text)


def date(
    call: OwnerCall,
    *,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session, by its full id.")],
    at: Annotated[
        str,
        typer.Argument(
            metavar="DATE", help="A day in UTC, an ISO 8601 time with its zone, or `none` to take it back."
        ),
    ],
) -> None:
    """Set the date that a policy counts from with the clock `external`, as privacy_officer.

    What is over by it is hidden at once, and goes by the next sweep. It stands in the audit trail.
    """
    with _officer(call) as access:
        told = access.retention.date(session, None if at == _NO_DATE else _parsed(at))
    if call.as_json:
        document(_explained(session, told))
    else:
        say(f"{session} has {'no date from outside' if at == _NO_DATE else 'this date from outside'} now")
        tell(told.text)


def _parsed(text: str) -> datetime:
    """A moment, or the beginning of a day in UTC.

    Raises:
        InvalidInput: it is neither.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and len(text) == _DAY_LENGTH:
        moment = moment.replace(tzinfo=UTC)
    if moment is None or moment.utcoffset() is None:
        raise InvalidInput("a date is a day as 2027-01-31, or a time with its zone as 2027-01-31T12:00:00Z")
    return moment


def _explained(named: str, told: Explanation) -> dict[str, Any]:
    return {
        "id": named,
        "text": told.text,
        "state": told.state,
        "visible": told.visible,
        "expires_at": iso(told.expires_at),
        "erased_from": iso(told.erased_from),
        "holds": told.holds,
        "stays": told.stays,
        "because_of": told.because_of,
    }
