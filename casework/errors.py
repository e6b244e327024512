"""Every exception that Casework raises, in one tree.

::

    CaseworkError
    ├── GatewayError
    │   ├── ConfigurationError     the settings cannot be used; no call was made
    │   ├── InvalidRequest         the request cannot be sent; no call was made
    │   │   └── PrivacyViolation   a request asked for more than its profile allows
    │   ├── ProviderError          one call to one target failed
    │   ├── RoundFailed            a whole round failed where no outcome can be returned
    │   ├── LimitReached           every provider is at a limit of calls; none was asked
    │   ├── DeadlineExceeded       the time given for the work is over
    │   └── StreamInterrupted      a stream broke after its first chunk
    ├── CheckpointError
    │   ├── PackageNotFound        no such case, package or part
    │   ├── IntegrityError         stored bytes contradict the recorded digests
    │   ├── StaleGeneration        somebody else committed first; the caller's result is void
    │   ├── LockBusy               another process works on this case
    │   ├── NotDue                 the operation may not be restarted yet
    │   ├── FormatError            the bytes are not a package this version reads
    │   └── StorageError           the disk or bucket refused; what was committed stays
    └── RunnerError
        ├── OperationConflict      the id stands for another request or configuration
        └── IllegalTransition      the operation's state does not allow this step

An error carries strings, numbers and enums only, and never the text of a document, an answer, an
upstream body, a URL or a secret.
"""

from __future__ import annotations

from typing import ClassVar


class CaseworkError(Exception):
    """Say what failed, where, and the way out, under a stable code."""

    default_code: ClassVar[str] = "casework_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        """Return the whole story on one line."""
        place = f"{self.where}: " if self.where else ""
        way_out = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{self.message}{way_out} [{self.code}]"


class GatewayError(CaseworkError):
    """A model could not be reached, asked or believed."""

    default_code = "gateway_error"


class ConfigurationError(GatewayError):
    """The settings cannot be used as they stand; nothing was called or written."""

    default_code = "config_error"


class InvalidRequest(GatewayError):
    """The request cannot be sent as it stands; nothing was called."""

    default_code = "invalid_request"


class PrivacyViolation(InvalidRequest):
    """The request asks for more than its privacy profile allows."""

    default_code = "privacy_profile"


class ProviderError(GatewayError):
    """One call to one target failed."""

    default_code = "provider_error"


class RoundFailed(GatewayError):
    """A whole round failed where the caller can take no outcome."""

    default_code = "round_failed"


class LimitReached(GatewayError):
    """Every provider that may be asked is at a limit of calls; none was asked.

    Args:
        seconds: When one of them may be asked again, at the earliest.
    """

    default_code = "limit_reached"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "every provider is at a limit of calls", remedy="ask again later, or raise the limits"
        )
        self.seconds = seconds


class DeadlineExceeded(GatewayError):
    """The time given for the work is over."""

    default_code = "deadline_exceeded"


class StreamInterrupted(GatewayError):
    """A stream broke after its first chunk."""

    default_code = "stream_interrupted"


class CheckpointError(CaseworkError):
    """A package could not be read or written."""

    default_code = "checkpoint_error"


class PackageNotFound(CheckpointError):
    """No such case, package or part."""

    default_code = "package_not_found"


class IntegrityError(CheckpointError):
    """Stored bytes contradict the recorded digests or the chain."""

    default_code = "integrity_error"


class StaleGeneration(CheckpointError):
    """Somebody else committed first; the caller's result is void."""

    default_code = "stale_generation"


class LockBusy(CheckpointError):
    """Another process works on this case; nothing was waited for."""

    default_code = "lock_busy"


class NotDue(CheckpointError):
    """The operation may not be restarted before its retry time."""

    default_code = "not_due"


class FormatError(CheckpointError):
    """The bytes are not a package that this version reads."""

    default_code = "format_error"


class StorageError(CheckpointError):
    """The disk or bucket refused; what was committed before stays as it was."""

    default_code = "storage_error"


class RunnerError(CaseworkError):
    """An operation could not be driven."""

    default_code = "runner_error"


class OperationConflict(RunnerError):
    """The operation id already stands for another request or configuration."""

    default_code = "operation_conflict"


class IllegalTransition(RunnerError):
    """The operation's state does not allow this step."""

    default_code = "illegal_transition"
