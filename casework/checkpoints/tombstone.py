"""What stays of a forgotten case: who removed its content, why, and the digests of what it was."""

from __future__ import annotations

from dataclasses import dataclass

from casework.checkpoints.fields import Fields
from casework.checkpoints.storage import is_safe_path
from casework.errors import FormatError
from casework.strict_json import JSON, JSONObject


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """One file that was removed."""

    path: str
    sha256: str

    @classmethod
    def from_json(cls, value: JSON, where: str) -> RemovedFile:
        """Read a stored entry.

        Raises:
            FormatError: It is not one, or its path is not safe.
        """
        fields = Fields(value, where)
        path, sha256 = fields.text("path"), fields.sha256("sha256")
        fields.done()
        if not is_safe_path(path):
            raise FormatError("a file's path is not a plain relative path", where=where)
        return cls(path, sha256)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The end of a package; time and actor are those of its commit."""

    reason: str | None
    removed: tuple[RemovedFile, ...]
    """Every file that commits named, but for ``package.json``, in the order of the paths."""

    def to_json(self) -> JSONObject:
        """Return the tombstone as its commit stores it."""
        return {
            "reason": self.reason,
            "removed": [{"path": file.path, "sha256": file.sha256} for file in self.removed],
        }

    @classmethod
    def from_json(cls, value: JSON, where: str) -> Tombstone:
        """Read a stored tombstone.

        Raises:
            FormatError: It is not one.
        """
        fields = Fields(value, where)
        tombstone = cls(
            fields.optional_text("reason"),
            tuple(RemovedFile.from_json(item, where) for item in fields.items("removed")),
        )
        fields.done()
        return tombstone
