"""Answers and chunks as servers of many kinds write them: members missing, null, or odd."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Shape = dict[str, Any]

ODD = st.sampled_from([None, "", "odd", 0, 1.5, 1e300, True, [], {}, ["x"], {"x": None}])
TEXTS = st.text(max_size=6)
COUNTS = st.integers(0, 100) | st.just(0)
FINISHES = st.sampled_from(
    ["stop", "length", "tool_calls", "content_filter", "function_call", "eos", "MAX_TOKENS", ""]
)


def maybe(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Shape]:
    """Draw a member, or none of this name."""
    return st.just({}) | values.map(lambda value: {name: value})


def merged(*parts: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    """Draw an object of such members, in any order."""
    return st.permutations(list(range(len(parts)))).flatmap(
        lambda order: st.tuples(*(parts[i] for i in order)).map(
            lambda drawn: {name: value for part in drawn for name, value in part.items()}
        )
    )


def token_logprobs() -> st.SearchStrategy[Any]:
    """Draw log probabilities, in OpenAI's form or another."""
    token = merged(
        st.just({"token": "a"}),
        st.just({"logprob": -1}) | st.just({"logprob": -0.5}),
        maybe("bytes", st.just([97]) | st.none()),
        maybe("top_logprobs", st.just([]) | st.just([{"token": "b", "logprob": 0, "bytes": None}])),
    )
    some = st.lists(token, max_size=2) | st.none()
    return merged(maybe("content", some), maybe("refusal", some)) | ODD


def usages() -> st.SearchStrategy[Any]:
    """Draw a usage, whole, in part or none."""
    count = COUNTS | ODD
    details = merged(
        maybe("cached_tokens", COUNTS | st.none()), maybe("audio_tokens", COUNTS), maybe("x", ODD)
    )
    whole = st.fixed_dictionaries(
        {"prompt_tokens": COUNTS, "completion_tokens": COUNTS, "total_tokens": COUNTS},
        optional={
            "prompt_tokens_details": details | st.none(),
            "completion_tokens_details": details | st.none(),
            "cost": st.just(0.25),
        },
    )
    part = merged(
        maybe("prompt_tokens", count),
        maybe("completion_tokens", count),
        maybe("total_tokens", count),
        maybe("prompt_tokens_details", ODD),
    )
    return whole | part | ODD


def function_calls() -> st.SearchStrategy[Any]:
    """Draw tool calls that name their tool."""
    function = merged(
        st.just({"name": "f"}), maybe("arguments", TEXTS | st.none() | st.just({"a": [1]}))
    )
    call = merged(
        maybe("id", TEXTS | st.none()),
        maybe("type", st.just("function") | st.none() | st.just("builtin_function")),
        function.map(lambda made: {"function": made}),
        maybe("index", st.integers(0, 3)),
    )
    return st.lists(call, max_size=3) | st.none()


def parts() -> st.SearchStrategy[Any]:
    """Draw content as text, as parts of it, or none."""
    part = (
        st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
        | st.builds(lambda text: {"type": "thinking", "thinking": text}, TEXTS)
        | st.builds(lambda text: {"type": "refusal", "refusal": text}, TEXTS)
    )
    return TEXTS | st.none() | st.lists(part, max_size=2)


def messages() -> st.SearchStrategy[Shape]:
    """Draw the message of an answer."""
    return merged(
        maybe("role", st.just("assistant") | ODD),
        maybe("content", parts()),
        maybe("refusal", TEXTS | ODD),
        maybe("annotations", st.just([]) | st.none() | st.just("odd")),
        maybe("tool_calls", function_calls()),
        maybe("function_call", st.none() | st.just({"name": "f", "arguments": {}})),
        maybe("audio", st.none() | st.just({"id": "a"})),
        maybe("reasoning_content", TEXTS | st.none()),
        maybe("reasoning", TEXTS),
        maybe("x", ODD),
    )


def heads(kind: str) -> st.SearchStrategy[Shape]:
    """Draw what an answer and a chunk begin with."""
    return merged(
        maybe("id", TEXTS | ODD),
        maybe("object", st.just(kind) | ODD),
        maybe("created", st.integers(0, 10) | ODD),
        maybe("model", TEXTS | ODD),
        maybe("system_fingerprint", TEXTS | ODD),
        maybe("service_tier", st.sampled_from(["auto", "default", "flex", "on_demand"]) | ODD),
        maybe("error", st.none() | st.just("")),
        maybe("usage", usages()),
        maybe("x", ODD),
    )


def answers() -> st.SearchStrategy[Shape]:
    """Draw a whole answer."""
    choice = merged(
        maybe("index", st.integers(0, 2) | ODD),
        messages().map(lambda message: {"message": message}),
        maybe("finish_reason", FINISHES | ODD),
        maybe("logprobs", token_logprobs()),
        maybe("x", ODD),
    )
    choices = st.lists(choice, min_size=1, max_size=3).map(lambda made: {"choices": made})
    return merged(heads("chat.completion"), choices)


def deltas() -> st.SearchStrategy[Any]:
    """Draw what a chunk adds."""
    function = merged(maybe("name", TEXTS | st.none()), maybe("arguments", TEXTS | st.none()))
    fragment = merged(
        maybe("index", st.integers(0, 3) | st.none()),
        maybe("id", TEXTS | st.none()),
        maybe("type", st.just("function") | st.none()),
        maybe("function", function | st.none()),
    )
    return (
        merged(
            maybe("role", st.sampled_from(["assistant", "model", "", None])),
            maybe("content", parts()),
            maybe("refusal", TEXTS | ODD),
            maybe("tool_calls", st.lists(fragment, max_size=3) | st.none()),
            maybe("function_call", st.none() | function),
            maybe("reasoning_content", TEXTS | st.none()),
            maybe("x", ODD),
        )
        | st.none()
    )


def chunks() -> st.SearchStrategy[Shape]:
    """Draw a chunk."""
    choice = merged(
        maybe("index", st.integers(0, 2) | st.none()),
        maybe("delta", deltas()),
        maybe("finish_reason", FINISHES | ODD),
        maybe("logprobs", token_logprobs()),
        maybe("x", ODD),
    )
    choices = maybe("choices", st.lists(choice, max_size=2) | st.none())
    return merged(heads("chat.completion.chunk"), choices)
