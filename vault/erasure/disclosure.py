"""What an export shows of a person's sessions and items, as their owner reads them; what it cannot show."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vault.clock import from_us
from vault.derived.item import ABSENT, ARTIFACT, RULES, item_name
from vault.derived.opening import Opener, expires_us, is_shown, open_body, open_stream
from vault.derived.sources import DERIVED, decode
from vault.encoding import json_bytes
from vault.erasure.fence import SESSION
from vault.errors import Erased, KeyUnavailable, NotFound, Tampered
from vault.model import format_id
from vault.policy import terms as retention
from vault.sessions import log as session_log
from vault.sessions.log import open_about
from vault.sessions.place import locate
from vault.sessions.read import Part, read, shared_of, verified_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.access.door import Grant
    from vault.derived.opening import Opened
    from vault.erasure.archive import Archive
    from vault.model import Event
    from vault.policy.lineage import Node
    from vault.sessions.log import Log

#: Why something of a person is not in the file: these words, and no others.
BEING_ERASED: Final = "being_erased"
RESTRICTED: Final = "restricted"
EXPIRED: Final = "expired"
SOURCE_UNAVAILABLE: Final = "source_unavailable"
KEY_UNAVAILABLE: Final = "key_unavailable"
DAMAGED: Final = "damaged"
OF_ANOTHER: Final = "of_another"
WHY: Final = {
    BEING_ERASED: "an erasure takes it at this moment",
    RESTRICTED: "its erasure was asked for; a hold or a statutory minimum keeps it, hidden from everybody",
    EXPIRED: "its time is over: it is hidden, and will be erased",
    SOURCE_UNAVAILABLE: "it opens only with what it was made from, which cannot be read now",
    KEY_UNAVAILABLE: "its key is missing or cannot be reached",
    DAMAGED: "what is stored is not what was written",
    OF_ANOTHER: "it is a part that a fork shares with a session of somebody else, whose it is",
}
#: What ends the reading of one thing, and of no other.
BROKEN: Final = (Tampered, KeyUnavailable)


class HeldBack(NamedTuple):
    """Something that is not in an export; ``why`` is one of ``WHY``. ``part``: the rest of it is."""

    id: str
    kind: str
    why: str
    part: bool = False


def name_of(node: Node) -> str:
    """The id of a session or item as people see it."""
    return format_id("ses", node.id) if node.kind == SESSION else item_name(node.kind, node.id)


def iso(us: int | None) -> str | None:
    """A time as ISO 8601 in UTC, always with microseconds."""
    if us is None:
        return None
    return from_us(us).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class Disclosure:
    """Reads what one person has, and writes it into an archive.

    Everything is verified as it is read. ``held`` lists what turned out not to be readable on the way.
    """

    def __init__(self, log: Log, grant: Grant) -> None:
        """Read by leave of the owner, or of who may export for them."""
        self._log, self._grant = log, grant
        self.held: list[HeldBack] = []

    def why_not(self, node: Node, *, leaving: bool = False) -> str | None:
        """Why a session or item cannot be shown; None for what can. ``leaving``: an erasure takes it now."""
        if leaving:
            return BEING_ERASED
        try:
            return self._session_hidden(node.id) if node.kind == SESSION else self._item_hidden(node.id)
        except Erased:
            return BEING_ERASED
        except BROKEN as error:
            return broken(error)

    def _session_hidden(self, session_id: bytes) -> str | None:
        try:
            with self._view(session_id):
                return None
        except NotFound:
            pass
        with self._log.records.snapshot() as reader:
            row = reader.session(session_id, self._grant.tenant.tenant_id, self._grant.owner)
        if row is None or row.state == "erasing":
            return BEING_ERASED
        if retention.decode(row.retention).requested_us:
            return RESTRICTED
        is_live = session_log.is_live(row, self._log.clock.now_us())
        return SOURCE_UNAVAILABLE if is_live else EXPIRED

    def _item_hidden(self, item_id: bytes) -> str | None:
        place = (item_id, self._grant.tenant.tenant_id, self._grant.owner)
        with self._log.records.snapshot() as reader:
            row = reader.items.by_id(*place)
            if row is None:
                return BEING_ERASED
            if row.state == "erasing":  # and no erasure is under way that takes it: a hold keeps it
                return RESTRICTED
            if not is_shown(row, self._log.clock.now_us()):
                return RESTRICTED if retention.decode(row.retention).requested_us else EXPIRED
            found = Opener(self._log, self._grant.tenant, self._grant.owner, reader).if_shown(row)
            return SOURCE_UNAVAILABLE if found is None else None

    # --------------------------------------------------------------------------------------------- sessions

    def session(self, archive: Archive, node: Node) -> None:
        """Write the events of a session, and its large payloads as files of their own.

        Raises:
            NotFound: it went meanwhile.
        """
        grant = self._grant.anew()
        large: list[Event] = []
        name = name_of(node)
        with verified_view(self._log, grant, node.id) as found:
            shared, head = shared_of(found), found.row.head_seq
            low = shared[-1][1] - 1 if found.gone else 0
        if low:
            self.held.append(HeldBack(name, SESSION, OF_ANOTHER, part=True))
        with archive.entry(f"sessions/{name}.jsonl") as write:
            try:
                for event in read(self._log, grant, node.id, Part(low=low, high=head + 1, shared=shared)):
                    write(_event_line(event))
                    if event.streamed:
                        large.append(event)
            except BROKEN as error:
                # Each page was verified before anything of it was written: what stands there is true.
                self.held.append(HeldBack(name, SESSION, broken(error), part=True))
        for event in large:
            if payload_file(event) not in archive.files:  # a fork shares its events with its original
                self._payload(archive, node.id, event)

    def _payload(self, archive: Archive, session_id: bytes, event: Event) -> None:
        try:
            with self._view(session_id) as found:
                holder, row = locate(found, event.id)
            with session_log.open_stream(self._log.blobs, holder.keys, row) as stream:
                archive.pour(payload_file(event), stream)
        except BROKEN as error:
            self.held.append(HeldBack(event.id, "payload", broken(error)))

    def session_lines(self, node: Node, add: Callable[[bytes], None]) -> None:
        """What is known of a session beside its events.

        Raises:
            NotFound: it went meanwhile.
        """
        with self._view(node.id) as found:
            row, about = found.row, open_about(found.keys, found.row)
        add(
            line(
                {
                    **about,
                    "id": name_of(node),
                    "state": row.state,
                    "created_at": iso(row.created_us),
                    "last_event_at": iso(row.updated_us),
                    "ended_at": iso(row.ended_us or None),
                    "event_count": row.head_seq,
                    "shared_through": row.base_seq,
                    "file": f"sessions/{name_of(node)}.jsonl",
                }
            )
        )

    # ------------------------------------------------------------------------------------------------ items

    def artifact(self, archive: Archive, node: Node) -> None:
        """Write the bytes of an artifact.

        Raises:
            NotFound: it went meanwhile.
        """
        with open_stream(self._log, self._opened(node)) as stream:
            archive.pour(artifact_file(node), stream)

    def item_line(self, node: Node) -> bytes:
        """What is known of an item, and its value; of an artifact the name of its file.

        Raises:
            NotFound: it went meanwhile.
        """
        found = self._opened(node)
        row, about = found.row, found.about
        sources = [one.shown() for one in decode(row.sources) if one.role == DERIVED]
        fields = {
            "id": name_of(node),
            "kind": row.kind,
            "namespace": about["namespace"],
            "key": about["key"],
            "version": row.version,
            "state": row.state,
            "created_at": iso(row.created_us),
            "expires_at": iso(expires_us(row)),
            "on_source_erased": RULES[row.hung],
            "labels": about["labels"],
            "reason": about.get("reason"),
            "sources": [{"kind": one.kind, "id": one.id, "session_id": one.session_id} for one in sources],
        }
        if row.kind == ARTIFACT:
            about_file = {
                "media_type": about.get("media_type"),
                "bytes": about["bytes"],
                "file": artifact_file(node),
            }
            return line(fields | about_file)
        return _joined(fields, "value", open_body(self._log, found))

    def edges(self, node: Node, add: Callable[[bytes], None]) -> None:
        """What a session or item came from.

        Raises:
            NotFound: it went meanwhile.
        """
        if node.kind == SESSION:
            with self._view(node.id) as found:
                row = found.row
            if row.forked_from is not None:
                at = {"id": name_of(node), "from": format_id("ses", row.forked_from), "how": "forked"}
                add(line(at | {"through": row.base_seq}))
            return
        for one in decode(self._opened(node).row.sources):
            shown = one.shown()
            how = "derived" if one.role == DERIVED else "cites"
            edge = {"id": name_of(node), "from": shown.id, "how": how, "session_id": shown.session_id}
            add(line(edge))

    def _view(self, session_id: bytes) -> Any:
        return verified_view(self._log, self._grant.anew(), session_id)

    def _opened(self, node: Node) -> Opened:
        place = (node.id, self._grant.tenant.tenant_id, self._grant.owner)
        with self._log.records.snapshot() as reader:
            row = reader.items.by_id(*place)
            if row is None:
                raise NotFound(ABSENT)
            return Opener(self._log, self._grant.tenant, self._grant.owner, reader).opened(row)


def payload_file(event: Event) -> str:
    """Where the payload of an event stands that is too large for its line."""
    return f"payloads/{event.id}"


def artifact_file(node: Node) -> str:
    """Where the bytes of an artifact stand."""
    return f"artifacts/{name_of(node)}"


def broken(error: Tampered | KeyUnavailable) -> str:
    """The word for what could not be read."""
    return DAMAGED if isinstance(error, Tampered) else KEY_UNAVAILABLE


def _event_line(event: Event) -> bytes:
    fields = {
        "id": event.id,
        "seq": event.seq,
        "type": event.type,
        "recorded_at": iso(event.recorded_us),
        "run": event.run,
        "tool": event.tool,
        "caused_by": event.caused_by,
        "occurred_at": iso(event.occurred_us),
        "observed_at": iso(event.observed_us),
        "valid_for_us": event.valid_for_us,
        "resource": event.resource,
        "usage": event.usage,
        "level": event.level,
        "erased": event.erased or None,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if event.streamed:
        return line(fields | {"file": payload_file(event)}) + b"\n"
    if event.raw is not None:
        return line(fields | _raw(event.raw)) + b"\n"
    return _joined(fields, "payload", json_bytes(event.payload)) + b"\n"


def _raw(raw: bytes) -> dict[str, str]:
    """A small payload of bytes: as text when it is UTF-8, else in base64."""
    try:
        return {"raw": raw.decode()}
    except UnicodeDecodeError:
        return {"raw_base64": base64.b64encode(raw).decode("ascii")}


def _joined(fields: dict[str, Any], name: str, value: bytes) -> bytes:
    """Fields and one more, as bytes: a value as deep as JSON may be is too deep one level further in."""
    return _one_line(json_bytes(fields)[:-1] + b',"' + name.encode() + b'":' + value + b"}")


def line(fields: dict[str, Any]) -> bytes:
    """A JSON object that every reader takes for one line."""
    return _one_line(json_bytes(fields))


def _one_line(encoded: bytes) -> bytes:
    r"""Write U+0085, U+2028 and U+2029, which can stand in strings only, as ``\uXXXX``."""
    encoded = encoded.replace(b"\xc2\x85", b"\\u0085")
    return encoded.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
