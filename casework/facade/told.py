"""What a route finds out about a request, gathered for its line in the log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from casework.facade.presence import Ended
from casework.facade.request_line import FailedAttempt, RequestLine
from casework.gateway.messages import Cost, Usage
from casework.gateway.outcomes import Answered, Attempt, RoundErred, Served, Walked

A = TypeVar("A")


@dataclass(slots=True)
class Told:
    """Grows while a request is served; unknown is None."""

    client: str | None = None
    model: str | None = None
    """As the client asked for it, once it was found to be one: before, it may be any text."""
    stream: bool = False
    gone: Ended | None = None
    """Why nobody was left to reply to, if so."""
    policy: str | None = None
    served: Served | None = None
    """The call that answered, or ended the round."""
    answered: bool = False
    failed: tuple[Attempt, ...] = ()
    """Calls that failed, the one that ended the round too."""
    usage: Usage | None = None
    cost: Cost | None = None

    def take(self, walked: Walked[A]) -> None:
        """Take over what a round came to."""
        self.failed = walked.attempts
        if isinstance(walked, Answered):
            self.served, self.answered = walked.served, True
        elif isinstance(walked, RoundErred):
            self.served, self.failed = walked.final.served, (*walked.attempts, walked.final)
        if self.served is not None:
            self.usage, self.cost = self.served.usage, self.served.cost

    def line(
        self,
        *,
        request_id: str,
        at: datetime,
        route: str,
        status: int,
        code: str | None,
        elapsed_ms: float,
    ) -> RequestLine:
        """Return the request's line."""
        served, usage = self.served, self.usage
        calls = [attempt.served for attempt in self.failed if attempt.made]
        if served is not None and self.answered:
            calls.append(served)
        return RequestLine(
            request_id=request_id,
            at=at,
            client=self.client,
            route=route,
            status=status,
            elapsed_ms=elapsed_ms,
            asked_model=self.model,
            provider=served.provider if served else None,
            provider_class=served.provider_class if served else None,
            model=served.model if served else None,
            policy=self.policy,
            code=self.gone.value if self.gone else code,
            attempts=len(calls),
            failures=tuple(
                FailedAttempt(a.served.provider, a.kind.value, a.http_status) for a in self.failed
            ),
            upstream_ms=sum(call.elapsed_ms for call in calls) if calls else None,
            stream=self.stream,
            prompt_tokens=usage.prompt_tokens if usage else None,
            completion_tokens=usage.completion_tokens if usage else None,
            total_tokens=usage.total_tokens if usage else None,
            cost=self.cost,
            client_left=self.gone is not None,
        )
