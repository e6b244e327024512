"""A project that is served to four clients, with providers here, in the house and in the cloud."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from casework.config.privacy_profile import PrivacyProfile, ProviderClass
from tests.contract.privacy.bare_client import Fields
from tests.contract.privacy.socket_guard import Sign
from tests.support.key_files import key_entry, key_file

LOCAL, HOUSE, CLOUD = PrivacyProfile
PROFILE_HEADER: Final = "X-Casework-Privacy-Profile"

SETTINGS: Final = """
privacy_profile = "{profile}"
[serve]
shutdown_seconds = 1.0
[interactive]
max_retries = 0
[breaker]
failures = 1000
[embeddings]
window_seconds = 0
[models]
aliases = {{ outside = ["cloud-by-address", "cloud-by-name"], anywhere = ["house", "here"] }}
[[providers]]
id = "cloud-by-address"
adapter = "openai_compatible"
base_url = "https://203.0.113.7/v1"
model = "m"
api_key_env = "CLOUD_KEY"
[[providers]]
id = "cloud-by-name"
adapter = "openai_compatible"
base_url = "https://cloud.example:8443/v1"
model = "m"
[[providers]]
id = "house"
adapter = "openai_compatible"
base_url = "http://198.51.100.4:8000/v1"
class = "self_hosted"
allow_insecure_http = true
model = "m"
[[providers]]
id = "here"
adapter = "openai_compatible"
base_url = "http://localhost:{port}/v1"
model = "echo"
"""

ENVIRON: Final = {"CLOUD_KEY": "sk-cloud", "OPENAI_API_KEY": "sk-openai"}

CLASSES: Final = {
    "cloud-by-address": ProviderClass.CLOUD,
    "cloud-by-name": ProviderClass.CLOUD,
    "house": ProviderClass.SELF_HOSTED,
    "here": ProviderClass.LOCAL,
}
"""The providers in the order in which they are asked."""

WAYS_OUT: Final = {
    "cloud-by-address": (Sign.BEYOND, "203.0.113.7:443"),
    "cloud-by-name": (Sign.LOOK_UP, "cloud.example"),
    "house": (Sign.BEYOND, "198.51.100.4:8000"),
}
"""What the guard sees when one of them is asked, before it refuses."""

KEYS: Final[dict[str, dict[str, object]]] = {
    "wide": {},
    "house": {"privacy_profile": HOUSE},
    "local": {"privacy_profile": LOCAL},
    "picky": {"models": ("here/*", "anywhere")},
}
"""The client keys by label, each with what it narrows."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which a request names how far it may go."""

    key: str = "wide"
    header: PrivacyProfile | None = None
    body: PrivacyProfile | None = None

    @property
    def headers(self) -> Fields:
        """Return the headers that say so."""
        named = [("Authorization", f"Bearer {client_key(self.key)}")]
        if self.header is not None:
            named.append((PROFILE_HEADER, self.header.value))
        return named

    @property
    def members(self) -> dict[str, object]:
        """Return the members of a body that say so."""
        return {} if self.body is None else {"privacy_profile": self.body.value}

    def within(self, ceiling: PrivacyProfile) -> PrivacyProfile:
        """Return the effective profile under what is configured: the narrowest of all."""
        of_key = {"house": HOUSE, "local": LOCAL}.get(self.key)
        named = [ceiling, of_key, self.header, self.body]
        return min((one for one in named if one is not None), key=list(PrivacyProfile).index)

    def __str__(self) -> str:
        return f"key {self.key}, header {self.header}, body {self.body}"


def every_way() -> Iterator[Way]:
    """Yield every combination of a key's, a header's and a body's profile, the narrow ones first.

    Providers that fail are left alone for a while, so that what must not be asked is looked for
    before anything else has failed.
    """
    named = (None, *PrivacyProfile)
    ways = [Way(*one) for one in product(("wide", "house", "local"), named, named)]
    yield from sorted(ways, key=lambda way: list(PrivacyProfile).index(way.within(CLOUD)))


def client_key(label: str) -> str:
    """Return a client's key."""
    return f"cw-{label}-{'0123456789abcdef' * 2}"


def write_keys(folder: Path) -> None:
    """Write the file of client keys into a runtime folder."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = [key_entry(label, client_key(label), **more) for label, more in KEYS.items()]
    key_file(folder, *entries)


def write_served_project(folder: Path, *, profile: PrivacyProfile, port: int) -> Path:
    """Write the project, whose local provider listens on a port.

    Args:
        folder: Where to.
        profile: What is configured.
        port: Of the provider that is here.
    """
    (folder / "config").mkdir(parents=True)
    settings = SETTINGS.format(profile=profile.value, port=port)
    (folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
    write_keys(folder / "runtime")
    return folder


def permitted(profile: PrivacyProfile) -> dict[str, tuple[Sign, str]]:
    """Return by which ways a request may leave this machine under a profile."""
    return {name: way for name, way in WAYS_OUT.items() if profile.permits(CLASSES[name])}
