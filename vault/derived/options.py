"""What happens to an item when a source goes: as its writer chose, and as carefully as its policy says.

What a policy says of a session holds for all that was made from it, also through other items: each item keeps
what its sources said, sealed beside its body, for whatever is made from it in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from vault.derived.item import DETACHED_KINDS, HUNG, RULES
from vault.errors import InvalidInput
from vault.policy.rules import DERIVED_OPTIONS
from vault.policy.terms import decode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault.derived.opening import Opened

#: Where an item keeps what its sources said.
SAID: Final = "said"
#: The most careful first: what goes with any source, then less and less.
_CAREFUL: Final = {option: place for place, option in enumerate(DERIVED_OPTIONS)}
_STRICTEST: Final = DERIVED_OPTIONS[0]


class Voice(NamedTuple):
    """What one source says of what is made from it: words by kind, and how it goes itself (an item only)."""

    words: Mapping[str, str]
    own: str | None = None


def of_session(retention: bytes) -> Voice:
    """What a session says, of the terms in its verified row."""
    return Voice(decode(retention).words())


def of_item(found: Opened) -> Voice:
    """What a derived item says: what its own terms do, and what those say that it came from."""
    inherited: dict[str, str] = found.about.get(SAID, {})
    return Voice(_strictest((decode(found.row.retention).words(), inherited)), RULES[found.row.hung])


def kept(voices: Iterable[Voice]) -> dict[str, dict[str, str]]:
    """What an item keeps of its sources' words, where there are any: by kind, the most careful one."""
    words = _strictest(voice.words for voice in voices)
    return {SAID: words} if words else {}


def hung_by(asked: str | None, kind: str, reason: str | None, voices: Iterable[Voice]) -> str:
    """How an item hangs, by what its writer asked for and its sources say.

    Args:
        asked: what its writer chose, checked; None: nothing.
        kind: the item's.
        reason: why nothing of its sources is in it; without one it is not detached.
        voices: its sources'.

    Raises:
        InvalidInput: the writer chose less than the policy asks for.
    """
    voices = list(voices)
    floor = kept(voices).get(SAID, {}).get(kind)
    if asked is not None:
        if floor is not None and _CAREFUL[asked] > _CAREFUL[floor]:
            raise InvalidInput(
                f"the policy of its sources says {floor} for this kind, and what was chosen keeps more: "
                "leave on_source_erased out, or choose a more careful one"
            )
        return HUNG[asked]
    if floor is None:
        return HUNG[_STRICTEST]
    option = min((_of(voice, kind) for voice in voices), key=_CAREFUL.__getitem__)
    if option == "detach" and (reason is None or kind not in DETACHED_KINDS):
        option = "erase_with_last"
    return HUNG[option]


def _of(voice: Voice, kind: str) -> str:
    """What one source says of a kind; one that says nothing takes it along, an item as it goes itself."""
    options = [option for option in (voice.words.get(kind), voice.own) if option is not None]
    return min(options, key=_CAREFUL.__getitem__, default=_STRICTEST)


def _strictest(words: Iterable[Mapping[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for some in words:
        for kind, option in some.items():
            found[kind] = min(found.get(kind, option), option, key=_CAREFUL.__getitem__)
    return found
