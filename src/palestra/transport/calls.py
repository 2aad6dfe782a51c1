"""One call of one server: sent where it lives, tried again where that is safe, its failure named."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import orjson

from palestra.errors import (
    CallError,
    Evidence,
    Hop,
    InfraError,
    ModelError,
    RowError,
    VerifierError,
    add_hop,
    add_row,
    excerpt,
    from_body,
)
from palestra.schema import encode_json
from palestra.transport.context import context_headers, current_call
from palestra.transport.http import HttpReply, HttpRequest, HttpTransport
from palestra.transport.local import LocalServer, call_asgi, with_query
from palestra.transport.retry import WITHIN_FLEET, RetryCount, RetryPolicy, with_retries

logger = logging.getLogger("palestra.transport")


@dataclass(frozen=True, slots=True)
class Target:
    """Where one server instance is. `urls` has one entry per worker process."""

    name: str
    server_type: str
    urls: tuple[str, ...] = ()
    local: LocalServer | None = None


@final
class Caller:
    """Makes the calls of one process, over `http` to whatever does not live in it."""

    def __init__(
        self,
        http: HttpTransport,
        *,
        policy: RetryPolicy = WITHIN_FLEET,
        debug: bool = False,
        token: str = "",
    ) -> None:
        self.http = http
        self.retries = RetryCount()
        self._policy = policy
        self._debug = debug
        self._token = token

    async def exchange(
        self,
        target: Target,
        base_url: str,
        method: str,
        path: str,
        *,
        body: bytes,
        cookies: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        session_id: str | None = None,
        stateless: bool = False,
    ) -> HttpReply:
        """One request to `target` with the caller's context, retried where that is safe."""
        sent = {**context_headers(current_call()), **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        if target.local is not None:
            return await call_asgi(
                target.local.asgi_app(),
                method,
                path,
                body=body,
                headers=sent,
                cookies=cookies,
                params=params,
                session_id=session_id,
            )
        sent["content-type"] = "application/json"
        url = base_url + with_query(path, params)

        async def send(remaining_s: float | None) -> HttpReply:
            request = HttpRequest(method, url, sent, body, cookies, remaining_s, stateless)
            return await self.http.send(request)

        try:
            return await with_retries(
                send,
                what=f"{target.name} ({url})",
                stateless=stateless,
                policy=self._policy,
                count=self.retries,
            )
        except CallError as error:
            self.log_failure(method, url, body, error.message)
            add_row(error, current_call().row)
            raise add_hop(error, Hop(target.name, url, body="")) from None

    def failure(self, target: Target, url: str, reply: HttpReply, request: bytes) -> CallError:
        """What an answer of status 400 or more means, with this server as its outermost hop."""
        self.log_failure("POST", url, request, f"{reply.status} {excerpt(reply.body)}")
        error = from_body(json_or_none(reply.body))
        if error is not None:
            add_hop(error, Hop(target.name, url, reply.status))
        else:
            text = excerpt(reply.body)
            evidence = Evidence(hops=(Hop(target.name, url, reply.status, text),))
            error = _foreign_failure(target, reply.status, text, evidence)
        return add_row(error, current_call().row)

    def log_failure(self, method: str, url: str, request: Any, answer: str) -> None:
        """Say what was asked, for which row, and what came of it; only when debugging."""
        if self._debug:
            logger.error(
                "request failed: %s %s row=%s request=%s answer=%s",
                method,
                url,
                current_call().row,
                excerpt(request if isinstance(request, bytes) else encode_json(request)),
                answer,
            )


def _foreign_failure(target: Target, status: int, text: str, evidence: Evidence) -> CallError:
    message = f"{target.name} answered {status}: {text[:500]}"
    if status == 422:
        return RowError(message, evidence=evidence, status=status)
    if target.server_type == "responses_api_models":
        return ModelError(message, evidence=evidence, status=status)
    if status in {502, 503, 504}:
        return InfraError(message, evidence=evidence, status=status)
    return VerifierError(message, evidence=evidence, status=status)


def json_or_none(body: bytes) -> Any:
    """The value in `body`, or None when it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
