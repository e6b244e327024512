"""What is listed can be asked for, and what could be asked for is listed, once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import ProviderConfig
from casework.errors import GatewayError
from casework.gateway.model_names import NamedModel, exclusion_note, reachable_names
from casework.gateway.routing import KnownModels, RefusalReason, route
from casework.gateway.scope import UNBOUNDED, Scope

PROVIDERS = """
privacy_profile = "{profile}"
[[providers]]
id = "near"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:1/v1"
model = "qwen2.5:7b"
[[providers]]
id = "far"
adapter = "openai_compatible"
base_url = "https://far.example/v1"
model = "org/big model@1"
[[providers]]
id = "off"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:2/v1"
model = "idle"
enabled = false
[models.aliases]
"gpt-4o-mini" = ["far", "near/small"]
"""
CONFIG = GatewayConfig.parse(PROVIDERS.format(profile="cloud_allowed"))


def listed(
    config: GatewayConfig = CONFIG, *, scope: Scope = UNBOUNDED, known: KnownModels | None = None
) -> dict[str, str | None]:
    """Return the names and who answers, where everybody has keys."""
    names = reachable_names(config, scope=scope, known_models=known or {}, objection=lambda _: None)
    return {named.id: named.provider for named in names}


def test_every_kind_of_name_is_listed() -> None:
    """All providers, aliases, each provider's own model, found models; no disabled provider."""
    assert {
        "auto": None,
        "far/auto": "far",
        "far/org/big model@1": "far",
        "gpt-4o-mini": None,
        "llama3": None,
        "near/auto": "near",
        "near/llama3": "near",
        "near/qwen2.5:7b": "near",
        "far/llama3": "far",
        "org/big model@1": "far",
        "qwen2.5:7b": "near",
    } == listed(known={"near": ("llama3",), "far": ("llama3",)})


def test_names_come_in_one_order() -> None:
    """The list is sorted, whatever the order of the providers."""
    names = reachable_names(
        CONFIG, scope=UNBOUNDED, known_models={"far": ("b", "a")}, objection=lambda _: None
    )
    assert sorted(named.id for named in names) == [named.id for named in names]


def test_a_narrower_profile_takes_names_away() -> None:
    """Who lies beyond the profile is no owner of any name that is left."""
    scope = Scope(profile=PrivacyProfile.LOCAL_ONLY)
    assert {
        "auto": "near",
        "gpt-4o-mini": "near",
        "near/auto": "near",
        "near/qwen2.5:7b": "near",
        "qwen2.5:7b": "near",
    } == listed(scope=scope)


def test_a_key_sees_what_its_patterns_allow() -> None:
    """A pattern may fit the name that is asked for, or the target that it stands for."""
    assert {
        "auto": "far",
        "far/auto": "far",
        "far/org/big model@1": "far",
        "gpt-4o-mini": "far",
        "org/big model@1": "far",
    } == listed(scope=Scope(models=("far/*",)))
    assert {"gpt-4o-mini": None} == listed(scope=Scope(models=("gpt-*",)))


def test_who_has_no_key_is_not_listed() -> None:
    """A provider that could not be asked for want of a credential has no names."""
    names = reachable_names(
        CONFIG,
        scope=UNBOUNDED,
        known_models={},
        objection=lambda p: RefusalReason.MISSING_CREDENTIAL if p.id == "far" else None,
    )
    assert NamedModel("auto", "near") in names
    assert {"near"} == {named.provider for named in names}


MODELS = st.sampled_from(["m", "b/m", "a/m", "auto", "b/auto", "x", "a", "m:1"])


@st.composite
def houses(draw: st.DrawFn) -> tuple[GatewayConfig, dict[str, tuple[str, ...]]]:
    """Make configurations whose names get into each other's way."""
    ids = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True))
    providers = [
        ProviderConfig.model_validate(
            {
                "id": name,
                "adapter": "openai_compatible",
                "base_url": draw(
                    st.sampled_from(["http://127.0.0.1:1/v1", "https://x.example/v1"])
                ),
                "model": draw(MODELS),
                "enabled": draw(st.booleans()),
            }
        )
        for name in ids
    ]
    aliases = draw(
        st.dictionaries(
            MODELS.filter(lambda name: name != "auto"),
            st.lists(st.sampled_from([*ids, f"{ids[0]}/m"]), min_size=1),
            max_size=3,
        )
    )
    config = GatewayConfig.model_validate(
        {
            "providers": [provider.model_dump(by_alias=True) for provider in providers],
            "privacy_profile": draw(st.sampled_from(PrivacyProfile)),
            "models": {"aliases": aliases},
        }
    )
    known = {name: tuple(draw(st.lists(MODELS, unique=True))) for name in ids}
    return config, known


@given(
    house=houses(),
    scope=st.builds(
        Scope,
        profile=st.none() | st.sampled_from(PrivacyProfile),
        models=st.none() | st.lists(st.sampled_from(["*", "a/*", "b/m", "m", "auto"])).map(tuple),
    ),
    keyless=st.sets(st.sampled_from(["a", "b", "c"])),
)
def test_a_name_is_listed_if_and_only_if_somebody_would_be_asked(
    house: tuple[GatewayConfig, dict[str, tuple[str, ...]]], scope: Scope, keyless: set[str]
) -> None:
    """The list agrees with the rule by which names are understood, whatever the names are."""
    config, known = house

    def objection(provider: ProviderConfig) -> RefusalReason | None:
        return RefusalReason.MISSING_CREDENTIAL if provider.id in keyless else None

    names = reachable_names(config, scope=scope, known_models=known, objection=objection)
    models = {name for having in known.values() for name in having}
    models |= {provider.model for provider in config.providers}
    candidates = {"auto", *config.models.aliases, *models}
    for provider in config.providers:
        own = {"auto", provider.model, *known[provider.id]}
        candidates |= {f"{provider.id}/{model}" for model in own}
    expected = {}
    for name in candidates:
        try:
            found = route(name, config, scope=scope, known_models=known, objection=objection)
        except GatewayError:
            continue
        providers = {choice.provider.id for choice in found.choices}
        expected[name] = providers.pop() if len(providers) == 1 else None
    assert expected == {named.id: named.provider for named in names}
    assert len(expected) == len(names)


@pytest.mark.parametrize(
    ("configured", "narrowed", "note"),
    [
        ("cloud_allowed", None, None),
        (
            "local_only",
            None,
            "1 of 2 providers lies beyond the privacy profile local_only and is not asked",
        ),
        (
            "cloud_allowed",
            PrivacyProfile.SELF_HOSTED,
            "1 of 2 providers lies beyond the privacy profile self_hosted and is not asked",
        ),
    ],
)
def test_excluded_providers_are_told_of_in_one_line(
    configured: str, narrowed: PrivacyProfile | None, note: str | None
) -> None:
    """Whoever is switched off is not counted, and nobody is named."""
    config = GatewayConfig.parse(PROVIDERS.format(profile=configured))
    assert note == exclusion_note(config, narrowed)
