"""Settings load whole or not at all, and what is wrong is told on one line."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from casework.config import (
    GatewayConfig,
    PrivacyProfile,
    ProviderClass,
    ProviderConfig,
    example_toml,
)
from casework.config.providers import IN_PROCESS_ADAPTERS
from casework.errors import ConfigurationError

LOCAL = """[[providers]]
id = "a"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:8080/v1"
model = "m"
"""
CLOUD = LOCAL.replace("http://127.0.0.1:8080", "https://api.cloud.example")
SECRET = "sk-canary0123456789abcdef"


def refusal(text: str) -> str:
    """Return the one line with which a text is refused."""
    with pytest.raises(ConfigurationError) as caught:
        GatewayConfig.parse(text, source="llm.toml")
    assert "\n" not in str(caught.value)
    assert "config_error" == caught.value.code
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


def test_defaults_are_those_of_the_design() -> None:
    """A minimal file gives the defaults that operations freeze."""
    config = GatewayConfig.parse(LOCAL)
    assert PrivacyProfile.LOCAL_ONLY is config.privacy_profile
    assert (10, 60.0, 3600.0) == (
        config.retry.rounds_max,
        config.retry.retry_delay_seconds,
        config.retry.blocked_retry_seconds,
    )
    assert (True, 3600.0) == (
        config.retry.honour_retry_after,
        config.retry.retry_after_max_seconds,
    )
    assert ("USD", "jsonschema-rs") == (config.cost.currency, config.validation.engine)
    provider = config.providers[0]
    assert (30.0, 1024 * 1024, 1024 * 1024) == (
        provider.timeout_seconds,
        provider.request_bytes_max,
        provider.response_bytes_max,
    )
    assert ("json_schema", "max_completion_tokens") == (
        provider.response_format,
        provider.token_parameter,
    )
    assert (True, None, ()) == (provider.enabled, provider.rates, provider.api_key_env)


def test_providers_keep_their_order_and_disabled_ones_are_skipped() -> None:
    """File order is the order of a round."""
    entries = [LOCAL.replace('"a"', f'"{name}"') for name in ("z", "b", "m")]
    entries[1] += "enabled = false\n"
    config = GatewayConfig.parse("".join(entries))
    assert ["z", "b", "m"] == [provider.id for provider in config.providers]
    assert ["z", "m"] == [provider.id for provider in config.enabled_providers]


EVERYTHING = (
    'privacy_profile = "cloud_allowed"\n'
    + CLOUD
    + """class = "self_hosted"
api_key_env = ["ONE", "TWO"]
enabled = false
timeout_seconds = 5
response_format = "none"
token_parameter = "max_tokens"
max_request_bytes = 10
max_response_bytes = 20
rates = { input_per_million = 0.1, output_per_million = 2, currency = "EUR" }
allow_insecure_http = true
file = 'some file'
ca_file = 'ca.pem'
[retry]
max_attempts = 3
retry_delay_seconds = 1.5
blocked_retry_seconds = 2
honour_retry_after = false
retry_after_max_seconds = 9
[cost]
currency = "EUR"
[validation]
engine = "jsonschema"
"""
)


def test_every_setting_is_read() -> None:
    """Each key of the file changes the value that carries its name in code."""
    config = GatewayConfig.parse(EVERYTHING)
    provider = config.providers[0]
    assert PrivacyProfile.CLOUD_ALLOWED is config.privacy_profile
    assert ProviderClass.SELF_HOSTED is provider.provider_class
    assert (("ONE", "TWO"), False, 5.0) == (
        provider.api_key_env,
        provider.enabled,
        provider.timeout_seconds,
    )
    assert ("none", "max_tokens", 10, 20) == (
        provider.response_format,
        provider.token_parameter,
        provider.request_bytes_max,
        provider.response_bytes_max,
    )
    assert provider.rates is not None
    assert (Decimal("0.1"), Decimal(2), "EUR") == (
        provider.rates.input_per_million,
        provider.rates.output_per_million,
        provider.rates.currency,
    )
    assert (True, Path("some file"), Path("ca.pem")) == (
        provider.allow_insecure_http,
        provider.file,
        provider.ca_file,
    )
    assert (3, 1.5, 2.0, False, 9.0) == (
        config.retry.rounds_max,
        config.retry.retry_delay_seconds,
        config.retry.blocked_retry_seconds,
        config.retry.honour_retry_after,
        config.retry.retry_after_max_seconds,
    )
    assert ("EUR", "jsonschema") == (config.cost.currency, config.validation.engine)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1:1", "providers is missing"),
        ("providers = []", "1:1", "lists nobody"),
        ("providers = 3", "1:1", "[[providers]]"),
        ("max_attempts = 3\n" + LOCAL, "1:1", "it belongs below retry"),
        ('[providers]\nid = "a"', "1:1", "[[providers]]"),
        (LOCAL + 'api_key = "x"', "6:1", "name it in api_key_env"),
        (LOCAL + 'token = "x"', "6:1", "name it in api_key_env"),
        (LOCAL + 'Authorization = "x"', "6:1", "name it in api_key_env"),
        (LOCAL + 'modle = "x"', "6:1", 'did you mean "model"?'),
        (LOCAL + 'api_key_ev = "X"', "6:1", 'did you mean "api_key_env"?'),
        (LOCAL + "provider_class = 'local'", "6:1", "known here"),
        (LOCAL + "zzz = 1", "6:1", "known here"),
        ("source = 'x'\n" + LOCAL, "1:1", "unknown key"),
        (LOCAL + "[retry]\nmax_attempt = 3", "7:1", 'did you mean "max_attempts"?'),
        (LOCAL + "[retries]\nmax_attempts = 3", "6:1", 'did you mean "retry"?'),
        (LOCAL + LOCAL, "7:1", '"a" is taken by an earlier entry'),
        (LOCAL.replace('model = "m"', ""), "1:1", "model is missing"),
        (LOCAL.replace('id = "a"', ""), "1:1", "id is missing"),
        (LOCAL.replace('"m"', '""'), "5:1", "model is missing"),
        (LOCAL.replace('"m"', f'"{"m" * 300}"'), "5:1", "longer than 256"),
        (LOCAL.replace('"a"', '"a b"'), "2:1", "form that is not allowed"),
        (LOCAL.replace('"a"', "7"), "2:1", "write it in quotes"),
        (re.sub("base_url.*\n", "", LOCAL), "1:1", "base_url is missing"),
        (LOCAL.replace("/v1", "/v2"), "4:1", "does not end in /v1"),
        (LOCAL.replace("/v1", "/chat/completions"), "4:1", "does not end in /v1"),
        (LOCAL.replace("127", f"u:{SECRET}@127"), "4:1", "credentials hide"),
        (LOCAL.replace("/v1", f"/v1?key={SECRET}"), "4:1", "credentials hide"),
        (LOCAL.replace("/v1", f"/{SECRET}/v1"), "4:1", "looks like a key"),
        (LOCAL.replace("127.0.0.1", "10.0.0.1"), "1:1", "allow_insecure_http is needed"),
        (LOCAL.replace("127.0.0.1", "2130706433"), "1:1", "allow_insecure_http is needed"),
        (CLOUD + 'class = "local"', "6:1", "not a loopback literal"),
        (
            LOCAL.replace("127.0.0.1", "0.0.0.0") + "allow_insecure_http = true\nclass = 'local'",
            "7:1",
            "not a loopback literal",
        ),
        (LOCAL + 'class = "nearby"', "6:1", "none of the words allowed"),
        ('privacy_profile = "open"\n' + LOCAL, "1:1", "local_only"),
        (LOCAL + "timeout_seconds = '3'", "6:1", "is no number"),
        (LOCAL + "timeout_seconds = 0", "6:1", "out of range"),
        (LOCAL + "timeout_seconds = inf", "6:1", "no finite number"),
        (LOCAL + "timeout_seconds = nan", "6:1", "no finite number"),
        (LOCAL + "timeout_seconds = true", "6:1", "is no number"),
        (LOCAL + "max_request_bytes = 1.5", "6:1", "no whole number"),
        (LOCAL + "max_request_bytes = 0", "6:1", "out of range"),
        (LOCAL + "max_request_bytes = 99999999999", "6:1", "out of range"),
        (LOCAL + "enabled = 1", "6:1", "true or false"),
        (LOCAL + "enabled = 'true'", "6:1", "true or false"),
        (LOCAL + "rates = { input_per_million = 1 }", "6:1", "output_per_million is missing"),
        (
            LOCAL + "[providers.rates]\noutput_per_million = 1\ninput_per_million = -1",
            "8:1",
            "range",
        ),
        (
            LOCAL + "rates = { input_per_million = true, output_per_million = 1 }",
            "6:11",
            "no number",
        ),
        (LOCAL + "rates = { input_per_million = nan, output_per_million = 1 }", "6:11", "finite"),
        (LOCAL + "rates = 3", "6:1", "no table"),
        (LOCAL + "response_format = 'yaml'", "6:1", "json_object"),
        (LOCAL + f'api_key_env = "{SECRET}"', "6:1", "no name of an environment variable"),
        (LOCAL + "api_key_env = 'hf_abcdefABCDEF0123456789abcd'", "6:1", "no name of an env"),
        (LOCAL + "api_key_env = 'a1b2c3d4e5f6a7b8c9d0e1f2'", "6:1", "no name of an env"),
        (LOCAL + "api_key_env = ['GOOD', '1BAD']", "6:1", "no name of an environment variable"),
        (LOCAL + "api_key_env = ['A', 'A']", "6:1", "twice"),
        (LOCAL + "api_key_env = 'PROXY_API_KEY'", "6:1", "lets clients in here"),
        (LOCAL + "api_key_env = ['GOOD', 'admin_api_key']", "6:1", "the provider's own key"),
        (LOCAL + "api_key_env = 3", "6:1", "no list"),
        (LOCAL + 'file = "C:\\temp"', "6:1", "single quotes"),
        (LOCAL + 'file = "C:\\Users"', "6:11", "single quotes"),
        (LOCAL + 'file = "C:\\mine"', "6:11", "single quotes"),
        (LOCAL + "file = ''", "6:1", "file is empty"),
        (LOCAL + "file = 3", "6:1", "no path"),
        ("\ufeff" + LOCAL, "1:1", "byte order mark"),
        (LOCAL + "[retry]\n[retry]\n", "7:7", "written twice"),
        (LOCAL + "id = 'b'", "6:9", "written twice"),
        ("[[p]]\n[p]\n", "2:3", "written twice"),
        (LOCAL + "model == 1", "6:8", "not TOML"),
        (LOCAL + 'x = "\x00"', "6:6", "not TOML"),
        (LOCAL + "x = [1,", "6:8", "not TOML"),
        (LOCAL + "[cost]\ncurrency = 'usd'", "7:1", "form that is not allowed"),
        (LOCAL + "[validation]\nengine = 'ajv'", "7:1", "jsonschema-rs"),
        (
            '[[providers]]\nid = "r"\nadapter = "rules"\nbase_url = "http://127.0.0.1/v1"',
            "4:1",
            "answers in this process",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, words: str) -> None:
    """Each fault has one line: file, line, column, what, and the way out."""
    told = refusal(text)
    assert told.startswith(f"llm.toml:{place}: "), told
    assert words in told
    assert told.endswith("[config_error]")
    assert "; " in told, "no way out is named"
    assert SECRET not in told


def test_the_first_of_several_faults_in_the_file_is_told() -> None:
    """A file with many faults is mended from its top."""
    told = refusal(LOCAL + "enabled = 1\ntimeout_seconds = 0\nnonsense = 1")
    assert told.startswith("llm.toml:6:1: enabled")


def test_line_ends_of_windows_do_not_shift_the_place() -> None:
    """Lines are counted the same with CR LF."""
    told = refusal((LOCAL + "enabled = 1").replace("\n", "\r\n"))
    assert told.startswith("llm.toml:6:1: enabled")


@pytest.mark.parametrize("text", ["x = " + "[" * 50_000, "x = " + "1" * 20_000])
def test_absurd_values_are_refused_without_a_traceback(text: str) -> None:
    """Nesting and numbers that exhaust a parser end in the same error."""
    with pytest.raises(ConfigurationError):
        GatewayConfig.parse(text)


def test_a_text_beyond_the_limit_is_refused() -> None:
    """A settings file has a greatest size."""
    with pytest.raises(ConfigurationError, match="larger than 1048576"):
        GatewayConfig.parse("#" * (1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'id = "caf\xe9"\n', "llm.toml:1:10: holds a byte that is not UTF-8; save it as UTF-8"),
        ("x = 1\n".encode("utf-16"), "llm.toml:1:1: is written in UTF-16"),
        (b"\xef\xbb\xbfx = 1\n", "llm.toml:1:1: begins with a byte order mark"),
        (b"#" * (1024 * 1024 + 1), "llm.toml: is larger than 1048576 bytes"),
    ],
)
def test_files_that_are_no_utf8_text_are_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    """Encodings are named, not guessed."""
    path = tmp_path / "llm.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        GatewayConfig.load(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    """The remedy for a missing file is the verb that makes one."""
    with pytest.raises(ConfigurationError, match="no such file; make one with: casework init"):
        GatewayConfig.load(tmp_path / "llm.toml")
    with pytest.raises(ConfigurationError, match="is no regular file"):
        GatewayConfig.load(tmp_path)


def test_a_name_with_a_line_end_cannot_break_the_line() -> None:
    """The file's own name is made safe before it is shown."""
    with pytest.raises(ConfigurationError) as caught:
        GatewayConfig.parse("", source="a\nb.toml")
    assert "\n" not in str(caught.value)


def test_tabs_and_trailing_slashes_are_harmless() -> None:
    """A tab is white space, and a trailing slash is dropped."""
    text = LOCAL.replace('/v1"', '/v1/"').replace("model", "\tmodel\t")
    assert "http://127.0.0.1:8080/v1" == GatewayConfig.parse(text).providers[0].base_url


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("http://127.0.0.1/v1", ProviderClass.LOCAL),
        ("http://localhost:1/v1", ProviderClass.LOCAL),
        ("http://[::1]/v1", ProviderClass.LOCAL),
        ("https://127.0.0.1.example/v1", ProviderClass.CLOUD),
        ("https://[::ffff:127.0.0.1]/v1", ProviderClass.CLOUD),
        ("https://0.0.0.0/v1", ProviderClass.CLOUD),
        ("https://10.0.0.1/v1", ProviderClass.CLOUD),
    ],
)
def test_the_class_follows_from_the_address(entry: str, expected: ProviderClass) -> None:
    """Without a mark, loopback is local and all else is cloud."""
    provider = ProviderConfig(id="a", adapter="openai_compatible", base_url=entry, model="m")
    assert expected is provider.provider_class


@pytest.mark.parametrize("mark", [ProviderClass.SELF_HOSTED, ProviderClass.CLOUD])
@pytest.mark.parametrize("text", [LOCAL, '[[providers]]\nid = "r"\nadapter = "rules"\n'])
def test_a_mark_may_tighten(text: str, mark: ProviderClass) -> None:
    """A tunnel on a loopback port is marked by hand."""
    config = GatewayConfig.parse(f'{text}class = "{mark.value}"')
    assert mark is config.providers[0].provider_class


@pytest.mark.parametrize("adapter", sorted(IN_PROCESS_ADAPTERS))
def test_adapters_inside_the_process_are_local_and_have_a_model(adapter: str) -> None:
    """An in-process adapter needs neither address nor model."""
    provider = ProviderConfig(id="a", adapter=adapter)
    assert ProviderClass.LOCAL is provider.provider_class
    assert provider.model


def test_rules_are_labelled_as_no_model() -> None:
    """No screen may take rules for a model."""
    assert "no model" == ProviderConfig(id="a", adapter="rules").model


def test_a_foreign_adapter_without_address_is_cloud() -> None:
    """What cannot be judged counts as the farthest."""
    provider = ProviderConfig(id="a", adapter="mine", model="m")
    assert ProviderClass.CLOUD is provider.provider_class
    with pytest.raises(ValidationError, match="not a loopback literal"):
        ProviderConfig(id="a", adapter="mine", model="m", provider_class=ProviderClass.LOCAL)


def test_printing_shows_no_address_and_no_path() -> None:
    """Settings print themselves safely, and so do their errors."""
    provider = ProviderConfig(
        id="a",
        adapter="openai_compatible",
        base_url="https://hidden.example/v1",
        model="m",
        file=Path("hidden"),
    )
    assert "hidden" not in repr(provider)
    assert "hidden" not in str(GatewayConfig(providers=(provider,)))
    with pytest.raises(ValidationError) as caught:
        ProviderConfig(id="a", adapter="openai_compatible", base_url="ftp://hidden", model="m")
    assert "hidden" not in str(caught.value)


def test_settings_cannot_be_changed() -> None:
    """Settings are frozen once read."""
    config = GatewayConfig.parse(LOCAL)
    with pytest.raises(ValidationError):
        setattr(config, "privacy_profile", PrivacyProfile.CLOUD_ALLOWED)  # noqa: B010 - the checker knows


def test_relative_paths_are_taken_from_the_files_folder(tmp_path: Path) -> None:
    """A project can be started from any folder."""
    path = tmp_path / "llm.toml"
    absolute = (tmp_path / "x.pem").as_posix()
    path.write_text(LOCAL + f"file = 'rules/r.toml'\nca_file = '{absolute}'\n", encoding="utf-8")
    config = GatewayConfig.load(path)
    assert path == config.source
    assert tmp_path / "rules/r.toml" == config.providers[0].file
    assert tmp_path / "x.pem" == config.providers[0].ca_file


def test_the_example_loads_and_is_local_only() -> None:
    """What people copy works as it stands and lets nothing out."""
    config = GatewayConfig.parse(example_toml(), source="llm.example.toml")
    assert PrivacyProfile.LOCAL_ONLY is config.privacy_profile
    assert ["local"] == [provider.id for provider in config.enabled_providers]
    assert [
        "local",
        "self_hosted",
        "cloud",
    ] == [provider.provider_class.value for provider in config.providers]


def test_the_example_still_loads_with_every_comment_taken_off() -> None:
    """The defaults that the example names are the defaults, and its hidden entries are right."""
    lines = [re.sub(r"^# (?=\[|[a-z_]+ = )", "", line) for line in example_toml().splitlines()]
    config = GatewayConfig.parse("\n".join(lines))
    plain = GatewayConfig.parse(example_toml())
    assert (plain.retry, plain.cost, plain.validation, plain.outage) == (
        config.retry,
        config.cost,
        config.validation,
        config.outage,
    )
    changed = {
        name
        for name in ProviderConfig.model_fields
        if getattr(plain.providers[0], name) != getattr(config.providers[0], name)
    }
    assert changed == set()
    assert "rules" == config.providers[-1].adapter


def test_the_example_names_every_key() -> None:
    """No setting exists that the example does not show."""
    text = example_toml()
    schema = GatewayConfig.settings_schema()
    tables = [schema, *schema["$defs"].values()]
    names = {name for table in tables for name in table.get("properties", {})}
    assert {"max_attempts", "class", "input_per_million", "engine"} <= names
    missing = {name for name in names if not re.search(rf"\b{name}\b", text)}
    assert missing == set()
