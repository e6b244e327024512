"""Members of a request that no server is sent: they choose a destination or carry a credential.

Gateways of many kinds read such members from the body, and a server may be a gateway itself. The
names of the next address, of other models to fall back to, of keys and of headers are the
configuration's alone. A name that some server reads in another case counts as the same name.
"""

from __future__ import annotations

from typing import Final

PRIVACY_MEMBER: Final = "privacy_profile"

NAME_CHARACTERS_MAX: Final = 64
"""Longest name that is told to the client."""

FAMILIAR: Final = frozenset(
    {
        "messages", "audio", "frequency_penalty", "function_call", "functions", "logit_bias",
        "logprobs", "max_completion_tokens", "max_tokens", "metadata", "modalities", "n",
        "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key",
        "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop",
        "store", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
        "verbosity", "web_search_options",
    }
)  # fmt: skip
"""Members that OpenAI documents, and that choose no destination."""

_OURS: Final = frozenset({"model", "stream", "stream_options", PRIVACY_MEMBER})
_DESTINATIONS: Final = frozenset(
    {
        "api_base", "api_type", "api_version", "base_url", "bootstrap_host", "bootstrap_port",
        "custom_llm_provider", "data_sources", "deployment_id", "endpoint", "extra_body",
        "extra_query", "host", "kv_transfer_params", "mcp_servers", "organization", "proxies",
        "proxy", "router_settings_override", "tenant_id", "url", "user_config",
    }
)  # fmt: skip
_OTHER_MODELS: Final = frozenset(
    {
        "content_policy_fallbacks", "context_window_fallbacks", "default_fallbacks", "fallbacks",
        "model_list", "models", "route",
    }
)  # fmt: skip
_CREDENTIALS: Final = frozenset(
    {
        "api_key", "authorization", "client_id", "client_secret", "credentials", "extra_headers",
        "headers", "password", "secret", "token",
    }
)  # fmt: skip
_NEVER: Final = frozenset(
    name.replace("_", "") for name in _OURS | _DESTINATIONS | _OTHER_MODELS | _CREDENTIALS
)
_FAMILIES: Final = ("aws_", "azure_", "langfuse_", "langsmith_", "litellm_", "vertex_", "watsonx_")
_KINDS: Final = ("_endpoint", "_host", "_secret", "_uri", "_url")
_KINDS_IN_ONE_WORD: Final = (
    "accesskey", "accesstoken", "apibase", "apikey", "authtoken", "baseurl", "credentials",
    "password", "secretkey",
)  # fmt: skip


def is_withheld(name: str) -> bool:
    """Tell whether a member is never passed on, whatever its value."""
    folded = name.casefold().replace("-", "_")
    word = folded.replace("_", "")
    return (
        word in _NEVER
        or word.endswith(_KINDS_IN_ONE_WORD)
        or folded.endswith(_KINDS)
        or folded.startswith(_FAMILIES)
    )


def is_misspelt_profile(name: str) -> bool:
    """Tell whether a name is meant for our member and would go unseen."""
    word = name.casefold().replace("-", "").replace("_", "")
    return word == PRIVACY_MEMBER.replace("_", "") and name != PRIVACY_MEMBER


def shown(name: str) -> str:
    """Return as much of a member's name as the client is told."""
    return name[:NAME_CHARACTERS_MAX]
