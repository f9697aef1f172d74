"""What commands have in common: the options that every one takes, the vault they open, whose sessions."""

from __future__ import annotations

import getpass
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

import vault
from vault.errors import InvalidInput, KeyUnavailable, NotFound
from vault.model import Principal, parse_id
from vault.policy.access import ROLES

if TYPE_CHECKING:
    from vault.faces import Access
    from vault.sessions.service import Sessions
    from vault.sessions.session import Session
    from vault.wiring import Vault

PASSPHRASE: Final = "SESSION_VAULT_PASSPHRASE"  # noqa: S105 - the variable's name
NEW_PASSPHRASE: Final = "SESSION_VAULT_NEW_PASSPHRASE"  # noqa: S105 - the same
DEFAULT_VAULT: Final = Path("my.vault")
LATEST: Final = "latest"
#: Who calls when nothing else is said: the owner of sessions, at work with them.
DEFAULT_SUBJECT: Final = "owner"
DEFAULT_ROLES: Final = frozenset({"agent", "owner"})

SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="A session's full id, or `latest`: the active one used last.")
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="At most so many events.")
]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a command; each field is an option of it."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON to standard output, and nothing else there.")
    ] = False
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the program an unexpected error arose.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class VaultCall(Call):
    """A call that works on a vault."""

    place: Annotated[
        Path,
        typer.Option("--vault", "-V", metavar="PATH", envvar="SESSION_VAULT", help="The vault's directory."),
    ] = DEFAULT_VAULT

    def opened(self) -> Vault:
        """The vault; a context manager that closes it.

        Raises:
            NotFound: there is none; the message says how to name or make one.
            VaultError: as ``Vault.open``.
        """
        return vault.Vault.open(self.found(), passphrase=ask_passphrase)

    def found(self) -> Path:
        """The vault's directory, which holds one.

        Raises:
            NotFound: it does not; the message says how to name or make one.
        """
        if not (self.place / "vault.toml").exists():
            where = "at ./my.vault" if self.place == DEFAULT_VAULT else "at the path given"
            raise NotFound(f"there is no vault {where}; name yours with --vault, or make one with init")
        return self.place


@dataclass(frozen=True, kw_only=True)
class OwnerCall(VaultCall):
    """A call that works on somebody's sessions."""

    tenant: Annotated[
        str,
        typer.Option(
            "--tenant",
            metavar="NAME",
            envvar="SESSION_VAULT_TENANT",
            help="Whose sessions: the tenant (organisation or product) they belong to.",
        ),
    ] = field(default="default", repr=False)
    subject: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="SUBJECT",
            envvar="SESSION_VAULT_SUBJECT",
            help="Who calls: the person in that tenant; `owner` when left out.",
        ),
    ] = field(default=None, repr=False)
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="In which role: as registered, else agent and owner, when left out; may be given again.",
        ),
    ] = None
    team: Annotated[
        list[str] | None,
        typer.Option("--team", metavar="NAME", help="A team that person is in; may be given again."),
    ] = field(default=None, repr=False)

    def principal(self) -> Principal:
        """Who calls.

        Raises:
            InvalidInput: no such role; or one that looks at what is others' own, without a name.
        """
        roles = frozenset(self.role or DEFAULT_ROLES)
        if not roles <= set(ROLES):
            raise InvalidInput(f"--role is {', '.join(ROLES[:-1])} or {ROLES[-1]}")
        if self.subject is None and not roles <= DEFAULT_ROLES:
            # Or the trail would say that the owner did it.
            raise InvalidInput("say with --as who calls in this role: it goes into the audit trail")
        return Principal(
            tenant=self.tenant,
            subject=DEFAULT_SUBJECT if self.subject is None else self.subject,
            roles=roles,
            teams=frozenset(self.team or ()),
        )

    @contextmanager
    def access(self) -> Iterator[Access]:
        """What that person reaches, while the vault is open."""
        named = self.principal()
        with self.opened() as opened:
            yield opened.access(self._registered(opened, named))

    def _registered(self, opened: Vault, named: Principal) -> Principal:
        """Who calls, in the roles and teams that the tenant's directory gives, where there is one.

        Raises:
            InvalidInput: a role or a team that it does not give.
        """
        known = opened.access(named).admin.myself()
        if known is None:
            return named
        if not (set(self.role or ()) <= known.roles and set(self.team or ()) <= known.teams):
            raise InvalidInput("not registered in that role or team; --role and --team can be left out")
        roles = named.roles if self.role else known.roles
        return replace(named, roles=roles, teams=named.teams if self.team else known.teams)

    @contextmanager
    def sessions(self) -> Iterator[Sessions]:
        """That person's sessions, while the vault is open."""
        with self.access() as access:
            yield access.sessions

    @contextmanager
    def session(self, named: str) -> Iterator[Session]:
        """One of them, by id or as ``latest``.

        Raises:
            NotFound: there is none; another person's answers alike.
        """
        with self.sessions() as sessions:
            yield found(sessions, named)


def found(sessions: Sessions, named: str) -> Session:
    """A session by id or as ``latest``.

    Raises:
        NotFound: there is none; another person's answers alike.
    """
    return latest(sessions) if named == LATEST else sessions.resume(named)


def latest(sessions: Sessions) -> Session:
    """The active session used last.

    Raises:
        NotFound: there is none.
    """
    try:
        return sessions.latest()
    except NotFound:
        raise NotFound("this tenant and subject have no active session") from None


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command; the fields of its first parameter's class become options of it."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        first, *own = inspect.signature(function, eval_str=True).parameters.values()
        kind, hints = first.annotation, get_type_hints(first.annotation, include_extras=True)
        names = [option.name for option in fields(kind)]

        def called(**values: Any) -> None:
            call = kind(**{name: values.pop(name) for name in names})
            function(call, **values)

        shared = [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=hints[option.name],
            )
            for option in fields(kind)
        ]
        parameters = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own] + shared
        called.__doc__ = function.__doc__
        called.__annotations__ = {item.name: item.annotation for item in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        app.command(name)(called)
        return function

    return register


def ask_passphrase() -> str:
    """The vault's passphrase: from the environment, or asked for on the terminal.

    Raises:
        KeyUnavailable: there is neither.
    """
    given = os.environ.get(PASSPHRASE)
    if given:
        return given
    return _prompted("Passphrase: ", PASSPHRASE)


def ask_new_passphrase(variable: str) -> str:
    """A passphrase to set: from the environment, or asked for twice.

    Raises:
        KeyUnavailable: there is neither environment nor terminal.
        InvalidInput: the two that were typed differ.
    """
    given = os.environ.get(variable)
    if given:
        return given
    first = _prompted("New passphrase: ", variable)
    if _prompted("The same again: ", variable) != first:
        raise InvalidInput("the two passphrases differ; nothing was changed")
    return first


def _prompted(prompt: str, variable: str) -> str:
    refused = f"a passphrase is needed: set {variable}, or run this on a terminal to be asked for it"
    if not sys.stderr.isatty():
        raise KeyUnavailable(refused)
    try:
        with warnings.catch_warnings():
            # Where the terminal cannot hide what is typed, nothing is typed.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(prompt, sys.stderr)
    except (getpass.GetPassWarning, EOFError):
        sys.stderr.write("\n")
        raise KeyUnavailable(refused) from None
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise


def parse_moment(text: str | None, option: str) -> datetime | None:
    """A moment that was given as text, in words that name the option when it is none.

    Raises:
        InvalidInput: it is not ISO 8601 with a zone.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise InvalidInput(f"{option} is an ISO 8601 time with its zone, for example 2025-03-01T12:00:00Z")
    return moment


def check_event_id(given: str | None, option: str) -> None:
    """Refuse what is no event's id, in words that name the option.

    Raises:
        InvalidInput: it is none.
    """
    if given is not None and parse_id("evt", given) is None:
        raise InvalidInput(f"{option} is an event's id: evt_ and a UUID, as --json shows them")
