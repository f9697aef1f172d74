"""A batch of operations on a LangGraph store, all of it checked before any of it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

from vault.adapters import langgraph_store_filter as filters
from vault.adapters.langgraph_store_items import ITEMS, place
from vault.derived.item import VALUE_BYTES_MAX
from vault.encoding import json_bytes
from vault.errors import InvalidInput, LimitExceeded

#: One item as JSON: it stands in one memory, with a few words about it.
ITEM_BYTES_MAX: Final = VALUE_BYTES_MAX - 1_024
#: A hundred years.
TTL_MINUTES_MAX: Final = 100 * 366 * 24 * 60

Read = GetOp | SearchOp | ListNamespacesOp


class Batch:
    """Reads by their place among the operations, and of the puts of an item the last."""

    def __init__(self, ops: Iterable[Op]) -> None:
        """Take operations.

        Raises:
            InvalidInput: one of them cannot be carried out as it is.
            InvalidNamespaceError: one names a namespace that no item can have.
        """
        self.reads: dict[int, Read] = {}
        self.puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        self.size = 0
        for op in ops:
            _check_labels(op)
            if isinstance(op, PutOp):
                _check_put(op)
                self.puts[tuple(op.namespace), op.key] = op
            elif isinstance(op, GetOp | SearchOp | ListNamespacesOp):
                _check_read(op)
                self.reads[self.size] = op
            else:
                raise InvalidInput("an operation on a store is a get, search, put or listing of namespaces")
            self.size += 1

    def queries(self) -> list[str]:
        """What is asked for in words."""
        return [op.query for op in self.reads.values() if isinstance(op, SearchOp) and op.query]


def _check_labels(op: Op) -> None:
    try:
        validate_op_namespace(op)
    except InvalidNamespaceError:  # its own words quote the name
        raise InvalidNamespaceError(
            "a name of a namespace is text, neither empty nor with a period or a NUL in it"
        ) from None


def _check_put(op: PutOp) -> None:
    place(ITEMS, op.namespace, op.key)
    if not op.namespace:
        raise InvalidNamespaceError("an item needs a namespace: a tuple of at least one name")
    if op.value is None:
        return
    if not isinstance(op.value, Mapping):
        raise InvalidInput("the value of an item is a dict; None deletes it")
    if len(json_bytes([*op.namespace, op.key, dict(op.value)])) > ITEM_BYTES_MAX:
        raise LimitExceeded(f"an item is at most {ITEM_BYTES_MAX} bytes of JSON, its names included")
    if op.ttl is not None and (isinstance(op.ttl, bool) or not 0 < op.ttl <= TTL_MINUTES_MAX):
        raise InvalidInput("ttl is a number of minutes above zero, up to 100 years")


def _check_read(op: Read) -> None:
    if isinstance(op, GetOp):
        place(ITEMS, op.namespace, op.key)
        return
    if op.limit < 0 or op.offset < 0:
        raise InvalidInput("limit and offset are whole numbers from zero up")
    if isinstance(op, SearchOp):
        filters.checked(op.filter)
    else:
        filters.check_conditions(op.match_conditions or ())
        if op.max_depth is not None and op.max_depth < 1:
            raise InvalidInput("max_depth is a whole number from one up")
