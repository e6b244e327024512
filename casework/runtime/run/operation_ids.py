"""Operation ids of a pipeline and of their later campaigns: ``extract``, ``extract@2``, ..."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_CAMPAIGN: Final = re.compile(r"(?P<base>.+)@(?P<number>[1-9][0-9]{0,8})", re.DOTALL)


def pipeline_id(operation_id: str, known: Collection[str]) -> str:
    """Return the pipeline's id of an operation, whichever campaign it belongs to.

    Args:
        operation_id: The id in the case.
        known: The pipeline's own ids, which may hold ``@`` themselves.
    """
    match = None if operation_id in known else _CAMPAIGN.fullmatch(operation_id)
    return match["base"] if match else operation_id


def later_campaigns(operation_id: str) -> tuple[str, int]:
    """Return the stem and the first number of the ids under which to ask again."""
    match = _CAMPAIGN.fullmatch(operation_id)
    return (match["base"], int(match["number"]) + 1) if match else (operation_id, 2)
