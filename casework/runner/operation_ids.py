"""Operation ids of a pipeline, of their parts and of their later campaigns.

``extract``, its part ``extract#1of3``, and asked again ``extract@2`` and ``extract#1of3@2``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from casework.runner.chunk_ids import chunk_id

CAMPAIGNS_MAX: Final = 10_000
"""Most ids that are tried for one that is free."""

_CAMPAIGN: Final = re.compile(r"(?P<base>.+)@(?P<number>[1-9][0-9]{0,8})", re.DOTALL)


def pipeline_id(operation_id: str, known: Collection[str]) -> str:
    """Return the pipeline's id of an operation, whichever part or campaign of it this is.

    Args:
        operation_id: The id in the case.
        known: The pipeline's own ids, which may hold ``@`` themselves.
    """
    first = first_campaign(operation_id, known)
    part = None if first in known else chunk_id(first)
    return part.base if part else first


def first_campaign(operation_id: str, known: Collection[str]) -> str:
    """Return the id under which an operation, or a part of one, was asked first."""
    match = None if operation_id in known else _CAMPAIGN.fullmatch(operation_id)
    return match["base"] if match else operation_id


def later_campaigns(operation_id: str) -> tuple[str, int]:
    """Return the stem and the first number of the ids under which to ask again."""
    match = _CAMPAIGN.fullmatch(operation_id)
    return (match["base"], int(match["number"]) + 1) if match else (operation_id, 2)


def later_ids(operation_id: str) -> Iterator[str]:
    """Yield the ids under which an operation may live on: ``op@2``, ``op@3``, ..."""
    stem, first = later_campaigns(operation_id)
    for number in range(first, first + CAMPAIGNS_MAX):
        yield f"{stem}@{number}"
