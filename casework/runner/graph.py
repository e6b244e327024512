"""The order of operations that need each other's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Needs = Mapping[str, Sequence[str]]
"""Which operations each one needs, in the order of the file."""


def circle_in(needs: Needs) -> tuple[str, ...] | None:
    """Return a circle of needs, its first operation once more at the end; None if there is none."""
    done: set[str] = set()
    for start in needs:
        found = _walk(needs, (start,), done)
        if found is not None:
            return found
    return None


def _walk(needs: Needs, trail: tuple[str, ...], done: set[str]) -> tuple[str, ...] | None:
    here = trail[-1]
    for needed in needs.get(here, ()):
        if needed in trail:
            return (*trail[trail.index(needed) :], needed)
        if needed not in done:
            found = _walk(needs, (*trail, needed), done)
            if found is not None:
                return found
    done.add(here)
    return None


def in_order(needs: Needs) -> tuple[str, ...]:
    """Return the operations so that each stands behind those it needs, else as in the file.

    Only for needs without a circle.
    """
    placed: dict[str, None] = {}
    left = list(needs)
    while left:
        ready = next(name for name in left if all(need in placed for need in needs[name]))
        placed[ready] = None
        left.remove(ready)
    return tuple(placed)
