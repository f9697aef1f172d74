"""What others than the owner see of an event: the one place where a grant's level becomes a view."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from vault import data
from vault.model import LEVELS, Event, EventId, SessionId, format_id
from vault.redaction.pseudonyms import Pseudonyms
from vault.sessions.learning import Words
from vault.sessions.seams import Seams

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.access.door import Grant
    from vault.policy.places import Rules
    from vault.sealing.kept import Withdrawn
    from vault.sessions.log import Log

    Find = Callable[[str], Any]

ABOUT: Final = "session.about"
#: Types that the vault's own code writes whole; any other may be one of several parts of a streamed text.
_WHOLE: Final = ("checkpoint.", "config.", "context.", "effect.", "run.", "session.", "state.")


def shipped_rules() -> Rules:
    """The field rules that come with the vault (``policies/redaction.toml``)."""
    # Here and below: whoever makes no views, as an owner's agent, need not load the detectors (0.2 s).
    from vault.policy.places import Rules  # noqa: PLC0415
    from vault.policy.redaction import read_document  # noqa: PLC0415

    file = data.policies() / "redaction.toml"
    return Rules(read_document(file.read_text(encoding="utf-8"), file=file.name).rules)


class Viewer:
    """Makes views, with the words of each session: what its records name is found again in its free text."""

    def __init__(
        self,
        rules: Callable[[], Rules],
        log: Callable[[], Log],
        pseudonym_epoch: int,
        added: Callable[[Find], Find] | None = None,
    ) -> None:
        """Use field rules, the log to learn from, the epoch of the pseudonyms, and one more detector.

        ``added``: makes a finder of the vault's own one that marks more, as ``redaction.presidio.added``.
        """
        self._made, self._log, self._epoch = rules, log, pseudonym_epoch
        self._rules: Rules | None = None
        self._words, self._seams = Words(log, added), Seams()
        self._lock, self._watches = threading.Lock(), False

    def __call__(self, grant: Grant, session_id: bytes, event: Event) -> Event:
        """The event as a grant's level shows it; never above the level it was stored at."""
        from vault.redaction.view import view_event  # noqa: PLC0415

        with self._lock:
            rules = self._rules = self._rules or self._made()
        names = self.pseudonyms(grant)
        self._watch()
        learning = grant.masking()
        find = self._words.finder(learning, session_id)
        level = min(grant.level, event.level) if event.level in LEVELS else "L0"
        if level != "L0" and event.type != ABOUT and not event.type.startswith(_WHOLE):
            rule = rules.for_type(event.type).start.below("payload")
            event = self._seams.closed(self._log(), learning, session_id, event, find, level, rule)
        shown = view_event(event, level=grant.level, rules=rules, finder=find, pseudonym=names.of)
        if not shown.streamed:
            return shown
        # A view has no streams, so that a reader need not try: its size is all there is.
        return shown._replace(payload={"bytes": 1 << (event.size - 1).bit_length()}, streamed=False)

    def about(self, grant: Grant, session_id: bytes, about: dict[str, Any]) -> dict[str, Any]:
        """Title, labels and the like of a session as a grant's level shows them."""
        of = SessionId(format_id("ses", session_id))
        nothing = (None,) * 6
        event = Event(EventId(""), of, 0, ABOUT, 0, *nothing, "L3", about, None, "", 0, streamed=False)
        shown = self(grant, session_id, event).payload
        return shown if isinstance(shown, dict) else {}

    def pseudonyms(self, grant: Grant) -> Pseudonyms:
        """The pseudonyms of a grant's tenant in views."""
        return Pseudonyms(grant.tenant.pseudonym_key("view", self._epoch))

    def candidates(self, grant: Grant, session_id: bytes) -> list[tuple[str, str]]:
        """Kinds and values that a session names in its records, to find one behind a pseudonym."""
        self._watch()
        return self._words.terms(grant.masking(), session_id)

    def _watch(self) -> None:
        with self._lock:
            watches, self._watches = self._watches, True
        if not watches:
            self._log().keys.kept.watch(self._withdrawn)

    def _withdrawn(self, gone: Withdrawn) -> None:
        """Drop what is held of sessions that lost a key: by whatever process, so its text must not stay."""
        self._words.forget(gone)
        self._seams.forget()
