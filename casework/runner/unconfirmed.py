"""Rounds whose start is known and whose end is not: each may have been paid for twice."""

from __future__ import annotations

from datetime import datetime

from casework.checkpoints.inflight import Intent, IntentTarget
from casework.checkpoints.store import CheckpointStore
from casework.gateway.messages import Cost, Usage
from casework.gateway.prices import cost_of
from casework.gateway.round import Plan, Target
from casework.strict_json import JSON
