"""Models on AWS Bedrock, by the Converse API, with a bearer key or, where the pin names none, with
the credentials that its SDK finds by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.models.providers.base import Connection, ProviderModel, keep_bytes


class BedrockModel(ProviderModel):
    """A model by its Bedrock id, in ``region`` (of the environment's where it is empty). Without a
    key boto3 finds credentials, and without an address that of the region, by itself."""

    libraries = ("boto3",)
    own_settings = ("region",)

    async def _connect(self) -> Connection:
        from pydantic_ai.models.bedrock import BedrockConverseModel

        provider = self._provider()
        client = provider.client
        # Tries are counted and paced by us; the id is botocore's own, whatever its retry mode.
        client.meta.events.unregister(
            f"needs-retry.{_SERVICE}", unique_id=f"retry-config-{_SERVICE}"
        )
        client.meta.events.register(f"before-parse.{_SERVICE}.*", _keep)

        async def close() -> None:
            await asyncio.to_thread(client.close)

        return Connection(BedrockConverseModel(self._version, provider=provider), close)

    def _provider(self) -> Any:
        from pydantic_ai.providers.bedrock import BedrockProvider

        place: dict[str, Any] = {
            "base_url": self._base_url or None,
            "region_name": self.region or None,
            "aws_read_timeout": self._sampling.seconds,
            "aws_connect_timeout": min(self._sampling.seconds, 60),
        }
        if self._api_key:
            return BedrockProvider(api_key=self._api_key, **place)
        return BedrockProvider(**place)


_SERVICE = "bedrock-runtime"


def _keep(response_dict: dict[str, Any], **_: Any) -> None:
    body = response_dict["body"]
    if isinstance(body, bytes):
        keep_bytes(body)
