"""An address means this machine by its literal text, or it does not."""

from __future__ import annotations

import pytest

from casework.config.addresses import AddressError, checked_base_url, host_of, is_loopback


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/v1",
        "http://LOCALHOST:8080/v1",
        "http://127.0.0.1/v1",
        "http://127.255.255.254:1/v1",
        "http://[::1]:8080/v1",
        "http://[0:0:0:0:0:0:0:1]/v1",
    ],
)
def test_loopback_literals_are_loopback(url: str) -> None:
    """Names and addresses that can mean nothing but this machine are loopback."""
    assert is_loopback(host_of(checked_base_url(url)))


@pytest.mark.parametrize(
    "url",
    [
        "http://0.0.0.0/v1",
        "http://2130706433/v1",
        "http://0x7f000001/v1",
        "http://0177.0.0.1/v1",
        "http://127.1/v1",
        "http://127.0.0.01/v1",
        "http://127.0.0.1./v1",
        "http://localhost./v1",
        "http://localhost.localdomain/v1",
        "http://localhost.example/v1",
        "http://127.0.0.1.example/v1",
        "http://ip6-localhost/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "http://[::]/v1",
        "http://[::127.0.0.1]/v1",
        "http://169.254.169.254/v1",
        "http://10.0.0.1/v1",
        "http://128.0.0.1/v1",
    ],
)
def test_everything_else_is_not(url: str) -> None:
    """No other spelling is loopback, wherever a resolver might lead it."""
    assert not is_loopback(host_of(checked_base_url(url)))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1/v1",
        "ftp://127.0.0.1/v1",
        "file:///etc/passwd",
        "http:/127.0.0.1/v1",
        "http://",
        "http:///v1",
        "http://user:secret@127.0.0.1/v1",
        "http://127.0.0.1@evil.example/v1",
        "http://127.0.0.1\\@evil.example/v1",
        "http://evil.example\\.127.0.0.1/v1",
        "http://127.0.0.1/v1?key=secret",
        "http://127.0.0.1/v1#secret",
        "http://127.0.0.1/v1\n",
        "http://127.0.0.1 /v1",
        "http://ex\u00e4mple.com/v1",
        "http://127.0.0.1\u3002evil/v1",
        "http://127.0.0.1:0/v1",
        "http://127.0.0.1:65536/v1",
        "http://127.0.0.1:http/v1",
        "http://127.0.0.1:/v1",
        "http://[::1/v1",
        "http://[::1%25eth0]/v1",
        "http://[localhost]/v1",
        "http://[::1]evil/v1",
        "http://127.0.0.1/a/../v1",
        "http://127.0.0.1/./v1",
        "http://127.0.0.1/" + "a" * 3000 + "/v1",
    ],
)
def test_misleading_addresses_are_refused_without_being_repeated(url: str) -> None:
    """What can be read in two ways, or hides a credential, is refused in words of our own."""
    with pytest.raises(AddressError) as caught:
        checked_base_url(url)
    told = f"{caught.value.problem} {caught.value.remedy}"
    assert "secret" not in told
    assert "evil" not in told
    assert caught.value.remedy


def test_trailing_slashes_and_the_scheme_are_evened_out() -> None:
    """A trailing slash is harmless."""
    assert "http://127.0.0.1:8080/v1" == checked_base_url("HTTP://127.0.0.1:8080/v1//")
