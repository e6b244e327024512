"""A model string means one thing, and what it may reach is never more than was allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError, GatewayError, InvalidRequest, PrivacyViolation
from casework.gateway.plan import RoundPolicy
from casework.gateway.routing import (
    NAME_CHARACTERS_MAX,
    RefusalReason,
    Route,
    RouteReason,
    route,
    survey,
)
from casework.gateway.scope import UNBOUNDED, Scope

CONFIG = GatewayConfig.parse("""
privacy_profile = "cloud_allowed"
[[providers]]
id = "near"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:1/v1"
model = "qwen2.5:7b"
[[providers]]
id = "Far"
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
"gpt-4o-mini" = ["Far", "near/small"]
"near/odd" = "Far"
""")
KNOWN = {"near": ("qwen2.5:7b", "llama3"), "Far": ("vendor/llama3:latest",)}


def ask(name: str, scope: Scope = UNBOUNDED, **changes: object) -> Route:
    """Route a name."""
    config = CONFIG.model_copy(update=changes)
    return route(name, config, scope=scope, known_models=KNOWN, objection=lambda _: None)


@pytest.mark.parametrize(
    ("name", "reason", "targets"),
    [
        ("auto", RouteReason.AUTO, ["near/qwen2.5:7b", "Far/org/big model@1"]),
        ("gpt-4o-mini", RouteReason.ALIAS, ["Far/org/big model@1", "near/small"]),
        ("near/odd", RouteReason.ALIAS, ["Far/org/big model@1"]),
        ("near/auto", RouteReason.PROVIDER_AUTO, ["near/qwen2.5:7b"]),
        ("near/qwen2.5:7b", RouteReason.PROVIDER_MODEL, ["near/qwen2.5:7b"]),
        ("near/a/b:c@d e", RouteReason.PROVIDER_MODEL, ["near/a/b:c@d e"]),
        ("FAR/x", RouteReason.PROVIDER_MODEL, ["Far/x"]),
        ("qwen2.5:7b", RouteReason.BARE_MODEL, ["near/qwen2.5:7b"]),
        ("llama3", RouteReason.BARE_MODEL, ["near/llama3"]),
        ("org/big model@1", RouteReason.BARE_MODEL, ["Far/org/big model@1"]),
        ("vendor/llama3:latest", RouteReason.BARE_MODEL, ["Far/vendor/llama3:latest"]),
    ],
)
def test_a_name_is_understood_by_the_first_rule_that_fits(
    name: str, reason: RouteReason, targets: list[str]
) -> None:
    """Whole names go before prefixes, and what stands after the first slash stays whole."""
    found = ask(name)
    assert (reason, targets) == (found.reason, [choice.name for choice in found.choices])


@pytest.mark.parametrize("name", ["near/auto", "near/x", "FAR/x"])
def test_a_name_with_a_providers_prefix_is_strict(name: str) -> None:
    """Nobody else is ever asked in its place."""
    found = ask(name)
    assert (RoundPolicy.INTERACTIVE_STRICT, 1) == (found.policy, len(found.choices))


@pytest.mark.parametrize("name", ["auto", "gpt-4o-mini", "llama3"])
def test_other_names_may_fail_over(name: str) -> None:
    """They stand for whoever can answer."""
    assert RoundPolicy.INTERACTIVE_AUTO is ask(name).policy


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nobody",
        "/",
        "near/",
        "/x",
        "nobody/x",
        "AUTO",
        "near",
        "near/" + "x" * NAME_CHARACTERS_MAX,
    ],
)
def test_an_unknown_name_is_not_found(name: str) -> None:
    """It is never taken for something similar."""
    with pytest.raises(InvalidRequest) as caught:
        ask(name)
    assert "model_not_found" == caught.value.code


def test_a_target_beyond_the_profile_is_a_privacy_violation() -> None:
    """However the name was written, and whoever narrowed the profile."""
    narrow = Scope(profile=PrivacyProfile.LOCAL_ONLY)
    for name in ("Far/x", "org/big model@1", "near/odd"):
        with pytest.raises(PrivacyViolation) as caught:
            ask(name, narrow)
        assert "privacy_profile" == caught.value.code
    with pytest.raises(PrivacyViolation):
        ask("Far/x", privacy_profile=PrivacyProfile.LOCAL_ONLY)


def test_what_is_refused_is_told_with_its_reason() -> None:
    """An alias loses the targets that may not be asked, and says so."""
    found = ask("gpt-4o-mini", Scope(profile=PrivacyProfile.SELF_HOSTED))
    assert ["near/small"] == [choice.name for choice in found.choices]
    assert [("Far/org/big model@1", RefusalReason.PRIVACY_PROFILE)] == [
        (refusal.choice.name, refusal.reason) for refusal in found.refused
    ]


def test_a_key_that_allows_a_public_name_allows_whom_it_stands_for() -> None:
    """An alias is one allowed thing; auto is narrowed to targets that are allowed by name."""
    assert 2 == len(ask("gpt-4o-mini", Scope(models=("gpt-*",))).choices)
    near = ask("auto", Scope(models=("near/*",)))
    assert ["near/qwen2.5:7b"] == [choice.name for choice in near.choices]
    for name in ("Far/x", "gpt-4o-mini"):
        with pytest.raises(InvalidRequest) as caught:
            ask(name, Scope(models=("llama3",)))
        assert "model_not_allowed" == caught.value.code


def test_a_disabled_provider_cannot_be_asked_for() -> None:
    """Its name is known, and nobody is left."""
    with pytest.raises(ConfigurationError) as caught:
        ask("off/idle")
    assert "no_eligible_provider" == caught.value.code


def test_a_model_that_cannot_do_this_is_the_clients_mistake() -> None:
    """Whoever could be asked for it is not capable; the configuration is not at fault."""
    for name in ("auto", "near/x"):
        with pytest.raises(InvalidRequest) as caught:
            route(
                name,
                CONFIG,
                scope=UNBOUNDED,
                known_models=KNOWN,
                objection=lambda _: RefusalReason.NOT_CAPABLE,
            )
        assert "model_not_capable" == caught.value.code


def test_a_survey_tells_of_a_route_that_leads_to_nobody() -> None:
    """Everybody is named with the reason, and nothing is raised."""
    narrow = Scope(profile=PrivacyProfile.LOCAL_ONLY)
    found = survey("Far/x", CONFIG, scope=narrow, known_models=KNOWN, objection=lambda _: None)
    assert () == found.choices
    assert [("Far/x", RefusalReason.PRIVACY_PROFILE)] == [
        (refusal.choice.name, refusal.reason) for refusal in found.refused
    ]


@given(
    name=st.text(max_size=40) | st.sampled_from(["auto", "Far/x", "near/x", "gpt-4o-mini"]),
    profile=st.sampled_from([None, *PrivacyProfile]),
    ceiling=st.sampled_from(list(PrivacyProfile)),
    models=st.none() | st.lists(st.sampled_from(["*", "near/*", "auto", "gpt-*"])).map(tuple),
)
def test_no_route_reaches_beyond_ceiling_profile_or_key(
    name: str,
    profile: PrivacyProfile | None,
    ceiling: PrivacyProfile,
    models: tuple[str, ...] | None,
) -> None:
    """Whatever the client writes, every target is permitted by all that narrows it."""
    try:
        found = ask(name, Scope(profile=profile, models=models), privacy_profile=ceiling)
    except GatewayError:
        return
    for choice in found.choices:
        provider: ProviderConfig = choice.provider
        assert provider.enabled
        assert ceiling.narrowed_by(profile).permits(provider.provider_class)
