"""The whole configuration of the gateway, read from one TOML file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    Strict,
    StrictBool,
    field_validator,
    model_validator,
)

from casework.config.limits import BudgetConfig, OutageConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import Currency, ProviderConfig
from casework.config.serving import (
    BreakerConfig,
    EmbeddingsConfig,
    InteractiveConfig,
    ModelsConfig,
    ServeConfig,
)
from casework.config.settings_problems import FROZEN, settings_error
from casework.config.toml_document import TomlDocument

PROVIDERS_MAX = 100
ROUNDS_MAX = 1000

Delay = Annotated[float, Strict(), Field(ge=0, le=31 * 86_400, allow_inf_nan=False)]


class RetryConfig(BaseModel):
    """How often and how far apart rounds are run; frozen into an operation at its first commit."""

    model_config = FROZEN

    rounds_max: Annotated[int, Strict(), Field(alias="max_attempts", ge=1, le=ROUNDS_MAX)] = 10
    """Rounds that an operation may run before it is blocked."""
    retry_delay_seconds: Delay = 60.0
    """Wait between two rounds."""
    blocked_retry_seconds: Delay = 3600.0
    """Wait before a blocked operation may be restarted by hand."""
    honour_retry_after: StrictBool = True
    """Let a server's Retry-After lengthen the wait; it never shortens it."""
    retry_after_max_seconds: Delay = 3600.0
    """Longest wait that a server can bring about."""


class CostConfig(BaseModel):
    """How money is counted."""

    model_config = FROZEN

    currency: Currency = "USD"
    """Currency of every rate that names none of its own."""


class ValidationConfig(BaseModel):
    """Which engine judges answers against their schema."""

    model_config = FROZEN

    engine: Literal["jsonschema-rs", "jsonschema"] = "jsonschema-rs"
    """The engine's name and version stand in every outcome."""


class GatewayConfig(BaseModel):
    """Providers in the order in which a round asks them, and what holds for all of them."""

    model_config = FROZEN

    providers: Annotated[tuple[ProviderConfig, ...], Field(max_length=PROVIDERS_MAX)]
    """Every entry in file order, disabled ones too."""
    privacy_profile: PrivacyProfile = PrivacyProfile.LOCAL_ONLY
    """The farthest class of provider that may see a document; a request may only narrow it."""
    retry: RetryConfig = RetryConfig()
    cost: CostConfig = CostConfig()
    validation: ValidationConfig = ValidationConfig()
    budget: BudgetConfig = BudgetConfig()
    outage: OutageConfig = OutageConfig()
    serve: ServeConfig = ServeConfig()
    interactive: InteractiveConfig = InteractiveConfig()
    breaker: BreakerConfig = BreakerConfig()
    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    models: ModelsConfig = ModelsConfig()
    _source: Path | None = PrivateAttr(default=None)

    @field_validator("providers")
    @classmethod
    def _some_and_distinct(
        cls, providers: tuple[ProviderConfig, ...]
    ) -> tuple[ProviderConfig, ...]:
        if not providers:
            raise settings_error("lists nobody", "add a [[providers]] table")
        seen: set[str] = set()
        for index, provider in enumerate(providers):
            if provider.id in seen:
                raise settings_error(
                    f'"{provider.id}" is taken by an earlier entry',
                    "give every entry an id of its own",
                    below=(index, "id"),
                )
            seen.add(provider.id)
        return providers

    @model_validator(mode="after")
    def _aliases_name_providers(self) -> Self:
        known = {provider.id for provider in self.providers}
        for name, targets in self.models.aliases.items():
            for index, target in enumerate(targets):
                provider, slash, model = target.partition("/")
                if provider not in known or (slash and not model):
                    raise settings_error(
                        "names no provider",
                        "write a provider's id, or provider/model",
                        below=("models", "aliases", name, index),
                    )
        return self

    @classmethod
    def settings_schema(cls) -> dict[str, Any]:
        """Return a JSON Schema of the file: every key by the name that the file uses."""
        return cls.model_json_schema(by_alias=True)

    @property
    def source(self) -> Path | None:
        """Return the file it was read from; None where it was made in code."""
        return self._source

    @property
    def enabled_providers(self) -> tuple[ProviderConfig, ...]:
        """Return the entries that are not switched off, in order."""
        return tuple(provider for provider in self.providers if provider.enabled)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a configuration file.

        Relative paths inside it are taken from the file's own folder.

        Raises:
            ConfigurationError: The file cannot be used. One line: file, line, column, what is
                wrong and the way out; no value from the file is repeated.
        """
        config = TomlDocument.read(Path(path)).as_model(cls)
        providers = tuple(_anchored(p, Path(path).parent) for p in config.providers)
        config = config.model_copy(update={"providers": providers})
        config._source = Path(path)  # noqa: SLF001 - our own, and not yet handed out
        return config

    @classmethod
    def parse(cls, text: str, *, source: str = "configuration") -> Self:
        """Read a configuration from a text; ``source`` names it in errors.

        Raises:
            ConfigurationError: As :meth:`load` does.
        """
        return TomlDocument.parse(text, name=source).as_model(cls)


def example_toml() -> str:
    """Return the commented example configuration that ships with the package."""
    return files("casework.config").joinpath("llm.example.toml").read_text(encoding="utf-8")


def _anchored(provider: ProviderConfig, folder: Path) -> ProviderConfig:
    """Take a provider's relative paths from the folder of the configuration file."""
    update = {
        name: folder / path
        for name, path in (("file", provider.file), ("ca_file", provider.ca_file))
        if path is not None and not path.is_absolute()
    }
    return provider.model_copy(update=update) if update else provider


__all__ = ["CostConfig", "GatewayConfig", "RetryConfig", "ValidationConfig", "example_toml"]
