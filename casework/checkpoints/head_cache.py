"""The heads last seen by this process, so that reopening an unchanged package costs little."""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from typing import Final

from casework.checkpoints.fold import PackageHead

WEIGHT_MAX: Final = 65_536
"""Most operation states held in memory, counting one for each package as well."""


class HeadCache:
    """A bounded memory of heads, safe for threads; what was used longest ago leaves first.

    It is never believed: a reader still asks the storage for the next generation.
    """

    def __init__(self, weight_max: int = WEIGHT_MAX) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._heads: OrderedDict[str, PackageHead] = OrderedDict()
        self._guard = Lock()
        self._pid = os.getpid()

    def get(self, folder: str) -> PackageHead | None:
        """Return the head last seen in a folder."""
        with self._guarded():
            head = self._heads.get(folder)
            if head is not None:
                self._heads.move_to_end(folder)
            return head

    def put(self, folder: str, head: PackageHead) -> None:
        """Remember a head, unless a newer one is known."""
        with self._guarded():
            known = self._heads.get(folder)
            if known is not None:
                if known.generation > head.generation:
                    return
                self._weight -= _weight(known)
            self._heads[folder] = head
            self._heads.move_to_end(folder)
            self._weight += _weight(head)
            while self._weight > self._weight_max and len(self._heads) > 1:
                _, oldest = self._heads.popitem(last=False)
                self._weight -= _weight(oldest)

    def drop(self, folder: str) -> None:
        """Forget a head, because nobody knows any more what the storage holds."""
        with self._guarded():
            known = self._heads.pop(folder, None)
            if known is not None:
                self._weight -= _weight(known)

    def _guarded(self) -> Lock:
        if self._pid != os.getpid():
            # Another thread of the parent may have held the guard when this process was forked.
            self._guard, self._pid = Lock(), os.getpid()
        return self._guard


def _weight(head: PackageHead) -> int:
    return 1 + len(head.operations)
