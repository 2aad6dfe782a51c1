"""One call of one server: sent where it lives, tried again where that is safe, its failure named."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import orjson

from palestra.config import ServerType
from palestra.errors import (
    CallError,
    DeadlineExceeded,
    Evidence,
    Hop,
    InfraError,
    RowError,
    add_hop,
    add_row,
    excerpt,
    from_body,
    mask_error,
    without_answer,
)
from palestra.transport.blame import fault_of
from palestra.transport.context import context_headers, current_call
from palestra.transport.exchange_line import exchange_line
from palestra.transport.http import HttpReply, HttpRequest, HttpTransport
from palestra.transport.limits import call_limit_s, within
from palestra.transport.local import IN_PROCESS, LocalServer, call_asgi, with_query
from palestra.transport.retry import WITHIN_FLEET, RetryCount, RetryPolicy, with_retries
from palestra.transport.untouched import changes

logger = logging.getLogger("palestra.transport")

_NOT_THE_SERVERS_OWN = frozenset({408, 429, 502, 503, 504})
"""Statuses with which a proxy, or a server too busy to begin, refuses what it never ran."""


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
        mask: Callable[[str], str] = str,
    ) -> None:
        self.http = http
        self.retries = RetryCount()
        self._policy = policy
        self.debug = debug
        self.mask = mask
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
        limit_s = call_limit_s(path)
        exchanged = self._exchange(
            target,
            base_url,
            method,
            path,
            body=body,
            cookies=cookies,
            params=params,
            headers=headers,
            session_id=session_id,
            stateless=stateless,
        )
        if limit_s is None:
            return await exchanged
        return await within(limit_s, exchanged, what=f"{target.name}{path}")

    async def _exchange(
        self,
        target: Target,
        base_url: str,
        method: str,
        path: str,
        *,
        body: bytes,
        cookies: Mapping[str, str] | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        session_id: str | None,
        stateless: bool,
    ) -> HttpReply:
        sent = {**context_headers(current_call()), **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        if target.local is not None:
            reply = await call_asgi(
                target.local.asgi_app(),
                method,
                path,
                body=body,
                headers=sent,
                cookies=cookies,
                params=params,
                session_id=session_id,
            )
            self._log_reply(method, f"{target.name} {IN_PROCESS}{path}", sent, body, reply)
            return reply
        sent["content-type"] = "application/json"
        url = base_url + with_query(path, params)

        async def send(remaining_s: float | None) -> HttpReply:
            request = HttpRequest(
                method, url, sent, body, cookies, remaining_s, stateless, direct=True
            )
            return await self.http.send(request)

        try:
            reply = await with_retries(
                send,
                what=f"{target.name} ({url})",
                stateless=stateless,
                policy=self._policy,
                count=self.retries,
            )
        except CallError as error:
            self.log_exchange(method, url, body, error.message, headers=sent)
            if isinstance(error, DeadlineExceeded) and error.message.startswith(url):
                error.message = f"{target.name} ({url}){error.message.removeprefix(url)}"
            add_row(error, current_call().row)
            mask_error(error, self.mask)
            raise add_hop(error, Hop(target.name, self.mask(url))) from None
        self._log_reply(method, url, sent, body, reply)
        return reply

    def failure(self, target: Target, url: str, reply: HttpReply) -> CallError:
        """What an answer of status 400 or more means, with this server as its outermost hop."""
        error = from_body(json_or_none(reply.body))
        if error is not None:
            add_hop(error, Hop(target.name, url, reply.status))
        else:
            text = excerpt(reply.body)
            evidence = Evidence(hops=(Hop(target.name, url, reply.status, text),))
            error = _foreign_failure(target, reply.status, text, evidence)
        mask_error(error, self.mask)
        return add_row(error, current_call().row)

    def _log_reply(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, reply: HttpReply
    ) -> None:
        if self.debug:
            answer = excerpt(without_answer(reply.body))
            self.log_exchange(method, url, body, answer, headers=headers, status=reply.status)

    def tell_changes(self, where: str, before: bytes, after: bytes) -> None:
        """Say what a server changed in the request that it was handed."""
        if changed := changes(before, after):
            logger.error(
                "%s changed the request it was given, at %s: others hold the same object; "
                "copy what you want to change",
                where,
                ", ".join(sorted(changed)[:10]),
            )

    def log_exchange(
        self,
        method: str,
        url: str,
        request: Any,
        answer: str,
        *,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> None:
        """Say on one line what was asked, for which row, and what came of it; when debugging.

        `status` is None when nothing came. What failed is logged as an error.
        """
        if not self.debug:
            return
        line = exchange_line(
            method, url, current_call().row, headers or {}, request, status, answer
        )
        level = logging.ERROR if status is None or status >= 400 else logging.INFO
        logger.log(level, "%s", self.mask(line))


def _foreign_failure(target: Target, status: int, text: str, evidence: Evidence) -> CallError:
    message = f"{target.name} answered {status}: {text[:500]}"
    if status == 422:
        return RowError(message, evidence=evidence, status=status)
    if target.server_type != ServerType.MODEL and status in _NOT_THE_SERVERS_OWN:
        return InfraError(message, evidence=evidence, status=status)
    path = evidence.hops[-1].url.partition("?")[0]
    return fault_of(target.server_type, path)(message, evidence=evidence, status=status)


def json_or_none(body: bytes) -> Any:
    """The value in `body`, or None when it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
