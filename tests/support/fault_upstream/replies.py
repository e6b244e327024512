"""Writes one reply to a wire, with whatever it is to do wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.support.fault_upstream.chat_shapes import ERROR, Event
from tests.support.fault_upstream.encodings import packer
from tests.support.fault_upstream.faults import Faults
from tests.support.fault_upstream.wire import Wire

DONE: Final = "[DONE]"
LONG_CHARACTERS: Final = 4 * 1024 * 1024
HTML: Final = b"<!doctype html><title>502 Bad Gateway</title>"

BODIES: Final[Mapping[str, bytes]] = {
    "html": HTML,
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "text": b"upstream connect error",
}


@dataclass(slots=True)
class Reply:
    """One reply under way."""

    wire: Wire
    faults: Faults
    request_id: str
    pause_seconds: float
    events_sent: int = 0

    async def before_head(self) -> bool:
        """Do what comes before a reply; tell whether there is to be one."""
        if seconds := self.faults.seconds("wait"):
            await self.wire.pause(seconds)
        return not await self._ends("")

    async def _ends(self, place: str) -> bool:
        """End, or fall silent, if a fault wants it here: nowhere yet, in a body, after events."""
        named = self.faults.named
        if named.get("hang") == place:
            await self.wire.gone.wait()
        elif named.get("reset") == place:
            self.wire.reset()
        elif named.get("close") == place:
            self.wire.close()
        else:
            return False
        return True

    def _head(self, status: int, fields: Mapping[str, str]) -> bytes:
        told = {"x-request-id": self.request_id, "server": "double", **fields}
        for name in ("retry-after", "retry-after-ms", "location"):
            if name in self.faults.options:
                told[name] = self.faults.options[name]
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        return f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode()

    async def json(self, status: int, body: Any) -> None:
        """Write a whole JSON reply."""
        content = self._content(body)
        packing = packer(self.faults.text("encoding"))
        content = packing.piece(content) + packing.last()
        length = len(content) + (100 if "truncated" in self.faults else 0)
        kind = "text/html" if self.faults.text("body") == "html" else "application/json"
        fields = {"content-type": kind, "content-length": str(length)}
        if packing.label:
            fields["content-encoding"] = packing.label
        await self.wire.say(self._head(status, fields))
        half = len(content) // 2
        for piece in _singly(content) if "bytes" in self.faults else [content[:half]]:
            await self.wire.say(piece)
        if await self._ends("body"):
            return
        if "bytes" not in self.faults:
            await self.wire.say(content[half:])
        if {"truncated", "close-idle"} & self.faults.named.keys():
            self.wire.close()

    def _content(self, body: Any) -> bytes:
        kind = self.faults.text("body")
        if kind in BODIES:
            return BODIES[kind]
        if kind == "no-choices":
            body = {name: value for name, value in body.items() if name != "choices"}
        elif kind == "empty-choices":
            body["choices"] = []
        elif kind == "empty-content":
            body["choices"][0]["message"]["content"] = ""
        elif kind == "long":
            body["padding"] = "x" * LONG_CHARACTERS
        return json.dumps(body, ensure_ascii=False).encode()

    async def stream(self, events: Iterable[Event]) -> None:
        """Write a stream of server-sent events."""
        packing = packer(self.faults.text("encoding"))
        fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        if packing.label:
            fields["content-encoding"] = packing.label
        await self.wire.say(self._head(200, fields))
        pause = self.faults.seconds("pause") or self.pause_seconds
        if "bom" in self.faults:
            await self._chunk(packing.piece(b"\xef\xbb\xbf"))
        for text in self._lines(events):
            if await self._ends(str(self.events_sent)):
                return
            if self.faults.number("ends") == self.events_sent:
                break
            if pause and self.events_sent:
                await self.wire.pause(pause)
            await self._piece(packing.piece(self._framed(text)))
            self.events_sent += 1
        if rest := packing.last():
            await self._chunk(rest)
        await self.wire.say(b"0\r\n\r\n")
        if "close-idle" in self.faults:
            self.wire.close()

    def _lines(self, events: Iterable[Event]) -> Iterator[str]:
        """Yield the data of each event."""
        if self.faults.text("body") == "empty":
            return
        for number, event in enumerate(events, start=1):
            if number == self.faults.number("error"):
                yield json.dumps({"error": ERROR})
                return
            if number == self.faults.number("no-choices"):
                yield json.dumps({"object": "double.extra", "note": "no choices here"})
            if number == self.faults.number("malformed"):
                yield '{"id": "chatcmpl-'
            elif number == self.faults.number("error-choices"):
                yield json.dumps({**event, "choices": [], "error": ERROR})
            else:
                yield json.dumps(event, ensure_ascii=False)
        if "no-done" not in self.faults:
            yield DONE

    def _framed(self, text: str) -> bytes:
        data = "data:" if "tight" in self.faults else "data: "
        lines = [f"{data}{text}"]
        if "multiline" in self.faults and ", " in text:
            lines = [f"{data}{part}" for part in text.replace(", ", ",\n", 1).split("\n")]
        if "fields" in self.faults:
            lines = [f"id: {self.events_sent}", "event: message", *lines, "retry: 1000"]
        if "comments" in self.faults:
            lines = [": PROCESSING", "", ":", *lines]
        end = "\r\n" if "crlf" in self.faults else "\r" if "cr" in self.faults else "\n"
        return (end.join([*lines, "", ""])).encode()

    async def _piece(self, content: bytes) -> None:
        if "bytes" in self.faults:
            for byte in _singly(content):
                await self._chunk(byte)
        elif content:
            await self._chunk(content)

    async def _chunk(self, content: bytes) -> None:
        await self.wire.say(b"%x\r\n%b\r\n" % (len(content), content))


def _singly(content: bytes) -> list[bytes]:
    return [content[at : at + 1] for at in range(len(content))]
