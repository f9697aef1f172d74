"""An example of an external target: a small index of vectors in a directory, searched by cosine.

It holds embeddings that a product pushes to it beside the vault, by the id of what each stands for, and
erases them when the vault says so. It is for some thousands of vectors: each search reads all.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vault.errors import Erased, InvalidInput
from vault.model import parse_id
from vault.storage.files import make_private, refuse, sync_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIXES: Final = ("ses", "mem", "art")
_GONE: Final = "erased"


class VectorIndex:
    """One file of JSON for each vector; and an empty one for each id that was erased, so none comes back."""

    def __init__(self, root: str | Path, name: str = "vectors") -> None:
        """Use a directory, made when absent.

        Raises:
            StorageUnavailable: it cannot be made.
        """
        self._root, self.name = Path(root), name
        make_private(self._root)
        make_private(self._root / _GONE)

    def put(self, item_id: str, vector: Sequence[float]) -> None:
        """Keep the vector of an item, in place of the one before.

        Raises:
            Erased: the item was erased; it is not taken again.
            InvalidInput: not an id, or not a vector.
            StorageUnavailable: the directory did not take it.
        """
        file = self._file(item_id)
        if not vector or not all(math.isfinite(number) for number in vector) or not any(vector):
            raise InvalidInput("a vector is a list of finite numbers, not all of them zero")
        if self._tombstone(item_id).exists():
            raise Erased("this item was erased, so its vector is not kept")
        try:
            descriptor, partial = tempfile.mkstemp(prefix=".partial-", dir=self._root)
            with os.fdopen(descriptor, "w", encoding="ascii") as out:
                json.dump([float(number) for number in vector], out)
            Path(partial).replace(file)
        except OSError as error:
            refuse(error)
        if self._tombstone(item_id).exists():  # erased at that moment
            file.unlink(missing_ok=True)
            raise Erased("this item was erased, so its vector is not kept")

    def search(self, vector: Sequence[float], limit: int = 10) -> list[tuple[str, float]]:
        """The ids whose vectors are nearest, each with the cosine, the nearest first."""
        found = []
        for file in self._root.glob("*_*"):
            known = json.loads(file.read_text(encoding="ascii"))
            if len(known) == len(vector):
                found.append((file.name, _cosine(vector, known)))
        return sorted(found, key=lambda one: -one[1])[:limit]

    def erase(self, ids: Sequence[str], idempotency_key: str) -> None:  # noqa: ARG002 - done twice, it is done
        """Forget these for good.

        Raises:
            StorageUnavailable: the directory did not do it.
        """
        try:
            for item_id in ids:
                self._tombstone(item_id).touch(mode=0o600)
            sync_directory(self._root / _GONE)  # before they go: from here on none of them comes back
            for item_id in ids:
                self._file(item_id).unlink(missing_ok=True)
            sync_directory(self._root)
        except OSError as error:
            refuse(error)

    def holds(self, ids: Sequence[str]) -> list[str]:
        """Those of the ids that there is a vector of."""
        return [item_id for item_id in ids if self._file(item_id).exists()]

    def _file(self, item_id: str) -> Path:
        if not any(parse_id(prefix, item_id) for prefix in _PREFIXES):
            raise InvalidInput("a vector is kept by the id of a session, memory or artifact")
        return self._root / item_id

    def _tombstone(self, item_id: str) -> Path:
        return self._root / _GONE / self._file(item_id).name


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))
