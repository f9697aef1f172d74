"""Settings of a vault: `vault.toml`, written by init with a comment on each, read and checked on open."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vault import data
from vault.erasure.policies import SECOND_PERSON_ABOVE
from vault.errors import InvalidInput, NotFound, StorageUnavailable
from vault.policy.durations import Duration, may_exceed, parse_duration
from vault.policy.freshness import Thresholds
from vault.policy.levels import Levels, read_levels
from vault.policy.recovery import EVENTS_SINCE_MAX, SECONDS_SINCE_MAX, Trigger
from vault.policy.terms import Bounds

FILE: Final = "vault.toml"
_EVERY_MAX: Final = 1_000_000
#: Texts, of any characters.
_QUOTED: Final = ("ledger", "anchor", "levels", "retention_floor", "retention_ceiling")


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

    levels: str = ""
    pseudonym_epoch: int = Field(default=0, ge=0, le=2**31)
    break_glass_second_person: bool = False
    audit_reads: Literal["others", "all"] = "others"
    view_extra_detector: Literal["", "presidio"] = ""

    retention_floor: str = ""
    retention_ceiling: str = ""
    retention_second_person_above: int = Field(default=SECOND_PERSON_ABOVE, ge=0, le=1_000_000)
    barrier_days: int = Field(default=0, ge=0, le=36_500)
    external_targets: str = Field(default="", pattern=r"^[\w. -]*$")

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

    def bounds(self) -> Bounds:
        """What the vault allows a retention policy.

        Raises:
            InvalidInput: one of them is no period, or they contradict each other.
        """
        floor, ceiling = (
            _period(name, value) if value else None
            for name, value in (
                ("retention_floor", self.retention_floor),
                ("retention_ceiling", self.retention_ceiling),
            )
        )
        if floor is not None and ceiling is not None and may_exceed(floor, ceiling):
            raise InvalidInput("the setting retention_floor can be longer than retention_ceiling")
        return Bounds(floor=floor, ceiling=ceiling)

    def targets(self) -> list[str]:
        """The names of what stands outside of the vault and has to erase too."""
        return self.external_targets.split()

    def every(self) -> int:
        """Events between two ledger entries."""
        return 1 if self.ledger_every == "every_commit" else self.ledger_every


def _period(name: str, text: str) -> Duration:
    try:
        found = parse_duration(text)
    except InvalidInput as refusal:
        raise InvalidInput(f"the setting {name} is wrong: {refusal}") from None
    if found is None:
        raise InvalidInput(f"the setting {name} is a period, or empty for none")
    return found


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

# A document of your own with the highest level at which events of a type are stored, relative to this file.
levels = {levels}

# Pseudonyms in views: a higher number gives new ones, unlinkable to the old.
pseudonym_epoch = {pseudonym_epoch}

# Whether somebody else has to approve a break-glass access.
break_glass_second_person = {break_glass_second_person}

# Whose reads of content go into the audit trail: those of "others" than the owner, or "all".
audit_reads = "{audit_reads}"

# One more detector for views, which only ever hides more: "presidio", with the extra of that name, or empty.
view_extra_detector = "{view_extra_detector}"

# What retention policies may say: nothing goes before the floor, nothing stays beyond the ceiling. A period
# such as "90d" or "6mo", or empty. And above how many things that it would erase a change of a policy needs
# the approval of a second person.
retention_floor = {retention_floor}
retention_ceiling = {retention_ceiling}
retention_second_person_above = {retention_second_person_above}

# After how many days a worker passes a barrier when something was erased since the last one, so that old
# copies of keys.db do not open it either; 0: somebody passes it by hand (session-vault keys barrier).
barrier_days = {barrier_days}

# Names of stores outside of the vault that have to erase what it erases, with spaces between them. No erasure
# comes to its end before each of them did it; a process that can reach them registers them.
external_targets = "{external_targets}"
"""


def write(directory: Path, settings: Settings) -> None:
    """Write the settings file of a new vault."""

    def quoted(value: str) -> str:
        return json.dumps(value)  # its escapes are among TOML's

    every = settings.ledger_every
    values = settings.model_dump()
    values |= {name: str(value).lower() for name, value in values.items() if isinstance(value, bool)}
    values |= {name: quoted(values[name]) for name in _QUOTED}
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
        settings.bounds()
        if isinstance(settings.ledger_every, int) and not 1 <= settings.ledger_every <= _EVERY_MAX:
            raise InvalidInput(f'the setting ledger_every is 1 to {_EVERY_MAX}, or "every_commit"')
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"] if not str(part).startswith("literal"))
        raise InvalidInput(f"the setting {name} is wrong: {first['msg'].lower()}") from None
    return settings


def read_level_document(directory: Path, settings: Settings) -> Levels:
    """The highest levels of event types: the shipped ones, or those of the document that is set.

    Raises:
        InvalidInput: the document is not there, or something in it is wrong: says the line.
    """
    file = directory / settings.levels if settings.levels else data.policies() / "levels.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(
            "the document that the setting levels names cannot be read; correct it, or leave it empty"
        ) from None
    return read_levels(text, file="levels.toml" if not settings.levels else "the document of levels")


def state_directory(vault_id: str) -> Path:
    """Where this machine remembers a vault's newest checkpoints (XDG Base Directory: ``XDG_STATE_HOME``)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "agent-session-vault" / vault_id
