"""Telling what stands outside of the vault to erase too, until each has done it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from vault.errors import InvalidInput, StorageUnavailable
from vault.ports.outbox import Probed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vault.ports.outbox import Target

#: As many as a receipt has room for.
TARGETS_MAX: Final = 100
_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
#: What an operation keeps of a target: not reached yet; reached, and it still holds something; it did it; and
#: it was asked whether it did.
WAITING: Final = "waiting"
FAILED: Final = "failed"
DONE: Final = "done"
PROBED: Final = "probed"
#: Of these nothing is asked any more.
ENDED: Final = frozenset({DONE, PROBED})


class Outbox:
    """The targets that this process can reach, and the names of those that every erasure has to reach."""

    def __init__(self, required: Iterable[str] = ()) -> None:
        """Ask for these whether they are registered or not: until they are, no erasure comes to its end."""
        self._required = tuple(required)
        self._targets: dict[str, Target] = {}
        _check(self._required)

    def register(self, *targets: Target) -> None:
        """Tell these of every erasure from now on; one of the same name is replaced.

        Raises:
            InvalidInput: a name is none, or there are too many.
        """
        _check([target.name for target in targets])
        self._targets |= {target.name: target for target in targets}
        _check(self.waiting())

    def waiting(self) -> dict[str, str]:
        """What an erasure that begins keeps of each target."""
        return dict.fromkeys(sorted({*self._required, *self._targets}), WAITING)

    def told(self, before: Mapping[str, str], ids: Sequence[str], idempotency_key: str) -> dict[str, Any]:
        """Tell those that have not done it; how each stands then."""
        return {
            name: state if state in ENDED else self._tell(self._targets.get(name), ids, idempotency_key)
            for name, state in sorted({**self.waiting(), **before}.items())
        }

    @staticmethod
    def _tell(target: Target | None, ids: Sequence[str], idempotency_key: str) -> str:
        if target is None:
            return WAITING  # a process that can reach it goes on
        try:
            target.erase(ids, idempotency_key)
            if not isinstance(target, Probed):
                return DONE
            return FAILED if target.holds(ids) else PROBED
        except (StorageUnavailable, OSError):
            return WAITING


def _check(names: Iterable[str]) -> None:
    known = list(names)
    if len(known) > TARGETS_MAX or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in known):
        raise InvalidInput(
            f"at most {TARGETS_MAX} external targets, each named by up to 64 letters, digits, . - and _"
        )
