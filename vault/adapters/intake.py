"""Taking events in: lines in pieces, batches, and what was wrong with them."""

from __future__ import annotations

import binascii
import io
from typing import Any, BinaryIO, Final, TypeGuard

from vault.adapters import LineProblem, Session
from vault.errors import Conflict, InvalidInput, LineRefused
from vault.model import Event, NewEvent

#: One transaction of an import: enough events to share the cost of a commit, few enough to hold in memory.
BATCH_EVENTS_MAX: Final = 200
BATCH_BYTES_MAX: Final = 8 * 2**20
#: Problems that a report lists one by one; ``problems_total`` counts every one.
PROBLEMS_LISTED_MAX: Final = 1_000
_PIECE_BYTES: Final = 2**18


class Problems:
    """Collects what was wrong, in order, the first ``PROBLEMS_LISTED_MAX`` in detail."""

    def __init__(self) -> None:
        self.total = 0
        self._listed: list[LineProblem] = []

    @property
    def listed(self) -> tuple[LineProblem, ...]:
        """The first ones."""
        return tuple(self._listed)

    def add(self, line: int, reason: str, file: str | None = None) -> None:
        """Note one."""
        self.total += 1
        if len(self._listed) < PROBLEMS_LISTED_MAX:
            self._listed.append(LineProblem(line=line, reason=reason, file=file))

    def refuse_any(self) -> None:
        """End a strict import before it has begun.

        Raises:
            InvalidInput: there is a problem; the message counts them and names the first line.
        """
        if self.total:
            first = self._listed[0]
            where = f"line {first.line}" if first.file is None else f"line {first.line} of one of its files"
            raise InvalidInput(
                f"nothing was imported: {self.total} damaged line(s), the first is {where}: {first.reason}"
            )


class Intake:
    """Appends events to a session in their order, batch by batch.

    An event that is there already, under its id and with its content, is not counted again. With ``alone``
    every batch states the head that it expects, so nobody's event can come between. With ``problems`` an
    event that the core refuses is noted there and costs no other; without, the refusal ends the import.
    """

    def __init__(self, session: Session, *, problems: Problems | None = None, alone: bool = False) -> None:
        self.session = session
        self.appended = 0
        self._problems = problems
        self._alone = alone
        self._last = 0
        self._batch: list[tuple[int, NewEvent]] = []
        self._batch_bytes = 0

    def add(self, event: NewEvent, *, line: int, size: int) -> bool:
        """Take one event of ``size`` bytes from ``line``; True when this completed a batch.

        A streamed one is a batch of its own: it is read now, and can be read once only.
        """
        streamed = is_stream(event.raw)
        full = bool(self._batch) and (streamed or self._batch_bytes + size > BATCH_BYTES_MAX)
        if full:
            self.flush()
        self._batch.append((line, event))
        self._batch_bytes += size
        if streamed or len(self._batch) >= BATCH_EVENTS_MAX:
            self.flush()
            full = True
        return full

    def flush(self) -> None:
        """Append what is waiting.

        Raises:
            InvalidInput: an event was refused, and there is nowhere to note it.
            Conflict: the same, or somebody else wrote into a session that is filled alone.
        """
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        head = self._last if self._alone else None
        try:
            events = self.session.append_many([event for _, event in batch], expect_head=head)
        except (InvalidInput, Conflict) as refusal:
            if self._problems is None:
                raise
            if len(batch) == 1:
                self._problems.add(batch[0][0], str(refusal))  # the core's messages hold nothing of a user's
                return
            # A batch is all or nothing: the same events one by one find the one that is refused.
            for item in batch:
                self._batch = [item]
                self.flush()
        else:
            self._note_appended(events)

    def _note_appended(self, events: list[Event]) -> None:
        for event in events:
            # An event that was there already is given back as it is: it was not appended again.
            if event.seq > self._last:
                self.appended += 1
                self._last = event.seq


class Lines:
    r"""The lines of a source, one at a time, in pieces; only ``\n`` ends a line."""

    def __init__(self, source: BinaryIO, head_bytes: int) -> None:
        self.number = 0
        self.bytes = 0
        self.size = 0
        self.more = False
        self._source = source
        self._head_bytes = head_bytes

    def head(self) -> bytes | None:
        """The next line, or its first ``head_bytes`` when it has ``more``; None at the end of the source.

        ``size`` counts the bytes of the line so far, ``number`` the lines, ``bytes`` all bytes.
        """
        while self.more:
            self.piece(self._head_bytes)
        self.more, self.size = True, 0
        piece = self.piece(self._head_bytes)
        self.number += bool(piece)
        return piece or None

    def piece(self, size: int) -> bytes:
        """At most ``size`` bytes more of the current line; empty when it is over."""
        if not self.more:
            return b""
        piece = self._source.readline(size)
        self.bytes += len(piece)
        self.size += len(piece)
        self.more = len(piece) == size and not piece.endswith(b"\n")
        return piece

    def whole(self, head: bytes, line_bytes_max: int) -> bytes:
        """The current line from its head on.

        Raises:
            LineRefused: longer than ``line_bytes_max``.
        """
        parts = [head]
        while piece := self.piece(self._head_bytes):
            if self.size > line_bytes_max:
                raise LineRefused(f"a line of more than {line_bytes_max} bytes")
            parts.append(piece)
        return b"".join(parts)


class Base64Tail(io.RawIOBase):
    """The raw payload at the end of the current line, decoded as it is read."""

    def __init__(self, lines: Lines, begun: bytes) -> None:
        super().__init__()
        self._lines = lines
        self._encoded = begun
        self._decoded = memoryview(b"")
        self._open = True

    def readable(self) -> bool:
        """It can be read, once."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer.

        Raises:
            LineRefused: the text is not base64, or the line does not end as it should.
        """
        while self._open and not self._decoded:
            self._decode_more()
        size = min(len(buffer), len(self._decoded))
        buffer[:size] = self._decoded[:size]
        self._decoded = self._decoded[size:]
        return size

    def _decode_more(self) -> None:
        if b'"' not in self._encoded:
            piece = self._lines.piece(_PIECE_BYTES)
            if not piece:
                raise LineRefused("not JSON")
            self._encoded += piece
        text, quote, rest = self._encoded.partition(b'"')
        whole = len(text) if quote else len(text) // 4 * 4
        try:
            self._decoded = memoryview(binascii.a2b_base64(text[:whole], strict_mode=True))
        except binascii.Error:
            raise LineRefused("raw_base64 is not base64") from None
        self._encoded = text[whole:]
        padded = text[:whole].endswith(b"=")
        if quote:
            self._open = False
            if (rest + self._lines.piece(_PIECE_BYTES)).strip() != b"}":
                raise LineRefused("not JSON")
        elif padded:
            raise LineRefused("raw_base64 is not base64")


def is_stream(raw: bytes | BinaryIO | None) -> TypeGuard[BinaryIO]:
    """Whether a raw payload is still to be read."""
    return raw is not None and not isinstance(raw, bytes)
