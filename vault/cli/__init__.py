"""The command line: ``session-vault``, also as ``python -m vault.cli``."""

from __future__ import annotations

from vault.cli.program import main

__all__ = ["main"]
