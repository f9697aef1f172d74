"""Erasures under way and the receipts of finished ones, as stored rows."""

from __future__ import annotations

from typing import NamedTuple


class OperationRow(NamedTuple):
    """One erasure; ``plan`` is sealed, and empty once it is done. Everything is under ``mac``."""

    no: int
    operation_id: bytes
    tenant_id: bytes
    state: str
    opened_us: int
    plan: bytes
    mac: bytes


class ReceiptRow(NamedTuple):
    """A signed receipt as it was handed out; ``number`` counts those of a tenant from 1."""

    operation_id: bytes
    number: int
    tenant_id: bytes
    content: bytes


class SweeperRow(NamedTuple):
    """Which process sweeps, under which fencing token and until when, and the latest time that was seen."""

    name: str
    fence: int
    until_us: int
    high_us: int
    ticked_us: int
    mac: bytes
