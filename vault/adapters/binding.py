"""The sessions of one principal under a framework's own ids.

Whose they are is bound when an adapter is made, by the access that it is given. What travels through the
framework, ids of threads and users among it, only ever chooses among that principal's own.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from vault.errors import Conflict, Erased, InvalidInput, NotFound, Tampered
from vault.model import NAME_LENGTH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vault.faces import Access
    from vault.model import SessionSummary
    from vault.sessions.session import Session

#: The first event of a session whose ids are too long for a name: which ids stand for it.
BOUND: Final = "session.bound"
LABEL: Final = "framework"
#: Sessions of one page while listing.
_PAGE: Final = 500


class Binding:
    """Finds and makes the sessions of one framework; safe to share between threads."""

    def __init__(self, access: Access, framework: str, *, reuse_erased: bool = False) -> None:
        """Bind a framework's ids to one principal.

        Args:
            access: from ``vault.access``: whose sessions they are.
            framework: its short name, kept as a label and within each id.
            reuse_erased: begin anew under an id whose session was erased; else a late writer is refused.
        """
        self.access, self.framework = access, framework
        self._reuse = reuse_erased

    def find(self, *ids: str) -> Session | None:
        """The session under these ids; None when nothing was ever written there.

        Raises:
            Erased: it was erased, and may not be begun anew.
            InvalidInput: an id is no text, or too long.
            Tampered: it was changed, removed or rolled back.
        """
        try:
            return self.access.sessions.resume_external(self._external(ids))
        except NotFound:
            return None
        except Erased:
            if self._reuse:
                return None
            raise

    def open(self, *ids: str, title: str | None = None, labels: Mapping[str, str] | None = None) -> Session:
        """The session under these ids, made when there is none yet; two processes get the same one.

        Raises:
            Erased: it was erased, and may not be begun anew.
            InvalidInput: an id is no text, or too long.
        """
        found = self.find(*ids)
        if found is not None:
            return found
        try:
            made = self.access.sessions.create(
                title=title,
                labels={**(labels or {}), LABEL: self.framework},
                external_id=self._external(ids),
                again=self._reuse,
            )
        except Conflict:
            found = self.find(*ids)  # another process made it first
            if found is None:
                raise
            return found
        if not self._external(ids).startswith("["):
            made.append(BOUND, {"framework": self.framework, "ids": list(ids)})
        return made

    def erase(self, *ids: str) -> bool:
        """Erase the session under these ids, with all that came from it; whether there was one.

        Raises:
            Conflict: a hold or a minimum keeps it, or another process has it erased.
        """
        try:
            found = self.access.sessions.resume_external(self._external(ids))
        except (NotFound, Erased):
            return False
        outcome = self.access.erasure.erase(session=found.id)
        kept = sum(count for (_, action), count in outcome.counts.items() if action in ("held", "minimum"))
        if kept:
            raise Conflict("a hold or a statutory minimum keeps this session; it is hidden until that ends")
        return True

    def listed(self, **labels: str) -> Iterator[tuple[tuple[str, ...], SessionSummary]]:
        """The ids and summaries of the principal's sessions of this framework, last used first.

        Raises:
            Tampered: a session was changed, removed or rolled back.
        """
        cursor: str | None = None
        while True:
            wanted = {**labels, LABEL: self.framework}
            page = self.access.sessions.find(labels=wanted, limit=_PAGE, cursor=cursor)
            for summary in page.items:
                ids = self._ids(summary)
                if ids is not None:
                    yield ids, summary
            cursor = page.next_cursor
            if cursor is None:
                return

    def _ids(self, summary: SessionSummary) -> tuple[str, ...] | None:
        """The ids that a session was made under; None while another process has not written them yet."""
        if summary.external_id and summary.external_id.startswith("["):
            said: Any = json.loads(summary.external_id)
            said = {"framework": said[0], "ids": said[1:]}
        else:
            try:
                session = self.access.sessions.resume(summary.id)
                first = next(session.events(types=[BOUND], limit=1), None)
            except NotFound:
                return None  # gone since it was listed
            if first is None:
                return None
            said = first.payload
        if said["framework"] != self.framework:
            raise Tampered("a session is labelled as another framework's")
        return tuple(said["ids"])

    def _external(self, ids: tuple[str, ...]) -> str:
        """One name for some ids, the same for no others; it is stored as a blind index and sealed."""
        for one in ids:
            if not isinstance(one, str):
                raise InvalidInput("an id of a session is text; give a str")
        try:
            name = json.dumps([self.framework, *ids], ensure_ascii=False, separators=(",", ":"))
            encoded = name.encode()
        except UnicodeEncodeError:
            raise InvalidInput("an id holds a lone surrogate, which is not Unicode text") from None
        if len(name) <= NAME_LENGTH_MAX:
            return name
        # No JSON array begins so, and whose hash it is cannot be made twice.
        return f"{self.framework}#sha256:{hashlib.sha256(encoded).hexdigest()}"
