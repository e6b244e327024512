"""Rounds that were begun and whose end is not known yet, announced before their first call.

An announcement is durable before anybody is asked, and removed once the index knows the outcome. So
after a crash these few files name every call that may have been paid for in vain.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.fields import Fields, parse_object
from casework.checkpoints.storage import AlreadyExists, NotFound, Storage
from casework.errors import CheckpointError
from casework.strict_json import JSON, JSONObject, canonical, sha256_hex

INTENT_SCHEMA: Final = "llm-intent/1"
FOLDER: Final = "inflight"

_SLOTS: Final = ("a", "b")


@dataclass(frozen=True, slots=True)
class IntentTarget:
    """One target that the round may ask."""

    provider: str
    model: str
    provider_class: str | None = None
    cost_max: str | None = None
    """Upper bound of what one call costs, with its currency; None if no rates are known."""

    def to_json(self) -> JSONObject:
        """Return the target as it is stored."""
        return {
            "provider": self.provider,
            "model": self.model,
            "class": self.provider_class,
            "cost_max": self.cost_max,
        }

    @classmethod
    def from_json(cls, value: JSON, where: str) -> IntentTarget:
        """Read a stored target.

        Raises:
            FormatError: It is not one.
        """
        fields = Fields(value, where)
        target = cls(
            provider=fields.text("provider"),
            model=fields.text("model"),
            provider_class=fields.optional_text("class"),
            cost_max=fields.optional_text("cost_max"),
        )
        fields.done()
        return target


@dataclass(frozen=True, slots=True)
class IntentStart:
    """One start of a round."""

    started_at: str
    """RFC 3339 in UTC."""
    targets: tuple[IntentTarget, ...]

    def to_json(self) -> JSONObject:
        """Return the start as it is stored."""
        return {
            "started_at": self.started_at,
            "targets": [target.to_json() for target in self.targets],
        }

    @classmethod
    def from_json(cls, value: JSON, where: str) -> IntentStart:
        """Read a stored start.

        Raises:
            FormatError: It is not one.
        """
        fields = Fields(value, where)
        start = cls(
            started_at=fields.text("started_at"),
            targets=tuple(IntentTarget.from_json(item, where) for item in fields.items("targets")),
        )
        fields.done()
        return start


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A round that was begun, with the earlier starts of the same round that a crash cut off."""

    case_id: str
    package_id: str
    ophash: str
    operation_id: str
    round: int
    started_at: str
    targets: tuple[IntentTarget, ...]
    earlier: tuple[IntentStart, ...] = ()

    def start(self) -> IntentStart:
        """Return the newest start."""
        return IntentStart(self.started_at, self.targets)

    def encode(self) -> bytes:
        """Return the bytes of the announcement."""
        return canonical(
            {
                "schema": INTENT_SCHEMA,
                "case_id": self.case_id,
                "package_id": self.package_id,
                "ophash": self.ophash,
                "operation_id": self.operation_id,
                "round": self.round,
                **self.start().to_json(),
                "earlier": [start.to_json() for start in self.earlier],
            }
        )

    @classmethod
    def decode(cls, content: bytes, where: str) -> Intent:
        """Read an announcement.

        Raises:
            FormatError: It is not one.
        """
        fields = Fields(parse_object(content, where), where)
        fields.constant("schema", INTENT_SCHEMA)
        intent = cls(
            case_id=fields.text("case_id"),
            package_id=fields.text("package_id"),
            ophash=fields.sha256("ophash"),
            operation_id=fields.text("operation_id"),
            round=fields.integer("round", 1),
            started_at=fields.text("started_at"),
            targets=tuple(IntentTarget.from_json(item, where) for item in fields.items("targets")),
            earlier=tuple(IntentStart.from_json(item, where) for item in fields.items("earlier")),
        )
        fields.done()
        return intent


@dataclass(frozen=True, slots=True)
class Announced:
    """What is announced of one operation."""

    newest: Intent | None
    damaged: bool
    """Whether something is there that cannot be read."""


class InflightIntents:
    """The announcements of one root; each belongs to whoever holds its case's lock.

    An operation has two names to choose from, so that a newer announcement is durable before the
    one that it replaces is removed.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def begin(self, intent: Intent) -> None:
        """Announce a round; return once the announcement would survive a power loss.

        An earlier announcement of the operation is replaced, so the new one has to name its starts
        as ``earlier`` unless they were settled.

        Raises:
            StorageError: It could not be made durable; nobody may be asked.
        """
        try:
            self._storage.create(
                [(_path(intent.case_id, intent.ophash, _SLOTS[0]), intent.encode())]
            )
        except AlreadyExists:
            self._begin_beside(intent)

    def look(self, case_id: str, ophash: str) -> Announced:
        """Return what is announced of an operation."""
        newest: Intent | None = None
        damaged = False
        for slot in _SLOTS:
            path = _path(case_id, ophash, slot)
            try:
                intent = Intent.decode(self._storage.read(path), path)
            except NotFound:
                continue
            except CheckpointError:
                damaged = True
                continue
            newest = intent if newest is None else max(newest, intent, key=_age)
        return Announced(newest, damaged)

    def end(self, case_id: str, ophash: str) -> None:
        """Remove an operation's announcement, because its outcome is committed and indexed."""
        for slot in _SLOTS:
            with suppress(NotFound):
                self._storage.delete(_path(case_id, ophash, slot))

    def list(self) -> tuple[Intent, ...]:
        """Return every announcement that can be read, the newest of each operation."""
        newest: dict[tuple[str, str], Intent] = {}
        for name in self._storage.list(FOLDER):
            intent = self._read(f"{FOLDER}/{name}")
            if intent is not None:
                key = (intent.case_id, intent.ophash)
                newest[key] = max(newest.get(key, intent), intent, key=_age)
        return tuple(newest.values())

    def damaged(self) -> tuple[str, ...]:
        """Return the names of announcements that cannot be read; nobody knows what they told."""
        names = self._storage.list(FOLDER)
        return tuple(name for name in names if self._read(f"{FOLDER}/{name}") is None)

    def _begin_beside(self, intent: Intent) -> None:
        """Announce a round under the other name, then remove what the first one holds."""
        first, second = (_path(intent.case_id, intent.ophash, slot) for slot in _SLOTS)
        with suppress(NotFound):
            self._storage.delete(second)
        self._storage.create([(second, intent.encode())])
        self._storage.delete(first)

    def _read(self, path: str) -> Intent | None:
        try:
            return Intent.decode(self._storage.read(path), path)
        except CheckpointError:
            return None


def _age(intent: Intent) -> tuple[int, int, str]:
    return intent.round, len(intent.earlier), intent.started_at


def _path(case_id: str, ophash: str, slot: str) -> str:
    case = sha256_hex(case_id.encode("utf-8"))[:16]
    suffix = "" if slot == _SLOTS[0] else f".{slot}"
    return f"{FOLDER}/{case}-{ophash}{suffix}.json"
