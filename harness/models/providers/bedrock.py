"""Models on AWS Bedrock, by the Converse API, with a bearer key or, where the pin names none, with
the credentials that its SDK finds by itself.

boto3 signs each request; it is sent by the same client as those of the other providers, with the
same limits on time and bytes.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.model import ModelRequest
from harness.models.providers.base import Connection, ProviderModel
from harness.models.providers.transport import keeping_client
from harness.models.settings import BedrockSettings

if TYPE_CHECKING:
    import httpx2


class BedrockModel(ProviderModel):
    """A model by its Bedrock id, in ``region`` (of the environment's where it is empty). Without a
    key boto3 finds credentials, and without an address that of the region, by itself."""

    libraries = ("boto3",)
    protocol = "converse"
    settings: BedrockSettings

    async def _connect(self) -> Connection:
        from pydantic_ai.models.bedrock import BedrockConverseModel
        from pydantic_ai.profiles.anthropic import AnthropicModelProfile
        from pydantic_ai.providers.bedrock import BedrockProvider

        access: dict[str, Any] = {"api_key": self._api_key} if self._api_key else {}
        address, region = self._base_url or None, self.settings.region
        provider = BedrockProvider(base_url=address, region_name=region, **access)
        client = provider.client
        # Tries are counted and paced by us; the id is botocore's own, whatever its retry mode.
        client.meta.events.unregister(
            f"needs-retry.{_SERVICE}", unique_id=f"retry-config-{_SERVICE}"
        )
        http = keeping_client(self.settings.seconds)
        sender = _Sender(http, asyncio.get_running_loop(), self.settings.seconds)
        client.meta.events.register(f"before-send.{_SERVICE}.*", sender.send)

        async def close() -> None:
            await http.aclose()
            await asyncio.to_thread(client.close)

        # A temperature that is set is sent, also to a model that is known to refuse it.
        profile = AnthropicModelProfile(anthropic_disallows_sampling_settings=False)
        chat = BedrockConverseModel(self._version, provider=provider, profile=profile)
        return Connection(chat, close)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings = super()._settings(request)
        fields = dict(self.settings.extra_body)
        if budget := self.settings.reasoning_budget:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if fields:
            settings["bedrock_additional_model_requests_fields"] = fields
        if request.conversation:  # only models that pydantic-ai knows to take cache points get them
            settings |= {"bedrock_cache_instructions": True, "bedrock_cache_messages": True}
        return settings


_SERVICE = "bedrock-runtime"


class _Sender:
    """Sends the requests that boto3 has signed, from the threads that it runs in."""

    def __init__(
        self, http: httpx2.AsyncClient, loop: asyncio.AbstractEventLoop, seconds: float
    ) -> None:
        self._http, self._loop, self._seconds = http, loop, seconds

    def send(self, request: Any, **_: Any) -> Any:
        """Return the response to a prepared request, as botocore's handler of before-send."""
        import httpx2
        from botocore.awsrequest import AWSResponse
        from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

        url = request.url
        work = asyncio.run_coroutine_threadsafe(self._exchange(request), self._loop)
        try:
            answer = work.result()
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise ReadTimeoutError(endpoint_url=url, error=error) from error
        except httpx2.HTTPError as error:
            raise ConnectionClosedError(endpoint_url=url, error=error) from error
        headers: Any = dict(answer.headers)
        return AWSResponse(url, answer.status_code, headers, _Body(answer.content))

    async def _exchange(self, request: Any) -> httpx2.Response:
        headers = [(name, _text(value)) for name, value in request.headers.items()]
        async with asyncio.timeout(self._seconds):
            return await self._http.request(
                request.method, request.url, headers=headers, content=request.body
            )


class _Body(io.BytesIO):
    """A body that is already here, in the form in which botocore reads one."""

    def stream(self) -> Iterator[bytes]:
        """Yield all of it."""
        yield self.getvalue()


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
