"""Vectors of the items of a LangGraph store: of which texts, how they are kept, and how near they are."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Final, NamedTuple

from langgraph.store.base import IndexConfig, PutOp, ensure_embeddings, get_text_at_path, tokenize_path

from vault.errors import InvalidInput, Tampered

#: The whole value as one text.
_WHOLE: Final = "$"

Path = str | list[str]


class Embedded(NamedTuple):
    """The vectors of one batch: of its texts, and of its queries."""

    texts: Mapping[str, array[float]] = {}
    queries: Mapping[str, array[float]] = {}

    def __repr__(self) -> str:
        """Nothing that a user supplied."""
        return "Embedded()"

    def kept(self, texts: Iterable[str]) -> list[str]:
        """The vectors of some texts, as they are stored: base64 of 32-bit floats, low byte first."""
        return [base64.b64encode(_low_first(self.texts[text]).tobytes()).decode() for text in texts]


class Vectors:
    """What an index is configured to embed, and by what; a vector is kept at unit length."""

    def __init__(self, index: IndexConfig) -> None:
        """Take a configuration as every store of LangGraph does.

        Raises:
            InvalidInput: it has no number of dimensions.
            ValueError: it says nothing that embeds.
        """
        self._dims = index.get("dims")
        if isinstance(self._dims, bool) or not isinstance(self._dims, int) or self._dims < 1:
            raise InvalidInput("an index says how many dimensions its vectors have (dims)")
        self.embeddings = ensure_embeddings(index.get("embed"))
        self._paths = [_tokens(path) for path in index.get("fields") or [_WHOLE]]

    def texts(self, op: PutOp) -> list[str]:
        """The texts of an item that get a vector each: of the fields of the item, or else of the index."""
        if op.value is None or op.index is False:
            return []
        paths = self._paths if op.index is None else [_tokens(path) for path in op.index]
        found = [text for path in paths for text in get_text_at_path(op.value, path)]
        return [text for text in dict.fromkeys(found) if text]

    def of_all(self, ops: Iterable[PutOp]) -> list[str]:
        """The texts of several items."""
        return [text for op in ops for text in self.texts(op)]

    def embedded(self, texts: Iterable[str], queries: Iterable[str]) -> Embedded:
        """A vector of each text, and of each query.

        Raises:
            InvalidInput: what embeds gave something else.
        """
        documents, asked = list(dict.fromkeys(texts)), list(dict.fromkeys(queries))
        made = self.embeddings.embed_documents(documents) if documents else []
        return self._embedded(documents, made, asked, [self.embeddings.embed_query(one) for one in asked])

    async def aembedded(self, texts: Iterable[str], queries: Iterable[str]) -> Embedded:
        """As ``embedded``, by what embeds without blocking."""
        documents, asked = list(dict.fromkeys(texts)), list(dict.fromkeys(queries))
        made = await self.embeddings.aembed_documents(documents) if documents else []
        answered = [await self.embeddings.aembed_query(one) for one in asked]
        return self._embedded(documents, made, asked, answered)

    def _embedded(
        self,
        texts: Sequence[str],
        made: Sequence[Sequence[float]],
        queries: Sequence[str],
        answered: Sequence[Sequence[float]],
    ) -> Embedded:
        if len(made) != len(texts):
            raise InvalidInput("what embeds gave another number of vectors than it was given texts")
        return Embedded(
            dict(zip(texts, map(self._unit, made), strict=True)),
            dict(zip(queries, map(self._unit, answered), strict=True)),
        )

    def _unit(self, vector: Sequence[float]) -> array[float]:
        numbers = [float(number) for number in vector]
        if len(numbers) != self._dims or not all(map(math.isfinite, numbers)):
            raise InvalidInput("a vector has not the dimensions that the index says, or is not finite")
        length = math.hypot(*numbers) or 1.0  # of nothing but zeros: near to nothing
        return array("f", [number / length for number in numbers])


def _tokens(path: str) -> Path:
    return path if path == _WHOLE else tokenize_path(path)


def nearness(query: array[float], kept: Iterable[str]) -> float | None:
    """The cosine of a query with the nearest of an item's vectors; None when it has none of its size.

    Raises:
        Tampered: what is kept is no vector.
    """
    nearest = None
    for encoded in kept:
        vector = array("f")
        try:
            vector.frombytes(base64.b64decode(encoded, validate=True))
        except ValueError:
            raise Tampered("a stored embedding cannot be read") from None
        if len(vector) == len(query):
            near = sum(map(mul, query, _low_first(vector)))
            nearest = near if nearest is None or near > nearest else nearest
    return nearest


def _low_first(vector: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return vector
    turned = array("f", vector)
    turned.byteswap()
    return turned
