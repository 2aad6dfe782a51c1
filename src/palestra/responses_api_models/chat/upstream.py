"""`Upstream`: one provider's endpoints, spoken to in JSON through the shared HTTP transport."""

from collections.abc import Mapping
from typing import Any, final

import orjson
from msgspec.structs import replace

from palestra.errors import CallError, Evidence, Hop, ModelError, add_hop, excerpt, mask_error
from palestra.responses_api_models.chat.provider_errors import ContextOverflow, classify
from palestra.schema import encode_json, why_unreadable
from palestra.transport import (
    ConnectionFailed,
    HttpReply,
    HttpRequest,
    HttpTransport,
    RetryCount,
    RetryPolicy,
    ServerClient,
    current_call,
    with_retries,
)

PROBE_TIMEOUT_S = 10.0
"""How long a question about the endpoint itself may take."""

_SHORTEST_KEY_MASKED = 8
"""A shorter key (`EMPTY`, `dummy`) is no secret, and is part of ordinary words."""


@final
class Upstream:
    """Sends requests and says what the answers mean.

    `server` is the model server's instance name, under which failures are reported. The key
    goes into a header and nowhere else: an answer that quotes it has it masked, and so have
    all secrets that `client` knows of, who also logs what failed.
    """

    def __init__(
        self,
        http: HttpTransport,
        *,
        server: str,
        model: str,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        policy: RetryPolicy | None = None,
        count: RetryCount | None = None,
        client: ServerClient | None = None,
    ) -> None:
        self._http = http
        self._server = server
        self._model = model
        self._secret = api_key if len(api_key) >= _SHORTEST_KEY_MASKED else ""
        self._client = client
        self._headers = {"content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._headers.update({name.lower(): value for name, value in (headers or {}).items()})
        self._policy = policy or RetryPolicy()
        self._count = count or RetryCount()

    async def post(self, url: str, body: Mapping[str, Any]) -> bytes | ContextOverflow:
        """POST `body` until an answer comes, within the rollout's deadline.

        Raises `CallError`: what `classify` makes of a refusal, or that no answer came.
        """
        encoded = encode_json(body)
        activity = current_call().activity
        if activity is not None:
            activity.now("upstream", f"the endpoint of {self._server} ({url})")
        last: HttpReply | None = None

        async def send(remaining_s: float | None) -> HttpReply:
            nonlocal last
            request = HttpRequest(
                "POST", url, self._headers, encoded, timeout_s=remaining_s, repeatable=True
            )
            try:
                last = await self._http.send(request)
            except ConnectionFailed:
                # What it said before is not why. (It is, when only the time ran out.)
                last = None
                raise
            return last

        try:
            reply = await with_retries(
                send,
                what=f"{self._server} ({url})",
                stateless=True,
                policy=self._policy,
                count=self._count,
            )
        except CallError as error:
            self._log("POST", url, encoded, error.message)
            mask_error(error, self._mask)
            add_hop(error, self._hop(self._mask(url), last))
            raise
        if reply.status < 300:
            return reply.body
        self._log("POST", url, encoded, excerpt(reply.body), reply.status)
        return self._refused(url, reply)

    async def models(self, base_url: str) -> list[str]:
        """Names of the models that `GET <base_url>/models` lists. One try, no retries.

        Raises `CallError` when the endpoint cannot be reached, refuses, or answers otherwise.
        """
        url = f"{base_url}/models"
        left = current_call().remaining_s()
        timeout_s = PROBE_TIMEOUT_S if left is None else min(left, PROBE_TIMEOUT_S)
        try:
            request = HttpRequest("GET", url, self._headers, timeout_s=timeout_s)
            reply = await self._http.send(request)
        except CallError as error:
            self._log("GET", url, b"", error.message)
            mask_error(error, self._mask)
            add_hop(error, Hop(self._server, self._mask(url)))
            raise
        if reply.status >= 300:
            self._log("GET", url, b"", excerpt(reply.body), reply.status)
            self._refused(url, reply)
        try:
            return [str(entry["id"]) for entry in orjson.loads(reply.body)["data"]]
        except (ValueError, LookupError, TypeError) as error:
            raise self.unreadable(url, reply.body, "list of models", error) from error

    def unreadable(self, url: str, body: bytes, wanted: str, error: Exception) -> ModelError:
        """A success whose body is not what was asked for."""
        text = self._mask(excerpt(body))
        return ModelError(
            f"{self._server}: {url} answered 200 with what is no {wanted} "
            f"({self._mask(why_unreadable(body, error))}): {text[:500]}",
            hint="does the base_url point to an OpenAI-compatible endpoint, /v1 included?",
            evidence=Evidence(hops=(Hop(self._server, url, 200, text),)),
        )

    def _refused(self, url: str, reply: HttpReply) -> ContextOverflow:
        reply = replace(reply, body=self._mask(reply.body.decode("utf-8", "replace")).encode())
        found = classify(reply, server=self._server, url=url, model=self._model)
        if isinstance(found, ContextOverflow):
            return found
        raise found

    def _hop(self, url: str, reply: HttpReply | None) -> Hop:
        """A call of the endpoint, with what it answered, if it did."""
        if reply is None:
            return Hop(self._server, url)
        return Hop(self._server, url, reply.status, self._mask(excerpt(reply.body)))

    def _mask(self, text: str) -> str:
        masked = text.replace(self._secret, "****") if self._secret else text
        return masked if self._client is None else self._client.mask(masked)

    def _log(
        self, method: str, url: str, body: bytes, answer: str, status: int | None = None
    ) -> None:
        if self._client is not None:
            self._client.log_failure(
                method, url, body, self._mask(answer), headers=self._headers, status=status
            )
