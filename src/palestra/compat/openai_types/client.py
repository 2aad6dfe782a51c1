"""A client of OpenAI-compatible endpoints that answers plain JSON."""

from typing import Any
from urllib.parse import urljoin

from pydantic import BaseModel, ConfigDict, Field

from palestra.compat.http import request, response_json


class NeMoGymAsyncOpenAI(BaseModel):
    """Asks one endpoint. Every method gives the answer's JSON, and raises for an error status."""

    model_config = ConfigDict(extra="allow")

    base_url: str
    api_key: str = ""
    default_headers: dict[str, str] = Field(default_factory=dict)

    async def create_response(self, **params: Any) -> dict[str, Any]:
        """`POST /responses`."""
        return await self._post("responses", params)

    async def create_chat_completion(self, **params: Any) -> dict[str, Any]:
        """`POST /chat/completions`."""
        return await self._post("chat/completions", params)

    async def create_completion(self, **params: Any) -> dict[str, Any]:
        """`POST /completions`."""
        return await self._post("completions", params)

    async def create_embedding(self, **params: Any) -> dict[str, Any]:
        """`POST /embeddings`."""
        return await self._post("embeddings", params)

    async def create_models(self, **params: Any) -> dict[str, Any]:
        """`GET /models`."""
        return await self._ask("GET", "models", params=params)

    async def list_models(self) -> dict[str, Any]:
        """`GET /models`."""
        return await self._ask("GET", "models")

    async def create_tokenize(self, **params: Any) -> dict[str, Any]:
        """`POST /tokenize`, which vLLM has beside its `/v1`."""
        return await self._post(urljoin(self._url("x"), "../tokenize"), params)

    def _url(self, path: str) -> str:
        return path if "://" in path else f"{self.base_url.rstrip('/')}/{path}"

    async def _post(self, path: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = params.pop("extra_headers", None) or {}
        body = {**params, **(params.pop("extra_body", None) or {})}
        body.pop("extra_body", None)
        return await self._ask("POST", path, json=body, headers=headers)

    async def _ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **how: Any
    ) -> dict[str, Any]:
        sent = {
            "Authorization": f"Bearer {self.api_key}",
            **self.default_headers,
            **(headers or {}),
        }
        response = await request(method, self._url(path), headers=sent, **how)
        told: dict[str, Any] = await response_json(response)
        return told
