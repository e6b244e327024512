"""An answer in OpenAI's shapes: one whole body, or the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from tests.support.fault_upstream.faults import Faults
from tests.support.fault_upstream.plausible_model import (
    Request,
    Said,
    ToolCall,
    answers_to,
    prompt_tokens,
    tokens_of,
)

Event: TypeAlias = dict[str, Any]

CREATED: Final = 1_764_500_000
FRAGMENT_CHARACTERS: Final = 7
ERROR: Final = {
    "message": "The server had an error while processing your request.",
    "type": "server_error",
    "param": None,
    "code": "server_error",
}


def usage_of(request: Request, answers: Sequence[Said], faults: Faults) -> Any:
    """Return what the server says of tokens, or None where it is silent."""
    kind = faults.text("usage")
    if kind in {"none", "null"}:
        return None
    thought = sum(len(tokens_of(said.reasoning)) for said in answers)
    spoken = sum(
        len(said.tokens)
        + len(tokens_of(said.refusal or ""))
        + sum(len(tokens_of(call.name + call.arguments)) for call in said.calls)
        for said in answers
    )
    asked, told = (0, 0) if kind == "zero" else (prompt_tokens(request), spoken + thought)
    return {
        "prompt_tokens": asked,
        "completion_tokens": told,
        "total_tokens": asked + told,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0 if kind == "zero" else thought,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _head(request: Request, number: int, kind: str) -> Event:
    return {
        "id": f"chatcmpl-double{number}",
        "object": kind,
        "created": CREATED + number,
        "model": request["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_double",
    }


def _logprob(token: str, request: Request) -> Event:
    one = {"token": token, "logprob": -0.25, "bytes": list(token.encode())}
    best = int(request.get("top_logprobs") or 0)
    return {**one, "top_logprobs": [one] * min(best, 1)}


def _logprobs(tokens: Sequence[str], request: Request) -> Event | None:
    if not request.get("logprobs"):
        return None
    return {"content": [_logprob(token, request) for token in tokens], "refusal": None}


def _call(call: ToolCall) -> Event:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _message(said: Said, faults: Faults) -> Event:
    content: Any = None if said.refusal or said.calls else said.text
    if "parts" in faults and content is not None:
        content = [{"type": "text", "text": piece} for piece in said.tokens]
    message: Event = {"role": "assistant", "content": content}
    if "sparse" not in faults:
        message |= {"refusal": said.refusal, "annotations": []}
    if said.reasoning:
        message[faults.text("reasoning") or "reasoning_content"] = said.reasoning
    if said.calls:
        message["tool_calls"] = [_call(call) for call in said.calls]
    return message


def whole_answer(request: Request, number: int, faults: Faults) -> Event:
    """Return the body of a whole answer."""
    answers = answers_to(request)
    body = _head(request, number, "chat.completion")
    body["choices"] = [
        {
            "index": index,
            "message": _message(said, faults),
            "logprobs": _logprobs(said.tokens, request),
            "finish_reason": faults.text("finish") or said.finish,
        }
        for index, said in enumerate(answers)
    ]
    usage = usage_of(request, answers, faults)
    if usage is not None or faults.text("usage") == "null":
        body["usage"] = usage
    if "sparse" in faults:
        for name in ("id", "created", "object", "service_tier", "system_fingerprint"):
            del body[name]
        for choice in body["choices"]:
            del choice["logprobs"]
    return body


def stream_events(request: Request, number: int, faults: Faults) -> Iterator[Event]:
    """Return the events of a streamed answer; what is said is decided before the first."""
    answers = answers_to(request)
    head = _head(request, number, "chat.completion.chunk")
    asked = bool((request.get("stream_options") or {}).get("include_usage"))
    usage = usage_of(request, answers, faults)
    if "sparse" in faults:
        head = {"model": head["model"]}
    elif asked:
        head["usage"] = None
    last: Event | None = None
    if faults.text("usage") == "last":
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": None}], "usage": usage}
    elif usage is not None and (asked or faults.text("usage") == "always"):
        last = {"choices": [], "usage": usage}
    spoken = _spoken(request, answers, faults)
    return ({**head, **rest} for rest in chain(spoken, [last] if last else []))


def _spoken(request: Request, answers: Sequence[Said], faults: Faults) -> Iterator[Event]:
    for index, said in enumerate(answers):
        for delta, tokens in _deltas(said, faults):
            yield {"choices": [_choice(index, delta, tokens, request, faults)]}
        end = {"index": index, "delta": {}, "finish_reason": faults.text("finish") or said.finish}
        if "sparse" not in faults:
            end["logprobs"] = None
        yield {"choices": [end]}


def _choice(
    index: int, delta: Event, tokens: Sequence[str], request: Request, faults: Faults
) -> Event:
    choice: Event = {"index": index, "delta": delta}
    if "sparse" not in faults:
        choice |= {"logprobs": _logprobs(tokens, request) if tokens else None}
        choice |= {"finish_reason": None}
    return choice


def _deltas(said: Said, faults: Faults) -> Iterator[tuple[Event, Sequence[str]]]:
    first: Event = {"role": "assistant", "content": None if said.calls or said.refusal else ""}
    if "sparse" not in faults:
        first["refusal"] = None
    yield first, ()
    for token in tokens_of(said.reasoning):
        yield {faults.text("reasoning") or "reasoning_content": token}, ()
    for token in tokens_of(said.refusal or ""):
        yield {"refusal": token}, ()
    for token in said.tokens:
        yield {"content": token}, (token,)
    if size := faults.number("flood"):
        for _ in range(0, size, 16_384):
            yield {"content": "flood " * (16_384 // 6)}, ()
    for fragment in tool_fragments(said.calls, faults.text("tool-index")):
        yield {"tool_calls": [fragment]}, ()


def tool_fragments(calls: Sequence[ToolCall], fault: str) -> list[Event]:
    """Return the pieces in which calls are streamed, numbered rightly or as the fault has it."""
    runs = [_fragments(index, call) for index, call in enumerate(calls)]
    if fault == "interleaved":
        longest = max(map(len, runs), default=0)
        return [run[at] for at in range(longest) for run in runs if at < len(run)]
    pieces = [piece for run in runs for piece in run]
    for piece in pieces:
        if fault == "same":
            piece["index"] = 0
        elif fault == "one":
            piece["index"] += 1
        elif fault == "missing":
            del piece["index"]
        elif fault == "renumbered" and "id" not in piece:
            piece["index"] += 4
    return pieces


def _fragments(index: int, call: ToolCall) -> list[Event]:
    first = {"index": index, **_call(call)}
    first["function"] = {"name": call.name, "arguments": ""}
    rest = [
        {"index": index, "function": {"arguments": call.arguments[at : at + FRAGMENT_CHARACTERS]}}
        for at in range(0, len(call.arguments), FRAGMENT_CHARACTERS)
    ]
    return [first, *rest]
