"""The small file by which a container or a timer tells whether a worker is well."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from casework.checkpoints.disk import refuse_special

HEALTH_SCHEMA: Final = "casework-health/1"
HEALTH_BYTES_MAX: Final = 65_536


class WorkerState(StrEnum):
    """What a worker is doing."""

    WORKING = "working"
    """Rounds are running."""
    WAITING = "waiting"
    """Nothing is due."""
    HELD = "held"
    """Work waits, and something holds the whole line back."""
    STOPPING = "stopping"
    """A signal came; running rounds are let end."""
    STOPPED = "stopped"


class Health(BaseModel):
    """How a worker stood when it last wrote."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = HEALTH_SCHEMA
    state: WorkerState
    worker: str
    pid: int
    started_at: AwareDatetime
    updated_at: AwareDatetime
    running: int
    next_due_at: AwareDatetime | None
    hold: str | None
    """Why the line is held back."""


@dataclass(frozen=True, slots=True)
class HealthFile:
    """Where a worker tells how it is; the file is replaced whole, never changed in place.

    A file says nothing by being there: what counts is what it says and how old it is. So one that a
    dead worker left, with whatever process id, is seen to be old.
    """

    path: Path

    def write(self, health: Health) -> None:
        """Replace the file; where the disk refuses, the older one grows old, as it should."""
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            refuse_special(str(self.path))
            fresh.write_text(health.model_dump_json() + "\n", encoding="utf-8")
            fresh.replace(self.path)
        except OSError:
            with suppress(OSError):
                fresh.unlink()

    def complaint(self, now: datetime, age_seconds_max: float) -> str | None:
        """Return why the worker does not count as well, or None if it does.

        A time in the future is as bad as one in the past: the clock was set, or the file is not
        this worker's.
        """
        try:
            refuse_special(str(self.path))
            with self.path.open("rb") as stream:
                health = Health.model_validate_json(stream.read(HEALTH_BYTES_MAX))
        except FileNotFoundError:
            return "there is no health file"
        except OSError as error:
            return f"the health file cannot be read ({error.strerror})"
        except ValidationError:
            return "the file is no health file of this version"
        if health.state is WorkerState.STOPPED:
            return "the worker has stopped"
        age = (now - health.updated_at).total_seconds()
        if abs(age) > age_seconds_max:
            return f"the worker has not written for {age:.0f} s"
        return None
