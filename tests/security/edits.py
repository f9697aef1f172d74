"""What is done to a specimen's files, and what must come of it: shared by the tables of edits.

An edit takes a specimen whose vault may be open. ``check_reads`` and ``check_report`` say what reading and
``verify`` must make of it.
"""

# ruff: noqa: S608 - names in the statements are the tests' own

from collections.abc import Callable
from dataclasses import dataclass

from tests.security import surgery
from tests.security.specimen import Specimen
from vault import Page, Vault
from vault.errors import VaultError

Edit = Callable[[Specimen], None]

REFUSALS = {"Tampered", "RolledBack", "KeyUnavailable"}
NOT_THERE = {"NotFound", "LISTED WITHOUT IT", "WITHOUT A BRANCH"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One edit and what must come of it."""

    name: str
    edit: Edit
    #: Reads that must refuse.
    refused: frozenset[str] = frozenset()
    #: ``verify``: (kind, place); the victim's id stands for ``{}``, another session's for its name in braces.
    found: tuple[tuple[str, str], ...] = ()
    #: The same without keys; None when nothing can be found without them.
    keyless: tuple[tuple[str, str], ...] | None = ()
    #: What opening says when the edit was made while the vault was closed; None when it opens.
    opening: tuple[type[VaultError], str] | None = None
    #: Reads that may answer as if something were not there: a lookup in an index cannot miss what is not in
    #: it. Opening, ``verify`` and `resume` by id do; docs/reference/sealed-format.md says so.
    blind: frozenset[str] = frozenset()


# --------------------------------------------------------------------------------------- the edits


def on_rows(change: Callable) -> Edit:
    """An edit of the data file; ``change`` gets its connection and the specimen."""

    def edit(made: Specimen) -> None:
        with surgery.opened(made.place) as connection:
            change(connection, made)

    return edit


def both(*edits: Edit) -> Edit:
    def edit(made: Specimen) -> None:
        for one in edits:
            one(made)

    return edit


def exchanged(table: str, columns: tuple[str, ...], one: Callable, two: Callable) -> Edit:
    """Two rows exchange some columns."""

    def change(connection, made):
        places = [one(connection, made), two(connection, made)]
        found = []
        for place in places:
            terms = " AND ".join(f"{name} IS :{name}" for name in place)
            row = connection.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {terms}", place)
            found.append(dict(zip(columns, row.fetchone(), strict=True)))
        surgery.without_rules(connection, table)
        for place, values in zip(places, reversed(found), strict=True):
            surgery.update(connection, table, place, **values)

    return on_rows(change)


def at(seq: int, session: str = "victim") -> Callable:
    return lambda connection, made: made.slot(connection, seq, session)


def session_row(session: str = "victim") -> Callable:
    return lambda connection, made: {"no": made.no(connection, session)}


def removed(*numbers: int, session: str = "victim") -> Edit:
    def change(connection, made):
        for seq in numbers:
            query = "DELETE FROM events WHERE session_no = :session_no AND seq = :seq"
            connection.execute(query, made.slot(connection, seq, session))

    return on_rows(change)


def index_without(index: str, condition: str) -> Callable:
    """The index made anew without some rows; its text says that nothing is left out."""

    def change(connection, made):
        query = "SELECT sql FROM sqlite_schema WHERE name = ?"
        (sql,) = connection.execute(query, (index,)).fetchone()
        numbers = {name: made.no(connection, name) for name in made.sessions}
        word = "AND" if " WHERE " in sql else "WHERE"
        connection.execute(f"DROP INDEX {index}")
        connection.execute(f"{sql} {word} {condition.format(**numbers)}")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, index))
        connection.execute("PRAGMA writable_schema = RESET")

    return change


# ---------------------------------------------------------------------------------------- the checks


def outcomes(vault: Vault, specimen: Specimen, of: str = "victim") -> dict[str, str]:
    """What each read came to: ``same``, or the class of the refusal; anything else by what it is instead."""
    calls = specimen.calls(vault) if of == "victim" else specimen.recovery_calls(vault)
    outcome = {}
    for name, call in calls.items():
        try:
            result = call()
        except VaultError as error:
            outcome[name] = type(error).__name__
        else:
            outcome[name] = compared(name, result, specimen, of)
    return outcome


def compared(name: str, result: object, specimen: Specimen, of: str) -> str:
    clean = (specimen.clean if of == "victim" else specimen.clean_recovery)[name]
    if result == clean:
        return "same"
    if isinstance(clean, Page) and isinstance(result, Page):
        others = tuple(item for item in clean.items if item.id != specimen.victim)
        if result.items == others:
            return "LISTED WITHOUT IT"
    if of != "victim" and result in specimen.without_a_branch().get(name, []):
        return "WITHOUT A BRANCH"
    return "OTHER CONTENT"


def check_reads(
    vault: Vault,
    specimen: Specimen,
    refused: frozenset[str],
    blind: frozenset[str],
    *,
    exactly: bool = True,
    of: str = "victim",
) -> None:
    """Those that must refuse do; the others refuse or give what was written, or, if blind, less."""
    outcome = outcomes(vault, specimen, of)
    missed = {name: outcome[name] for name in refused if outcome[name] not in REFUSALS}
    assert not missed, missed
    allowed = {"same", *REFUSALS}
    others = {name: word for name, word in outcome.items() if word not in allowed}
    assert set(others.values()) <= NOT_THERE, others
    assert others.keys() == blind if exactly else others.keys() <= blind, others


def check_report(vault: Vault, specimen: Specimen, expected, *, without_keys: bool) -> None:
    report = vault.verify(without_keys=without_keys)
    named = {(finding.kind, finding.place) for finding in report.findings}
    wanted = {(kind, place_of(specimen, place)) for kind, place in expected}
    assert wanted <= named, named
    assert not report.ok, report


def place_of(specimen: Specimen, place: str) -> str:
    return place.format(specimen.victim, **specimen.sessions)
