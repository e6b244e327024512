"""``GET /openapi.json``: the description of all routes, as it is shipped."""

from __future__ import annotations

from importlib.resources import files

from casework.facade.exchange import Exchange


class OpenAPIRoute:
    """Sends the description; its every byte stands in ``openapi.json`` beside this file."""

    def __init__(self) -> None:
        self._description = files("casework.facade").joinpath("openapi.json").read_bytes()

    async def describe(self, exchange: Exchange) -> None:
        """Send it."""
        await exchange.reply(200, self._description)
