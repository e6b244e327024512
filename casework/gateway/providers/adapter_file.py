"""Read the file that an in-process adapter works from."""

from __future__ import annotations

from pathlib import Path

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError


def adapter_path(config: ProviderConfig) -> Path:
    """Return the file or folder that a provider's entry names.

    Raises:
        ConfigurationError: It names none.
    """
    if config.file is None:
        raise ConfigurationError(
            f'the adapter "{config.adapter}" needs a file',
            where=f'provider "{config.id}"',
            remedy="add file = 'NAME' to its entry",
        )
    return config.file


def read_adapter_file(config: ProviderConfig, *, bytes_max: int) -> tuple[Path, bytes]:
    """Return path and content of the file that a provider's entry names.

    Raises:
        ConfigurationError: It names none, or the file cannot be read or is too big.
    """
    path = adapter_path(config)
    where = f'provider "{config.id}", file {path.name}'
    try:
        with path.open("rb") as stream:
            content = stream.read(bytes_max + 1)
    except OSError as error:
        problem = type(error).__name__
    else:
        if len(content) <= bytes_max:
            return path, content
        raise ConfigurationError(
            f"is larger than {bytes_max} bytes", where=where, remedy="shorten it"
        )
    raise ConfigurationError(
        f"cannot be read ({problem})",
        where=where,
        remedy="a relative path is taken from the configuration's folder; check that it is there",
    )
