"""Models on AWS Bedrock, by the Converse API through boto3, with a bearer key or, where the pin
names none, with the credentials that boto3 finds by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.models.served import Connection, ServedModel, keep_bytes


class BedrockModel(ServedModel):
    """A model by its Bedrock id, in ``region`` (of the environment's where it is empty)."""

    async def _connect(self) -> Connection:
        from pydantic_ai.models.bedrock import BedrockConverseModel
        from pydantic_ai.providers.bedrock import BedrockProvider

        client = self._client()
        provider = BedrockProvider(bedrock_client=client)

        async def close() -> None:
            await asyncio.to_thread(client.close)

        return Connection(BedrockConverseModel(self._version, provider=provider), close)

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        held = _bearer_session(self._api_key) if self._api_key else None
        signed: dict[str, Any] = {"signature_version": "bearer"} if held else {}
        made: Any = boto3.Session(botocore_session=held, region_name=self.region or None).client(
            "bedrock-runtime",
            endpoint_url=self._base_url or None,
            config=Config(
                read_timeout=self._sampling.seconds,
                connect_timeout=min(self._sampling.seconds, 60),
                retries={"total_max_attempts": 1},
                max_pool_connections=64,
                **signed,
            ),
        )
        made.meta.events.register("before-parse.bedrock-runtime.*", _keep)
        return made


def _keep(response_dict: dict[str, Any], **_: Any) -> None:
    body = response_dict["body"]
    if isinstance(body, bytes):
        keep_bytes(body)


def _bearer_session(key: str) -> Any:
    from botocore.session import Session
    from botocore.tokens import FrozenAuthToken

    class BearerSession(Session):
        def get_auth_token(self, **_: Any) -> FrozenAuthToken:
            return FrozenAuthToken(key)

        def get_credentials(self) -> None:
            return None

    return BearerSession()
