"""No more operations are begun than there are files to commit them with."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from casework.runtime.run.descriptors import affordable_concurrency

INFINITY = -1


def limit(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> list[tuple[int, int]]:
    asked: list[tuple[int, int]] = []
    system = SimpleNamespace(
        RLIMIT_NOFILE=7,
        RLIM_INFINITY=INFINITY,
        getrlimit=lambda _what: (soft, hard),
        setrlimit=lambda _what, limits: asked.append(limits),
    )
    monkeypatch.setattr(importlib, "import_module", lambda _name: system)
    return asked


def test_enough_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that allows enough files is not asked for more."""
    asked = limit(monkeypatch, 1024, 4096)
    assert (64, []) == (affordable_concurrency(64), asked)


def test_more_is_asked_for_where_the_owner_permits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The soft limit is raised to what is needed."""
    asked = limit(monkeypatch, 256, 4096)
    assert (64, [(576, 4096)]) == (affordable_concurrency(64), asked)


def test_a_hard_limit_means_fewer_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit of 256 files 24 operations are in flight, and always at least one."""
    limit(monkeypatch, 256, 256)
    assert (24, 8) == (affordable_concurrency(64), affordable_concurrency(8))
    limit(monkeypatch, 32, 32)
    assert 1 == affordable_concurrency(8)


def test_no_limit_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system sets none, all are begun."""
    limit(monkeypatch, INFINITY, INFINITY)
    assert 64 == affordable_concurrency(64)
