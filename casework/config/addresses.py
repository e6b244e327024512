"""Judge a base URL by its literal text alone; no name is ever resolved here."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

URL_CHARACTERS_MAX: Final = 2048

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9.])?")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:%-]*)*")
_PORT_MAX: Final = 65535


class AddressError(ValueError):
    """The text is no base URL that may be called. Carries no part of the text.

    Args:
        problem: What is wrong, as the rest of a sentence that begins with the setting's name.
        remedy: The way out.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


def checked_base_url(text: str) -> str:
    """Return a base URL without its trailing slashes if nothing in it can mislead.

    Only plain ASCII forms pass, so that every reader of the text sees the same host.

    Raises:
        AddressError: The text is not such a URL.
    """
    form = "write it like https://host.example/v1"
    if len(text) > URL_CHARACTERS_MAX or not text.isascii() or not text.isprintable():
        raise AddressError("is too long or holds characters that no URL may hold", form)
    scheme, separator, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    if separator == "" or scheme.lower() not in {"http", "https"}:
        raise AddressError("is neither an http:// nor an https:// URL", form)
    if "@" in rest or "?" in rest or "#" in rest:
        raise AddressError(
            "carries a user name, a query or a fragment, where credentials hide",
            "leave only scheme, host, port and path, and name the key's variable in api_key_env",
        )
    _check_authority(authority, form)
    path = (slash + path).rstrip("/")
    if not _PATH.fullmatch(path) or any(part in {".", ".."} for part in path.split("/")):
        raise AddressError("has a path that cannot be read one way only", form)
    return f"{scheme.lower()}://{authority}{path}"


def host_of(base_url: str) -> str:
    """Return the literal host of a checked base URL, in lower case and without brackets."""
    return urlsplit(base_url).hostname or ""


def is_loopback(host: str) -> bool:
    """Tell whether a literal host can mean nothing but this machine.

    ``localhost``, ``127.0.0.0/8`` in plain dotted decimals and ``::1`` do. No other name or
    spelling does, wherever it may resolve to.
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address == ipaddress.IPv6Address("::1") and "%" not in host
    return address.is_loopback


def _check_authority(authority: str, form: str) -> None:
    if authority.startswith("["):
        literal, bracket, after = authority[1:].partition("]")
        try:
            ipaddress.IPv6Address(literal)
        except ValueError:
            raise AddressError("has a bracketed host that is no IPv6 address", form) from None
        if bracket == "" or "%" in literal:
            raise AddressError("has a bracketed host that is no IPv6 address", form)
    else:
        host, colon, port = authority.partition(":")
        after = colon + port
        if not _HOST.fullmatch(host):
            raise AddressError(
                "has no host name or one outside plain ASCII",
                "write an international name in its xn-- form",
            )
    if after and not (re.fullmatch(r":[0-9]{1,5}", after) and 0 < int(after[1:]) <= _PORT_MAX):
        raise AddressError("has a port outside 1 to 65535", form)
