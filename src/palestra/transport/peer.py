"""`Peer`: one rollout's conversation with one server, wherever that server runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, final

import orjson
from pydantic import BaseModel

from palestra.config import ServerType
from palestra.errors import (
    CallError,
    CallEvidence,
    DeadlineExceeded,
    Hop,
    VerifierError,
    excerpt,
    from_body,
    status_for,
)
from palestra.schema import (
    CREATE_PARAMS,
    JsonDict,
    JsonObject,
    changed,
    encode_json,
    fields_of,
    why_unreadable,
)
from palestra.transport.context import AwaitedCall, CallContext, calling, current_call, new_id
from palestra.transport.http import HttpReply
from palestra.transport.local import IN_PROCESS, LocalEndpoint, ServerRequest, Target
from palestra.transport.patience import within_call_limit
from palestra.transport.tool_paths import is_tool_path, no_such_tool, tool_error, tool_path
from palestra.transport.unanswered import asking
from palestra.transport.unverified import fault_of, note_verify_request
from palestra.transport.workers import worker_url

if TYPE_CHECKING:
    from palestra.transport.client import ServerClient

Reply = TypeVar("Reply", bound=BaseModel)

RUN = "/run"
_NO_CALL = CallContext()


@final
class Peer:
    """One rollout's conversation with one server. It keeps the server's session between calls."""

    __slots__ = (
        "_base_url",
        "_client",
        "_is_environment",
        "_outer_context",
        "_own_context",
        "_session_id",
        "_target",
        "cookies",
    )

    def __init__(
        self, client: "ServerClient", target: Target, cookies: Mapping[str, str] | None
    ) -> None:
        self._client = client
        self._target = target
        self._base_url = worker_url(target.name, target.urls, cookies)
        self._session_id = "" if cookies else new_id()
        self._is_environment = target.server_type == ServerType.RESOURCES
        self._outer_context = self._own_context = _NO_CALL
        self.cookies: dict[str, str] = dict(cookies or {})

    @property
    def _is_model(self) -> bool:
        return self._target.server_type == ServerType.MODEL

    @property
    def name(self) -> str:
        """The server's instance name."""
        return self._target.name

    async def call(self, path: str, body: BaseModel | JsonObject, answer: type[Reply]) -> Reply:
        """POST `body` to `path` and return the answer. To a server in this process, objects are
        passed directly.

        Raises `CallError` for any failure, with this server among its hops.
        """
        note_verify_request(path, body)
        endpoint = self._endpoint(path)
        if endpoint is None or endpoint.is_tool:
            # A tool answers with a text, also when it fails: that is for a model.
            with _awaiting_path(self._target, path):
                reply = await self._exchange(path, encode_json(body), stateless=self._is_model)
            return _parse(reply.body, answer, self._target, path)
        with _awaiting_path(self._target, path):
            result = await self._invoke(endpoint, path, body)
        if isinstance(result, answer):
            return _as_sent(result)
        if isinstance(result, bytes):
            return _parse(result, answer, self._target, path)
        plain = fields_of(result) if isinstance(result, BaseModel) else result
        return _parse(encode_json(plain), answer, self._target, path)

    async def notify(self, path: str, body: BaseModel | JsonObject) -> None:
        """POST `body` to `path` and ignore the answer's content. Raises `CallError` for a failure."""
        endpoint = self._endpoint(path)
        with _awaiting_path(self._target, path):
            if endpoint is None:
                await self._exchange(path, encode_json(body), stateless=False)
            else:
                await self._invoke(endpoint, path, body)

    async def call_tool(self, name: str, arguments: JsonObject) -> str:
        """Run a tool of the environment and return its answer as text; an error of the tool is text
        too.

        Raises `CallError`: no answer came, or the tool's own nested call failed. This is no answer
        of the tool, so the model must not see it.
        """
        path = tool_path(name)
        if path is None:
            return no_such_tool(name)
        endpoint = self._endpoint("/" + name)
        if endpoint is not None and endpoint.is_tool:
            with _awaiting_tool(self._target, name):
                return str(await self._invoke(endpoint, "/" + name, arguments))
        try:
            body = encode_json(arguments)
        except TypeError as error:
            # What a model wrote can be read deeper than it can be written: its own mistake.
            return tool_error(f"the arguments of {name} cannot be sent: {error}")
        with _awaiting_tool(self._target, name):
            reply = await self._send(path, body, stateless=False)
        refusal = json_or_none(reply.body) if reply.status >= 400 else None
        failure = from_body(refusal)
        if failure is None:
            return reply.body.decode("utf-8", "replace")
        if (tool_text := tool_failure_text(failure, refusal)) is not None:
            return tool_text
        raise self._client.failure(self._target, self._base_url + path, reply)

    def _endpoint(self, path: str) -> LocalEndpoint | None:
        local = self._target.local
        # A conversation that came in over HTTP has cookies, which only the app can read.
        if local is None or not self._session_id:
            return None
        return local.typed_endpoint(path)

    async def _invoke(
        self, endpoint: LocalEndpoint, path: str, body: BaseModel | JsonObject
    ) -> Any:
        client, name, url = self._client, self._target.name, IN_PROCESS + path
        before = encode_json(body) if client.debug else None
        try:
            invoked = endpoint.invoke(body, session_id=self._session_id)
            limited = within_call_limit(path, invoked, server=name)
            with asking(self._target, path, body):
                if self._is_environment:
                    with calling(self._context_inside()):
                        result = await limited
                else:
                    result = await limited
        except CallError as error:
            client.log_exchange(
                "POST", f"{name} {url}", body, error.message, status=status_for(error)
            )
            raise client.attributed(error, Hop(name, url, status_for(error))) from None
        if before is not None:
            client.tell_changes(f"{name}{path}", before, encode_json(body))
            where, answer = f"{name} {url}", excerpt(_result_bytes(result))
            client.log_exchange("POST", where, before, answer, status=200)
        return result

    def _context_inside(self) -> CallContext:
        """Return the context for calls to this environment, cached for each context of the caller."""
        outer = current_call()
        if outer is not self._outer_context:
            self._outer_context, self._own_context = outer, outer.inside_environment()
        return self._own_context

    async def _exchange(self, path: str, body: bytes, *, stateless: bool) -> HttpReply:
        reply = await self._send(path, body, stateless=stateless)
        if reply.status >= 400:
            raise self._client.failure(self._target, self._base_url + path, reply)
        return reply

    async def _send(self, path: str, body: bytes, *, stateless: bool) -> HttpReply:
        request = ServerRequest(
            "POST",
            path,
            body,
            self.cookies,
            session_id=self._session_id or None,
            stateless=stateless,
        )
        reply = await self._client.exchange(self._target, self._base_url, request)
        if reply.cookies:
            self.cookies.update(reply.cookies)
        return reply


def _result_bytes(result: Any) -> bytes:
    """Return a result as JSON for a log; its `repr` when it cannot be JSON."""
    if isinstance(result, bytes):
        return result
    try:
        return encode_json(fields_of(result) if isinstance(result, BaseModel) else result)
    except TypeError:
        return repr(result).encode("utf-8", "replace")


def awaiting(target: Target, path: str) -> AwaitedCall:
    """Return a `with` block in which the current rollout awaits the answer of `target` to `path`."""
    if target.server_type == ServerType.RESOURCES and is_tool_path(path):
        return _awaiting_tool(target, path[1:])
    return _awaiting_path(target, path)


def _awaiting_tool(target: Target, name: str) -> AwaitedCall:
    return AwaitedCall(current_call().activity, "tool", f"tool {name} of {target.name}")


def _awaiting_path(target: Target, path: str) -> AwaitedCall:
    # An agent that calls itself runs its own code there, and asks no model.
    is_own_turn = target.server_type == ServerType.AGENT and path != RUN
    return AwaitedCall(
        current_call().activity, path, f"{'agent ' * is_own_turn}{target.name} {path}"
    )


def _as_sent(result: Reply) -> Reply:
    """Return the object as HTTP would deliver it: defaults that are sent count as set fields."""
    set_fields, values = result.model_fields_set, result.__dict__.items()
    present = {
        name: value for name, value in values if value is not None and name not in set_fields
    }
    if not present:
        return result
    declared = type(result).model_fields
    present = {name: value for name, value in present.items() if name in declared}
    return changed(result, present)


def _parse(body: bytes, answer: type[Reply], target: Target, path: str) -> Reply:
    try:
        return answer.model_validate(orjson.loads(body))
    except ValueError as error:
        text = excerpt(body)
        hop = Hop(target.name, path, 200, text)
        evidence = CallEvidence(hops=(hop,), row=current_call().row)
        why = why_unreadable(body, error)
        message = f"the answer of {target.name}{path} is not a valid {answer.__name__}: {why}"
        verify_answer = _answer_in(body) if path == RUN else None
        # With a trajectory in it, what is wrong is what came of verifying that.
        kind = fault_of(target.server_type, path) if verify_answer is None else VerifierError
        failure = kind(message, evidence=evidence)
        failure.verify_request = verify_answer
        raise failure from error


def _answer_in(body: bytes) -> JsonDict | None:
    """Return the model's answer in a rollout's result that is otherwise invalid; None without one."""
    payload = json_or_none(body)
    if not isinstance(payload, dict) or "response" not in payload:
        return None
    return {name: payload[name] for name in (CREATE_PARAMS, "response") if name in payload}


def tool_failure_text(failure: CallError, payload: Any) -> str | None:
    """Return the model's text about a failed tool; None when the tool's own nested call failed, or a
    deadline passed: what hangs is no answer.
    """
    if failure.evidence.hops or isinstance(failure, DeadlineExceeded):
        return None
    if "detail" in payload:
        # The answer of the route itself, in its own words.
        return encode_json({"detail": payload["detail"]}).decode()
    if failure.evidence.traceback:
        # As of a tool that is a method: without the server and the path, which the model named.
        return tool_error(failure.message.partition(" raised ")[2] or failure.message)
    if failure.evidence.problems:
        return tool_error(failure.message)  # the arguments do not fit, which are the model's words
    return None


def json_or_none(body: bytes) -> Any:
    """Return the value in `body`; None when it is not JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
