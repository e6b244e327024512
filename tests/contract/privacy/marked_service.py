"""A service in which every secret and every text is a mark, and clients that try everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.contract.privacy.bare_client import BareClient, Bytes, Fields, written
from tests.contract.privacy.faulty_service import STREAM_FAULTS
from tests.contract.privacy.faulty_upstream import FAULTS, document
from tests.contract.privacy.guarded import Ended
from tests.contract.privacy.marked_project import SECRETS, entry
from tests.contract.privacy.marks import Mark
from tests.support.key_files import key_entry, key_file

FILE_KEY: Final = f"cw-{Mark.CLIENT}-of-the-file"
PROXY_KEY: Final = f"cw-{Mark.CLIENT}-of-the-environment"

ENVIRON: Final = {**SECRETS, "PROXY_API_KEY": PROXY_KEY, "ADMIN_API_KEY": Mark.NEIGHBOUR}

SPARES: Final = 60
"""Entries for the faulty server, one for each fault that makes a key rest."""

SERVING: Final = """
privacy_profile = "cloud_allowed"
[serve]
shutdown_seconds = 1.0
max_request_bytes = 32768
[interactive]
max_retries = 0
idle_seconds = 0.4
keepalive_seconds = 0.1
first_keepalive_seconds = 0.1
[breaker]
failures = 1000
[embeddings]
window_seconds = 0.01
[models.aliases]
everybody = ["refused", "unnamed", "stalled", "faulty", "unproven"]
"""


def marked_settings(*, faulty: int, stalled: int, refused: int, unproven: int) -> str:
    """Return the settings of the service, with servers that listen on these ports."""
    return SERVING + "".join(
        (
            entry("refused", f"http://127.0.0.1:{refused}"),
            entry("unnamed", f"https://{Mark.HOST}.example"),
            entry("stalled", f"http://127.0.0.1:{stalled}", "timeout_seconds = 0.2"),
            entry("faulty", f"http://localhost:{faulty}"),
            entry("unproven", f"https://127.0.0.1:{unproven}"),
            *(entry(f"spare-{n}", f"http://127.0.0.1:{faulty}") for n in range(SPARES)),
        )
    )


def write_marked_service(folder: Path, settings: str) -> None:
    """Write the project, with one client key in its file."""
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
    (folder / "runtime").mkdir()
    key_file(folder / "runtime", key_entry("intake", FILE_KEY))


STRAY: Final[Fields] = tuple(
    (name, f"{Mark.STRAY} {name}")
    for name in (
        *("X-Api-Key", "Api-Key", "X-Auth-Token", "X-Goog-Api-Key", "Anthropic-Api-Key"),
        *("Proxy-Authorization", "Cookie", "X-Amz-Security-Token", "OpenAI-Organization"),
        *("OpenAI-Project", "OpenAI-Beta", "User-Agent", "Referer", "Origin", "From", "Accept"),
        *("Accept-Language", "X-Forwarded-For", "X-Forwarded-User", "Forwarded", "Via"),
        *("traceparent", "tracestate", "baggage", "X-Amzn-Trace-Id", "X-Correlation-Id"),
        *("X-Stainless-Lang", "HTTP-Referer", "X-Title", "X-Anything", "If-None-Match", "Range"),
    )
)
"""Headers of a client that mean nothing here, and nothing to anybody behind us."""

WITHHELD: Final[dict[str, Any]] = {
    "api_key": f"sk-{Mark.WITHHELD}",
    "api_base": f"https://{Mark.WITHHELD}.example/v1",
    "extra_headers": {"Authorization": f"Bearer {Mark.WITHHELD}"},
    "aws_secret_access_key": Mark.WITHHELD,
    "user_config": [{"api_key": Mark.WITHHELD}],
    f"{Mark.MEMBER}_url": Mark.WITHHELD,
    "stream_options": {"include_usage": True, Mark.MEMBER: Mark.WITHHELD},
}
"""Members of a body that are kept from everybody."""

SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": Mark.TASK}},
    "required": ["answer"],
    "additionalProperties": False,
}
FORM: Final = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
TOOL: Final = {
    "type": "function",
    "function": {"name": "look", "description": Mark.TASK, "parameters": SCHEMA},
}
CALLED: Final = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": Mark.DOCUMENT,
            "type": "function",
            "function": {"name": "look", "arguments": f'{{"answer": "{Mark.DOCUMENT}"}}'},
        }
    ],
}
TOLD: Final = {"role": "tool", "tool_call_id": Mark.DOCUMENT, "content": Mark.DOCUMENT}

CHAT, VECTORS = "/v1/chat/completions", "/v1/embeddings"

KINDS: Final = ("whole", "judged", "stream", "kept", "vectors")
"""How a text is asked about: the second one with a schema, the fourth one under a key."""


def body_of(kind: str, text: str, model: str) -> dict[str, Any]:
    """Return a request about a text, with marks wherever a client can write."""
    further = {"user": Mark.DOCUMENT, Mark.MEMBER: {Mark.MEMBER: Mark.DOCUMENT}, **WITHHELD}
    if kind == "vectors":
        return {"model": model, "input": [text, Mark.DOCUMENT], **further}
    system = {"role": "system", "content": Mark.TASK}
    body = {
        "model": model,
        "messages": [system, CALLED, TOLD, {"role": "user", "content": [text], "name": "m"}],
        "metadata": {"note": Mark.DOCUMENT},
        "tools": [TOOL],
        "stop": [Mark.DOCUMENT],
        **further,
    }
    if kind == "judged":
        body["response_format"] = FORM
    if kind == "stream":
        body["stream"] = True
    return body


def headers_of(kind: str, number: int = 0, *, seconds: float = 5.0, key: str = FILE_KEY) -> Fields:
    """Return the headers of a request: what we listen to, and much else."""
    named = [
        ("Authorization", f"Bearer {key}"),
        ("X-Request-Id", f"{Mark.REQUEST}-{number}"),
        ("X-Casework-Deadline-Seconds", str(seconds)),
        *STRAY,
    ]
    if kind == "kept":
        named += [
            ("Idempotency-Key", f"{Mark.CALL}-{number}"),
            ("X-Casework-Case", f"case {Mark.CALL} {number % 3}"),
            ("X-Casework-Operation", f"operation {Mark.CALL} {number}"),
        ]
    return named


def target_of(kind: str) -> str:
    """Return where a request goes, with something in its target that nobody reads."""
    path = VECTORS if kind == "vectors" else CHAT
    return f"{path}?api_key={Mark.STRAY}&model={Mark.STRAY}"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and what of it may come back to its client."""

    name: str
    request: bytes
    allowed: frozenset[Mark] = frozenset()
    """Texts of the answer, or the client's own."""


@dataclass(slots=True)
class Clients:
    """Clients of one service, and every reply that they got."""

    client: BareClient
    replies: dict[str, tuple[Asked, Bytes]] = field(default_factory=dict)

    async def send(self, asked: Asked) -> Bytes:
        """Send a request and keep its reply."""
        assert asked.name not in self.replies
        reply = await self.client.send(asked.request)
        self.replies[asked.name] = asked, reply
        return reply


RESTING: Final = frozenset({"http-401", "http-403"})
"""Faults that make a key rest."""

OWN: Final = frozenset({Mark.REQUEST})
"""The id that a client gave its request comes back with every reply."""
ANSWER: Final = OWN | {Mark.ANSWER, Mark.EXTRA, Mark.MODEL, Mark.MEMBER}
"""An answer is passed on with all that the server wrote into it; its headers name the model, and
the members that were withheld."""
DOUBTFUL: Final = OWN | {Mark.REJECTED, Mark.EXTRA, Mark.MODEL, Mark.MEMBER}
"""An answer that is passed on as OpenAI's own servers pass it on."""

PASSED_ON: Final[Mapping[str, frozenset[Mark]]] = {
    "accepted": ANSWER,
    "filtered": DOUBTFUL,
    "declined": DOUBTFUL,
    "truncated": DOUBTFUL,
}
"""Replies that are answers, with a schema or without."""
UNJUDGED: Final[Mapping[str, frozenset[Mark]]] = {
    **PASSED_ON,
    "no-json": DOUBTFUL,
    "twice": DOUBTFUL,
    "wrong-value": DOUBTFUL,
    "wrong-name": DOUBTFUL | {Mark.ANSWER},
    "blank": DOUBTFUL - {Mark.REJECTED},
}
"""Those that are answers where no schema was sent."""
UNBEGUN: Final = frozenset({"error-first", "garbage-first", "comments-only", "html"})
"""Streams that fail before anything of them was passed on."""
STREAMED: Final[Mapping[str, frozenset[Mark]]] = {
    "accepted": ANSWER,
    "filtered": DOUBTFUL,
    **dict.fromkeys(frozenset(STREAM_FAULTS) - UNBEGUN, ANSWER),
}
MAY_COME_BACK: Final[Mapping[str, Mapping[str, frozenset[Mark]]]] = {
    "whole": UNJUDGED,
    "judged": PASSED_ON,
    "stream": STREAMED,
    "kept": UNJUDGED,
    "vectors": {"accepted": OWN | {Mark.MODEL, Mark.MEMBER, Mark.EXTRA}},
}
"""Which faults of which kind of request end in an answer or in a part of one, and what of it the
client may be told; of every other one it is told nothing but its own id."""


def every_fault() -> Iterator[Asked]:
    """Yield one request of each kind for each fault; each time another model is asked for."""
    spares = iter(range(SPARES))
    number = 0
    for kind in KINDS:
        faults = [*FAULTS, *(STREAM_FAULTS if kind == "stream" else ())]
        for fault in faults:
            number += 1
            provider = f"spare-{next(spares)}" if fault in RESTING else "faulty"
            body = body_of(kind, document(fault), f"{provider}/{Mark.MODEL}-{number}")
            headers = headers_of(kind, number, seconds=0.4 if fault == "stalled" else 5.0)
            yield Asked(
                f"{kind} {fault}",
                written("POST", target_of(kind), headers=headers, body=body),
                MAY_COME_BACK[kind].get(fault, OWN),
            )
    for kind in KINDS:
        number += 1
        body = body_of(kind, document("http-503"), "everybody")
        yield Asked(
            f"{kind} everybody",
            written("POST", target_of(kind), headers=headers_of(kind, number), body=body),
            OWN,
        )


def kept_again(asked: Sequence[Asked]) -> Iterator[Asked]:
    """Yield what a client asks for again under the same key, and one other thing under it."""
    for one in asked:
        if one.name.startswith("kept "):
            yield Asked(f"{one.name} again", one.request, one.allowed)
    (first,) = (one for one in asked if one.name == "kept accepted")
    yield Asked("kept conflict", first.request.replace(b'"name": "m"', b'"name": "n"'), OWN)


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What is left when everything has happened."""

    replies: Mapping[str, tuple[Asked, Bytes]]
    ended: Ended
    said: Mapping[str, Ended]
    """How each line ended that was typed afterwards."""
    files: Mapping[str, bytes]
    heard: Mapping[str, bytes]
    """Every request that a server was sent, byte for byte."""
    command_line: bytes
    """Of the process, as everybody on the machine can read it."""
