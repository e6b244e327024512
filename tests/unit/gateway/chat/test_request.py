"""A request is looked at where it must be, and else passed on byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.gateway.chat.request import CHOICES_MAX, ChatRequest, read_chat_request
from casework.gateway.chat.withheld import FAMILIAR

ENGINE = "jsonschema-rs"
MESSAGES = [{"role": "user", "content": "Hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def read(body: bytes) -> ChatRequest:
    """Read a body."""
    return read_chat_request(body, engine=ENGINE)


def asked(**members: Any) -> ChatRequest:
    """Read a request that has these members beside a model and messages."""
    return read(json.dumps({"model": "m", "messages": MESSAGES, **members}).encode())


def refusal(body: bytes | dict[str, Any]) -> tuple[str, str | None]:
    """Return the code and the place of a refusal."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(InvalidRequest) as caught:
        read(content)
    return caught.value.code, caught.value.where


def test_a_request_is_taken_apart() -> None:
    """What Casework acts on is read; the rest is kept."""
    request = asked(
        model="org/name:tag@1",
        stream=True,
        stream_options={"include_usage": True},
        n=2,
        max_tokens=7,
        privacy_profile="self_hosted",
    )
    assert (
        "org/name:tag@1", True, True, 2, 7, PrivacyProfile.SELF_HOSTED, ("privacy_profile",),
    ) == (
        request.model, request.stream, request.include_usage, request.choices,
        request.tokens_max, request.privacy_profile, request.withheld,
    )  # fmt: skip
    assert ["messages", "n", "max_tokens"] == list(request.members)


FORWARDED = {
    "temperature": "0.70",
    "top_p": "1",
    "stop": '["a", "b"]',
    "seed": "-3",
    "logit_bias": '{"50256": -100}',
    "user": '"\\u00e9\\/"',
    "store": "true",
    "metadata": '{ "a" : "b" }',
    "tools": '[{"type":"function","function":{"name":"f","parameters":'
    '{"type":"object","additionalProperties":false,"properties":{}},"strict":true}}]',
    "tool_choice": '"auto"',
    "parallel_tool_calls": "false",
    "response_format": '{"type":"json_schema","json_schema":{"name":"n",  "strict":true,'
    '"schema":{"type":"object","additionalProperties":false,"properties":{}}}}',
    "logprobs": "true",
    "top_logprobs": "5",
    "reasoning_effort": '"low"',
    "modalities": '["text"]',
    "prediction": '{"type":"content","content":"x"}',
    "service_tier": '"flex"',
    "web_search_options": "{}",
    "max_completion_tokens": "null",
    "chat_template_kwargs": '{"enable_thinking":false,"deep":[{"er":1e2}]}',
    "guided_json": "{}",
    "provider": '{"data_collection":"deny"}',
    "min_p": "0.05",
    "enable_thinking": "false",
    "something_nobody_knows": '[1.0, 1e400, 123456789012345678901234567890, "\\ud83d\\ude00"]',
}
"""Members of every kind, as JSON that no writer would write again in the same way."""


@pytest.mark.parametrize("name", sorted(FORWARDED))
def test_a_member_is_passed_on_byte_for_byte(name: str) -> None:
    """Known or not, deep or flat: the server reads what the client wrote."""
    value = FORWARDED[name].encode()
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"' + name.encode() + b'" : '
    request = read(body + value + b" }")
    assert value == request.members[name]
    assert () == request.withheld


def test_every_member_that_openai_documents_is_passed_on() -> None:
    """None of them is taken for an address or a credential."""
    request = asked(**dict.fromkeys(FAMILIAR - {"messages"}))
    assert set(FAMILIAR) == set(request.members)
    assert () == request.withheld


WITHHELD = (
    "api_base", "base_url", "baseURL", "api_key", "apiKey", "API_BASE", "Api-Key", "user_config",
    "model_list", "fallbacks", "models", "route", "extra_headers", "headers", "extra_body",
    "litellm_params", "litellm_session", "aws_access_key_id", "aws_region_name", "azure_ad_token",
    "vertex_credentials", "langfuse_host", "openai_api_key", "some_base_url", "webhook_url",
    "server_uri", "callback_url", "bootstrap_host", "kv_transfer_params", "data_sources",
    "dataSources", "custom_llm_provider", "organization", "api_version", "privacy_profile",
    "Model", "MODEL", "Stream", "\u017ftream", "authorization", "proxy",
    "mcp_servers",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in WITHHELD if name != "privacy_profile"])
def test_a_destination_or_a_credential_is_never_passed_on(name: str) -> None:
    """Whatever its value and case, and a second model under another spelling neither."""
    request = asked(**{name: {"url": "http://169.254.169.254/", "key": "canary"}})
    assert ["messages"] == list(request.members)
    assert (name,) == request.withheld


def test_what_is_withheld_is_named_up_to_a_limit() -> None:
    """Names are the client's own text, and may be many and long."""
    request = asked(**{f"aws_{i}_{'x' * 100}": 1 for i in range(100)})
    assert 64 == len(request.withheld)
    assert 64 == max(map(len, request.withheld))
    assert ["messages"] == list(request.members)


def test_options_of_streams_that_nobody_is_told_are_named() -> None:
    """Only the usage is ours to ask for."""
    options = {"include_usage": True, "include_obfuscation": False}
    request = asked(stream=True, stream_options=options)
    assert request.include_usage
    assert ("stream_options.include_obfuscation",) == request.withheld


@pytest.mark.parametrize("options", [None, {}, {"include_usage": None}, {"include_usage": False}])
def test_options_of_streams_may_be_null_or_empty(options: Any) -> None:
    """Null is the same as nothing."""
    request = asked(stream=None, stream_options=options)
    assert (False, False, ()) == (request.stream, request.include_usage, request.withheld)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "t"}], "name": "n"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
        {"role": "user", "content": []},
        {"role": "user", "content": ""},
        {"role": "user"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        {"role": "assistant", "tool_calls": [{"id": "c"}], "reasoning_content": "r"},
        {"role": "assistant", "content": "a", "reasoning": "r", "refusal": None},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
        {"role": "function", "name": "f", "content": "42"},
    ],
)
def test_every_kind_of_message_passes_unchanged(message: dict[str, Any]) -> None:
    """Each role and each form of content is the server's to judge."""
    written = json.dumps([message], indent=1).encode()
    request = read(b'{"model":"m","messages":' + written + b"}")
    assert written == request.members["messages"]


def test_bare_strings_in_a_list_of_content_become_parts_of_text() -> None:
    """Only they are written anew; what stands beside them stays as it was."""
    body = (
        b'{"model":"m","messages":[ {"role":"system","content":"\\u00e9"},'
        b'{"role":"user","content":["a\\n",{"type":"image_url", "x":1.50},"\\ud83d\\ude00"],'
        b'"name":"\\/"}]}'
    )
    assert (
        b'[{"role":"system","content":"\\u00e9"},{"role":"user","content":[{"type":"text",'
        b'"text":"a\\n"},{"type":"image_url", "x":1.50},{"type":"text","text":"\\ud83d\\ude00"}],'
        b'"name":"\\/"}]'
    ) == read(body).members["messages"]


def deep(levels: int) -> bytes:
    """Write a value that nests so deep."""
    return b"[" * levels + b"]" * levels


HEAD = b'{"model":"m","messages":[{"role":"user","content":"x"}],"a":'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"\xef\xbb\xbf{}",
        b"{}x",
        b"{'a':1}",
        HEAD + b"NaN}",
        HEAD + b"Infinity}",
        HEAD + b"01}",
        HEAD + b'"\xff"}',
        HEAD + b'"\xed\xa0\x80"}',
        HEAD + b'"\\ud800"}',
        HEAD + b'"\\udc00 and more"}',
        HEAD + b'"\\x41"}',
        HEAD + b'"a\nb"}',
        HEAD + b"[1,]}",
        HEAD + deep(100_000) + b"}",
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    """Nothing is guessed at, and nothing else is raised."""
    assert ("invalid_json", None) == refusal(body)


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"true", deep(900)])
def test_json_that_is_no_object_is_refused(body: bytes) -> None:
    """The body is an object."""
    assert ("invalid_type", None) == refusal(body)


@pytest.mark.parametrize(
    ("members", "code", "where"),
    [
        ({"model": None}, "invalid_type", "model"),
        ({"model": 1}, "invalid_type", "model"),
        ({"model": ""}, "invalid_value", "model"),
        ({"messages": None}, "invalid_type", "messages"),
        ({"messages": {}}, "invalid_type", "messages"),
        ({"messages": "x"}, "invalid_type", "messages"),
        ({"messages": []}, "empty_array", "messages"),
        ({"messages": ["x"]}, "invalid_type", "messages[0]"),
        ({"messages": [{"content": "x"}]}, "missing_required_parameter", "messages[0].role"),
        ({"messages": [*MESSAGES, {"role": 1}]}, "invalid_type", "messages[1].role"),
        ({"messages": [{"role": "bot"}]}, "invalid_value", "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "invalid_type", "messages[0].content"),
        ({"messages": [{"role": "user", "content": {}}]}, "invalid_type", "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": ["a", None]}]},
            "invalid_type",
            "messages[0].content[1]",
        ),
        (
            {"messages": [{"role": "user", "content": [["a"]]}]},
            "invalid_type",
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
            "missing_required_parameter",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": 1}]}]},
            "invalid_type",
            "messages[0].content[0].type",
        ),
        ({"stream": "true"}, "invalid_type", "stream"),
        ({"stream": 1}, "invalid_type", "stream"),
        ({"stream_options": []}, "invalid_type", "stream_options"),
        (
            {"stream_options": {"include_usage": 1}},
            "invalid_type",
            "stream_options.include_usage",
        ),
        ({"n": 0}, "invalid_value", "n"),
        ({"n": CHOICES_MAX + 1}, "invalid_value", "n"),
        ({"n": 10**400}, "invalid_value", "n"),
        ({"n": True}, "invalid_type", "n"),
        ({"n": "2"}, "invalid_type", "n"),
        ({"n": 1.5}, "invalid_type", "n"),
        ({"max_tokens": "many"}, "invalid_type", "max_tokens"),
        ({"max_completion_tokens": []}, "invalid_type", "max_completion_tokens"),
        ({"privacy_profile": "everywhere"}, "invalid_value", "privacy_profile"),
        ({"privacy_profile": 1}, "invalid_type", "privacy_profile"),
        ({"privacyProfile": "local_only"}, "invalid_value", "privacy_profile"),
        ({"PRIVACY-PROFILE": "local_only"}, "invalid_value", "privacy_profile"),
        ({"response_format": "json"}, "invalid_type", "response_format"),
        (
            {"response_format": {"type": "json_schema"}},
            "invalid_type",
            "response_format.json_schema",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(members: dict[str, Any], code: str, where: str) -> None:
    """The client learns which member is wrong, and in what way."""
    assert (code, where) == refusal({"model": "m", "messages": MESSAGES, **members})


@pytest.mark.parametrize("name", ["model", "messages"])
def test_what_must_be_there_is_missed(name: str) -> None:
    """A request without a model or without messages is none."""
    members = {"model": "m", "messages": MESSAGES}
    del members[name]
    assert ("missing_required_parameter", name) == refusal(members)


def test_no_refusal_repeats_a_value() -> None:
    """What the client wrote stands in no error."""
    for name in ("model", "messages", "stream", "stream_options", "n", "privacy_profile"):
        with pytest.raises(InvalidRequest) as caught:
            asked(**{name: ["canary"]})
        assert "canary" not in str(caught.value)


def test_of_a_member_that_stands_twice_the_last_alone_is_passed_on() -> None:
    """What is judged is what is sent."""
    request = read(
        b'{"model":"a","model":"b","seed":1,"mod\\u0065l":"c","messages":[{"role":"user"}],"seed":2}'
    )
    assert ("c", b"2") == (request.model, request.members["seed"])


@pytest.mark.parametrize("second", [b"privacy_profile", b"privacy\\u005fprofile", b"seed"])
def test_beside_a_privacy_profile_nothing_stands_twice(second: bytes) -> None:
    """It must be plain how far the document may travel."""
    body = (
        b'{"model":"m","messages":[{"role":"user"}],"seed":1,"privacy_profile":"local_only","'
        + second
        + b'":"cloud_allowed"}'
    )
    assert ("duplicate_member", "privacy_profile") == refusal(body)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": -1}, None),
        ({"max_tokens": 0}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": 7, "max_completion_tokens": 6}, 7),
    ],
)
def test_the_limit_of_the_answer_bounds_it_whichever_member_a_server_heeds(
    limits: dict[str, Any], expected: int | None
) -> None:
    """Of two limits the greater is believed."""
    assert expected == asked(**limits).tokens_max


def schema_format(schema: Any) -> dict[str, Any]:
    """Return a response format with a schema."""
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}


@pytest.mark.parametrize(
    "form",
    [
        None,
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_object", "schema": SCHEMA},
        {"type": "json_schema", "json_schema": {"name": "n"}},
        {"type": "json_schema", "json_schema": {"name": "n", "schema": None}},
        {},
    ],
)
def test_a_format_without_a_schema_is_only_passed_on(form: Any) -> None:
    """There is nothing to hold answers against."""
    request = asked(response_format=form)
    assert request.schema is None
    assert form == json.loads(request.members["response_format"])


@pytest.mark.parametrize(
    "dialect",
    [
        None,
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
    ],
)
def test_a_schema_is_made_ready_to_judge_answers(dialect: str | None) -> None:
    """A schema of an earlier dialect counts where both dialects mean the same by it."""
    schema = SCHEMA | ({} if dialect is None else {"$schema": dialect})
    request = asked(response_format=schema_format(schema))
    assert request.schema is not None
    assert (None, "/required") == (request.schema.check({"a": 1}), request.schema.check({}))


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ([], ""),
        ({"$ref": "http://example.com/s"}, "/$ref"),
        ({"$ref": "file:///etc/passwd"}, "/$ref"),
        ({"type": "strange"}, "/type"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"a": 1}]},
            "/items",
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"p": {"dependencies": {}}},
            },
            "/properties/p/dependencies",
        ),
        ({"properties": {"p": {"pattern": "("}}}, "/properties/p/pattern"),
        ({"anyOf": [{"$ref": "#"}]}, ""),
    ],
)
def test_a_schema_that_cannot_be_judged_is_refused_with_its_place(schema: Any, where: str) -> None:
    """An answer that nobody judged must not look like one that was."""
    code, place = refusal(
        {"model": "m", "messages": MESSAGES, "response_format": schema_format(schema)}
    )
    assert code in {"schema_not_allowed", "invalid_type"}
    assert place is not None
    assert place.startswith("response_format.json_schema.schema")
    assert place.removeprefix("response_format.json_schema.schema").startswith(where)


def test_a_schema_with_a_name_that_stands_twice_is_refused() -> None:
    """Two readers may read two schemas."""
    body = (
        b'{"model":"m","messages":[{"role":"user"}],"response_format":{"type":"json_schema",'
        b'"json_schema":{"schema":{"type":"object","type":"array"}}}}'
    )
    assert ("schema_not_allowed", "response_format.json_schema.schema") == refusal(body)


def test_a_format_that_is_too_long_is_refused() -> None:
    """What is kept ready has a limit."""
    schema = SCHEMA | {"description": "x" * 300_000}
    body = {"model": "m", "messages": MESSAGES, "response_format": schema_format(schema)}
    assert ("invalid_value", "response_format") == refusal(body)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["model", "messages", "stream", "stream_options", "n", "response_format", "max_tokens", "x"]
) | st.text(max_size=6)


@given(st.dictionaries(NAMES, JSON_VALUES, max_size=6))
def test_any_object_is_read_or_refused(members: dict[str, Any]) -> None:
    """Whatever JSON comes, it is a request or an invalid one."""
    body = json.dumps({"model": "m", "messages": MESSAGES, **members}).encode()
    code, kept = "", set(members)
    try:
        kept = set(read(body).members)
    except InvalidRequest as error:
        code = error.code
    assert kept <= {*members, "messages"}
    assert InvalidRequest.default_code != code


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """Whatever bytes come, nothing but a refusal is raised."""
    with pytest.raises(InvalidRequest):
        read(body)
