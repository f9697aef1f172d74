"""A receipt for people: Markdown that a privacy officer can read, send and file. Pure.

It says what the vault did and what it did not look into; never that something is gone everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from vault.policy.receipt import NO_RECEIPT, Receipt, Store, digest, iso

_STATES: Final[Mapping[str, str]] = {
    "incomplete": "**Incomplete.** Not everything was done yet; what is missing is below. Another receipt is"
    " to follow.",
    "executed": "**Executed.** All steps were carried out. The search for remains has not ended yet.",
    "verified": "**Verified.** All steps were carried out, and the vault then searched its own stores for"
    " what was erased, by id and by key, and found nothing.",
    "barrier_passed": "**Barrier passed.** As verified; and the keys above those that were destroyed were"
    " replaced since, so that an older copy of a destroyed key no longer opens anything.",
}
#: Instead of what says that it was searched for.
_NOTHING: Final = (
    "**Nothing was erased.** All that was asked for stays, as is said below, so nothing was searched for."
)
#: Stands at the end of every receipt.
_CLOSING: Final = (
    "This receipt says what the vault did in its own stores. It does not say that no copy exists elsewhere."
)
_REASONS: Final[Mapping[str, str]] = {
    "person_request": "a person asked for it",
    "policy": "a retention policy asked for it",
    "contract_end": "a contract ended",
    "court": "a court asked for it",
    "other": "another reason, which is not in receipts",
}
_SELECTED: Final[Mapping[str, str]] = {
    "session": "a session, and what was derived from it",
    "subject": "everything of one person",
    "memory": "a memory, and what was derived from it",
    "artifact": "an artifact, and what was derived from it",
    "label": "everything that carries a label",
    "tenant": "everything of the tenant",
    "policy": "what a retention policy named",
}
_KINDS: Final[Mapping[str, str]] = {
    "session": "sessions",
    "event": "events",
    "memory": "memories",
    "summary": "summaries",
    "embedding": "embeddings",
    "artifact": "artifacts",
    "fork": "forks",
    "cache": "cached items",
    "export": "exports",
}
_ACTIONS: Final[Mapping[str, str]] = {
    "erased": "erased",
    "recomputed": "erased and made again from what stays",
    "detached": "kept, no longer derived from what was erased",
    "held": "kept because of a hold",
    "minimum": "kept because of a statutory minimum",
    "already_gone": "gone before this operation",
}
_BASES: Final[Mapping[str, str]] = {"hold": "a hold", "minimum": "a statutory minimum"}
_RESULTS: Final[Mapping[str, str]] = {
    "done": "done",
    "failed": "**failed**",
    "unreachable": "**could not be reached**",
}
_UNCHECKED: Final[Mapping[str, str]] = {
    "backups": "backups of the vault",
    "exported_copies": "copies that were exported or printed",
    "external_targets": "systems that the vault asked to erase too",
    "filesystem_snapshots": "snapshots of the file system or the virtual machine",
    "model_provider": "what a model's provider keeps of what it was sent",
    "open_reader": "the write-ahead log of a database: a reader was still at work",
    "process_memory": "the memory of running programs",
    "replicas": "replicas of the databases",
    "storage_media": "what disks keep in blocks that they replaced themselves",
    "swap": "memory that the system wrote to disk",
}


def rendered(receipt: Receipt) -> str:
    """The receipt as Markdown; ends in a newline. Nothing in it is text that a user supplied."""
    return "\n".join(
        [
            "# Receipt of an erasure",
            "",
            _STATES[receipt.state] if receipt.items.count else _NOTHING,
            "",
            *_about(receipt),
            "",
            "## What the vault did",
            "",
            *_done(receipt),
            "",
            "## What stays, and why",
            "",
            *_stays(receipt),
            "",
            "## What was not checked",
            "",
            "The vault cannot look into these, or did not. What was erased may still be there:",
            "",
            *(f"- {_UNCHECKED[code]}" for code in receipt.not_checked),
            "",
            _horizon(receipt),
            "",
            _CLOSING,
            "",
        ]
    )


def _about(receipt: Receipt) -> Iterator[str]:
    who = receipt.requested_by
    asked = "the vault itself" if who.pseudonym is None else f"`{who.pseudonym}`"
    times = receipt.times
    rows = [
        ("operation", f"`{receipt.operation}`"),
        ("receipt", f"number {receipt.number:,} of the tenant"),
        ("SHA-256", f"`{digest(receipt)}`"),
        ("receipt before", "none" if receipt.previous == NO_RECEIPT else f"`{receipt.previous}`"),
        ("follows", "no earlier receipt" if receipt.follows is None else f"`{receipt.follows}`"),
        ("vault", f"`{receipt.vault}`"),
        ("tenant", f"`{receipt.tenant}`"),
        ("chosen", f"{_SELECTED[receipt.selector.kind]}: `{receipt.selector.mark}`"),
        ("about", "no person in particular" if receipt.subject is None else f"`{receipt.subject}`"),
        ("asked for by", f"{asked}, role {who.role}"),
        ("reason", _REASONS[receipt.reason]),
        ("policy", f"`{receipt.policy}`"),
        ("plan", f"`{receipt.plan}`"),
        ("asked for at", iso(times.requested_us)),
        ("unreadable from", iso(times.invisible_us)),
        ("erased", _when(times.erased_us)),
        ("verified", _when(times.verified_us)),
        ("barrier", "pending" if receipt.barrier.at_us is None else f"passed {iso(receipt.barrier.at_us)}"),
    ]
    # A list: what shows Markdown on a narrow screen cuts the cells of a table, and a cut hash says nothing.
    yield from (f"- **{name}**: {value}" for name, value in rows)
    yield ""
    yield "Long hexadecimal numbers stand for names, ids and documents; a name shows only with its key."


def _done(receipt: Receipt) -> Iterator[str]:
    rows = [
        (_KINDS[kind], f"{count:,}", _ACTIONS[action])
        for kind, actions in sorted(receipt.counts.items())
        for action, count in sorted(actions.items())
    ]
    if rows:
        yield from _table(("what", "how many", "was"), rows)
    else:
        yield "There was nothing to erase."
    yield ""
    yield f"- items erased: {receipt.items.count:,}, together `{receipt.items.root}`"
    yield f"- keys destroyed: {receipt.keys.destroyed:,}, together `{receipt.keys.root}`"
    if receipt.stores:
        yield ""
        header = ("store", "rows deleted", "files deleted", "write-ahead log", "result")
        yield from _table(header, [_store(store) for store in receipt.stores])


def _store(store: Store) -> tuple[str, ...]:
    emptied = {True: "emptied", False: "**not emptied**", None: "has none"}[store.wal_truncated]
    return f"`{store.store}`", f"{store.rows:,}", f"{store.blobs:,}", emptied, _RESULTS[store.result]


def _stays(receipt: Receipt) -> Iterator[str]:
    if not receipt.exceptions:
        yield "Nothing was kept because of a hold or a statutory minimum."
        return
    yield "What stays cannot be read, and nothing new is derived from it."
    yield ""
    rows = [
        (_KINDS[kept.kind], f"{kept.count:,}", _BASES[kept.basis], _when(kept.until_us, "not known"))
        for kept in receipt.exceptions
    ]
    yield from _table(("what", "how many", "because of", "until"), rows)


def _horizon(receipt: Receipt) -> str:
    if receipt.backup_horizon_us is None:
        return "Until when backups are kept that hold what was erased is not known to the vault."
    until = iso(receipt.backup_horizon_us)
    return f"By its settings, no backup that holds what was erased is kept after {until}."


def _when(us: int | None, otherwise: str = "not yet") -> str:
    return otherwise if us is None else iso(us)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
