"""What is kept about a person: told in numbers, or given to them as a file that is read without the vault.

It is the same choice as an erasure's: a report, an export and an erasure of a person meet the same sessions
and items. What an export cannot show it lists, with the reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vault.clock import from_us
from vault.derived.item import ARTIFACT
from vault.erasure import selection
from vault.erasure.archive import Archive, new_file, refuse_taken
from vault.erasure.disclosure import BROKEN, WHY, Disclosure, HeldBack, broken, iso, line, name_of
from vault.erasure.facts import terms_of
from vault.erasure.fence import SESSION
from vault.erasure.planning import planned
from vault.erasure.readme import README
from vault.errors import Conflict, Erased, NotFound
from vault.policy.retention import decide, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vault.access.door import Grant, Leave
    from vault.erasure.planning import Planned
    from vault.erasure.service import Parts
    from vault.policy.lineage import Node

#: The type of its entry in the audit trail.
EXPORTED: Final = "subject.exported"
_NOTHING: Final = "there is nothing of that person"
_CHANGED: Final = "something of it was erased, or ran out, while it was written: nothing was kept; try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One session or item of a person; ``held_back`` says why an export would not show it, if so."""

    id: str
    kind: str
    created_at: datetime
    held_back: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is kept about a person, in numbers; no content."""

    items: tuple[Kept, ...] = field(repr=False)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many of each kind."""
        return dict(sorted(Counter(one.kind for one in self.items).items()))

    @property
    def held_back(self) -> Mapping[str, int]:
        """How many an export would not show, by reason."""
        return dict(sorted(Counter(one.held_back for one in self.items if one.held_back).items()))

    @property
    def oldest(self) -> datetime:
        """When the first of it was made."""
        return min(one.created_at for one in self.items)

    @property
    def newest(self) -> datetime:
        """When the last of it was made."""
        return max(one.created_at for one in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What an export holds: how many files, sessions and items; and what it does not hold, and why."""

    path: Path
    files: int
    sessions: int
    items: int
    held_back: tuple[HeldBack, ...] = field(repr=False)


class Exports:
    """What one principal may learn or have exported of what is kept about a person."""

    def __init__(self, parts: Parts, leave: Leave) -> None:
        """Made by ``Vault.access``."""
        self._parts, self._leave = parts, leave

    def report(self, subject: str) -> Report:
        """What there is about a person: their sessions and items, with what an export would hold back.

        For the person as ``owner``; for anybody as ``privacy_officer``, which is recorded.

        Raises:
            InvalidInput: it names nobody.
            NotFound: there is nothing, or no leave.
        """
        grant, found = self._found(subject)
        disclosure, kept = Disclosure(self._parts.log, grant), list[Kept]()
        for node, leaving in found.met():
            created_us = self._created_us(grant, node)
            why = disclosure.why_not(node, leaving=leaving)
            kept.append(Kept(id=name_of(node), kind=node.kind, created_at=from_us(created_us), held_back=why))
        return Report(items=tuple(kept))

    def subject(
        self, subject: str, to: Path, *, progress: Callable[[int, int], None] | None = None
    ) -> Export:
        """Write all that is kept about a person into a zip file, readable without the vault.

        Args:
            subject: who.
            to: a new file; it gets mode 0600, and is there whole or not at all.
            progress: told (sessions and items written, in all).

        Raises:
            InvalidInput: it names nobody; or something is at this path already.
            NotFound: there is nothing, or no leave.
            Conflict: something of it was erased while it was written; nothing was kept.
            StorageUnavailable: the file cannot be written.
        """
        refuse_taken(to)
        grant, found = self._found(subject)
        made_us = self._parts.log.clock.now_us()
        with new_file(to) as file, Archive(file, made_us) as archive:
            work = _Work(self._parts, grant, found, archive, progress)
            try:
                work.write()
            except (NotFound, Erased):
                raise Conflict(_CHANGED) from None
            about = {
                "vault": self._parts.signer.name,
                "subject": subject,
                "made_at": iso(made_us),
                "policy": self._parts.policies.active(grant.tenant).digest.hex(),
                "counts": work.counts(),
            }
            digest = archive.finish(self._parts.signer, about)
            work.check_unchanged()
            # Recorded before it can be read: no export is out that the trail does not tell of.
            said = {"subject": grant.owner.hex(), "manifest": digest, **work.counts()}
            about_whom = ("export", grant.owner)
            self._parts.trail.write(grant.tenant, EXPORTED, grant.who, b"", said, about=about_whom)
        return Export(
            path=to,
            files=len(archive.files),
            sessions=work.counts()["sessions"],
            items=work.counts()["items"],
            held_back=tuple(work.held),
        )

    def _found(self, subject: str) -> tuple[Grant, Planned]:
        """Leave for a person's things, and what an erasure of that person would meet."""
        parts = self._parts
        selection.check_subject(subject)
        try:
            grant = self._leave.export(subject)
        except NotFound:
            raise NotFound(_NOTHING) from None
        selector = selection.selector(grant.tenant, "subject", subject)
        with parts.log.records.snapshot() as reader:
            found = planned(
                parts.log,
                parts.store,
                reader,
                grant.tenant,
                selector,
                owner=None,
                spared=parts.spared(grant.tenant),
                forks="include",
            )
        if not found.met():
            raise NotFound(_NOTHING)
        return grant, found

    def _created_us(self, grant: Grant, node: Node) -> int:
        with self._parts.log.records.snapshot() as reader:
            _, times = terms_of(reader, grant.tenant.tenant_id, node.id)
        return times.created_us


class _Work:
    """One export while it is written."""

    def __init__(
        self,
        parts: Parts,
        grant: Grant,
        found: Planned,
        archive: Archive,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._parts, self._grant, self._found, self.archive = parts, grant, found, archive
        self._disclosure = Disclosure(parts.log, grant)
        self._progress, self._done = progress, 0
        self.held = self._disclosure.held
        self._shown: list[Node] = []
        for node, leaving in found.met():
            why = self._disclosure.why_not(node, leaving=leaving)
            if why is None:
                self._shown.append(node)
            else:
                self.held.append(HeldBack(name_of(node), node.kind, why))

    def write(self) -> None:
        """All of it but the manifest.

        Raises:
            NotFound: something went meanwhile.
        """
        archive, disclosure = self.archive, self._disclosure
        with archive.entry("README.txt") as write:
            write(README.encode())
        sessions = self._of(SESSION)
        for node in sessions:
            disclosure.session(archive, node)
            self._told()
        with archive.listing("sessions.json") as add:
            for node in sessions:
                disclosure.session_lines(node, add)
        for node in self._of(ARTIFACT):
            self._unless_broken(node, lambda node: disclosure.artifact(archive, node))
        for name, nodes in (("artifacts.jsonl", self._of(ARTIFACT)), ("memories.jsonl", self._others())):
            with archive.entry(name) as write:
                for node in nodes:
                    self._unless_broken(node, lambda node: write(disclosure.item_line(node) + b"\n"))
                    self._told()
        with archive.listing("lineage.json") as add:
            for node in self._shown:
                disclosure.edges(node, add)
        with archive.listing("retention.json") as add:
            for node, leaving in self._found.met():
                if not leaving:
                    add(line(self._retention(node)))
        with archive.listing("held_back.json") as add:
            for one in self.held:
                add(line(one._asdict() | {"means": WHY[one.why]}))

    def counts(self) -> dict[str, int]:
        """How much of it is there, and is not."""
        sessions = sum(node.kind == SESSION for node in self._shown)
        return {"sessions": sessions, "items": len(self._shown) - sessions, "held_back": len(self.held)}

    def check_unchanged(self) -> None:
        """Refuse a file with something in it that was erased, or ran out, since.

        Raises:
            Conflict: it has.
        """
        if any(map(self._disclosure.why_not, self._shown)):
            raise Conflict(_CHANGED)

    def _of(self, kind: str) -> Sequence[Node]:
        return [node for node in self._shown if node.kind == kind]

    def _others(self) -> Sequence[Node]:
        return [node for node in self._shown if node.kind not in {SESSION, ARTIFACT}]

    def _unless_broken(self, node: Node, write: Callable[[Node], object]) -> None:
        """Write an item; one whose body turns out to be damaged is held back instead."""
        try:
            write(node)
        except BROKEN as error:
            self.held.append(HeldBack(name_of(node), node.kind, broken(error)))
            self._shown.remove(node)

    def _retention(self, node: Node) -> dict[str, Any]:
        """Why it is still there, and when it goes: as ``retention.explain`` says it."""
        tenant, now_us = self._grant.tenant, self._found.now_us
        with self._parts.log.records.snapshot() as reader:
            terms, times = terms_of(reader, tenant.tenant_id, node.id)
        decision = decide(terms, times, held=bool(node.held), now_us=now_us)
        return {
            "id": name_of(node),
            "text": explain(decision, terms, self._parts.policies.active(tenant), now_us),
            "state": decision.state,
            "created_at": iso(times.created_us),
            "expires_at": iso(decision.expires_us),
            "erased_from": iso(decision.delete_at_us),
            "holds": len(node.held),
        }

    def _told(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, len(self._shown))
