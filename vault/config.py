"""Settings of a vault: `vault.toml`, written by init with a comment on each, read and checked on open."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vault.errors import InvalidInput, NotFound, StorageUnavailable
from vault.policy.freshness import Thresholds
from vault.policy.recovery import EVENTS_SINCE_MAX, SECONDS_SINCE_MAX, Trigger

FILE: Final = "vault.toml"
_EVERY_MAX: Final = 1_000_000


class Settings(BaseModel):
    """What can be set; each with its unit, limits and default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: Literal[1] = 1
    vault_id: str = Field(default="", pattern=r"^([0-9a-f]{32})?$")
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    lock_seconds: float = Field(default=30.0, gt=0, le=3600)
    ledger: str = "ledger"
    ledger_every: int | Literal["every_commit"] = Field(default=1000)
    anchor: str = ""
    compress: bool = True
    pad: bool = True
    checkpoint_after_tool: bool = True
    checkpoint_events: int = Field(default=50, ge=0, le=EVENTS_SINCE_MAX)
    checkpoint_seconds: float = Field(default=300.0, ge=0, le=SECONDS_SINCE_MAX)
    stale_after_seconds: float = Field(default=3_600.0, gt=0)
    reread_after_seconds: float = Field(default=86_400.0, gt=0)
    restart_after_seconds: float = Field(default=2_592_000.0, gt=0)

    pseudonym_epoch: int = Field(default=0, ge=0, le=2**31)
    break_glass_second_person: bool = False

    def trigger(self) -> Trigger:
        """When a run writes a checkpoint by itself."""
        return Trigger(
            after_tool=self.checkpoint_after_tool,
            every_events=self.checkpoint_events or None,
            every_seconds=self.checkpoint_seconds or None,
        )

    def thresholds(self) -> Thresholds:
        """When what a session observed counts as old.

        Raises:
            InvalidInput: rereading would come after restarting, or a number is out of range.
        """
        return Thresholds(
            stale_after_seconds=self.stale_after_seconds,
            reread_after_seconds=self.reread_after_seconds,
            restart_after_seconds=self.restart_after_seconds,
        )

    def every(self) -> int:
        """Events between two ledger entries."""
        return 1 if self.ledger_every == "every_commit" else self.ledger_every


_TEMPLATE: Final = """# Settings of this vault; docs/reference/settings.md explains each.
version = 1
vault_id = "{vault_id}"

# FULL: an acknowledged append survives power loss. NORMAL: it survives a crash of the program, and the last
# commits may be lost with the power.
synchronous = "{synchronous}"

# How long a writer waits for its turn before it says Busy, in seconds.
lock_seconds = {lock_seconds}

# Where signed checkpoints go: a directory, better on another disk. Relative to this file.
ledger = {ledger}

# A checkpoint every so many events, or "every_commit". What happens between two checkpoints can be rolled
# back unseen by somebody who writes to the disk.
ledger_every = {ledger_every}

# A further directory for copies of the newest checkpoints, besides this machine's state directory.
anchor = {anchor}

# zstd before encryption, and padding that hides lengths (about 2.5 %).
compress = {compress}
pad = {pad}

# A run writes a checkpoint by itself: after a tool answered, every so many events, every so many seconds
# (0: not for that reason).
checkpoint_after_tool = {checkpoint_after_tool}
checkpoint_events = {checkpoint_events}
checkpoint_seconds = {checkpoint_seconds}

# What a session observed is stale after so long, unless it said how long it holds; unused for so long, the
# advice is to read again, or to start anew with a summary. In seconds.
stale_after_seconds = {stale_after_seconds}
reread_after_seconds = {reread_after_seconds}
restart_after_seconds = {restart_after_seconds}

# Pseudonyms in views: a higher number gives new ones, unlinkable to the old.
pseudonym_epoch = {pseudonym_epoch}

# Whether somebody else has to approve a break-glass access.
break_glass_second_person = {break_glass_second_person}
"""


def write(directory: Path, settings: Settings) -> None:
    """Write the settings file of a new vault."""

    def quoted(value: str) -> str:
        return json.dumps(value)  # its escapes are among TOML's

    every = settings.ledger_every
    values = settings.model_dump()
    values |= {name: str(value).lower() for name, value in values.items() if isinstance(value, bool)}
    values |= {"ledger": quoted(settings.ledger), "anchor": quoted(settings.anchor)}
    values["ledger_every"] = every if isinstance(every, int) else quoted(every)
    content = _TEMPLATE.format(**values)
    try:
        descriptor = os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        raise StorageUnavailable("the vault's directory cannot be written; check its permissions") from None


def read(directory: Path) -> Settings:
    """The settings of an existing vault.

    Raises:
        NotFound: there is no vault in this directory.
        InvalidInput: the file is not TOML, or a setting is unknown or out of range; says which.
    """
    try:
        values = tomllib.loads((directory / FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound("there is no vault in this directory; make one with session-vault init") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        line = f" (line {error.lineno})" if hasattr(error, "lineno") else ""
        raise InvalidInput(f"vault.toml is not valid TOML{line}; correct it or restore it") from None
    except OSError:
        raise StorageUnavailable("vault.toml cannot be read; check the directory's permissions") from None
    return checked(values)


def checked(values: dict[str, Any]) -> Settings:
    """Settings from values.

    Raises:
        InvalidInput: a setting is unknown or out of range; says which.
    """
    try:
        settings = Settings.model_validate(values)
        settings.thresholds()
        if isinstance(settings.ledger_every, int) and not 1 <= settings.ledger_every <= _EVERY_MAX:
            raise InvalidInput(f'the setting ledger_every is 1 to {_EVERY_MAX}, or "every_commit"')
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"] if not str(part).startswith("literal"))
        raise InvalidInput(f"the setting {name} is wrong: {first['msg'].lower()}") from None
    return settings


def state_directory(vault_id: str) -> Path:
    """Where this machine remembers a vault's newest checkpoints (XDG Base Directory: ``XDG_STATE_HOME``)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "agent-session-vault" / vault_id
