"""Middleware that adds a fleet's features to `/verify` of a hosted environment.

When a stored row is verified again, the judge's recorded responses are used. The tool calls of the
session that failed with a bug are added to the verify response.
"""

import contextlib
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, final

from pydantic import ValidationError

from palestra.compat.whole_messages import (
    Receive,
    Send,
    WholeAnswer,
    json_object,
    read_body,
    replayed,
)
from palestra.errors import JudgeFailure, add_question
from palestra.schema import (
    JUDGE_EVALUATIONS,
    JUDGE_REPLAY,
    JsonObject,
    JudgeReplay,
    ResponseCreateParams,
    encode_json,
    question_text,
    to_plain,
)
from palestra.server import SESSION_ID_KEY, SessionStore, with_faults
from palestra.settings import ASK_A_JUDGE
from palestra.transport import ASGIApp, HttpReply

REPLAY_MARKS = (JUDGE_REPLAY, JUDGE_EVALUATIONS)
"""Fields of a verify request for which `RowLayer` does something."""

RESPONSES_PATH = "/v1/responses"

_replay: ContextVar[JudgeReplay | None] = ContextVar("palestra_compat_replay", default=None)


@contextmanager
def replaying(body: JsonObject) -> Iterator[None]:
    """Return a context in which judge calls are answered with the responses recorded in the row
    `body`.
    """
    evaluations = body.get(JUDGE_EVALUATIONS)
    replay = JudgeReplay(evaluations if isinstance(evaluations, list) else (), replays=True)
    token = _replay.set(replay)
    try:
        yield
    finally:
        _replay.reset(token)


def is_replaying() -> bool:
    """Whether judge calls are answered with recorded responses."""
    return _replay.get() is not None


def is_replayed(body: JsonObject) -> bool:
    """Whether the verify request `body` asks to score a stored row with its recorded judge
    responses.
    """
    return body.get(JUDGE_REPLAY) is True


def is_stored(body: JsonObject) -> bool:
    """Whether the verify request `body` is a stored row, with a recorded or a fresh judge.

    A new task holds no judge responses.
    """
    return is_replayed(body) or JUDGE_EVALUATIONS in body


def recorded_reply(server: str, path: str, body: Any, *, running: bool) -> HttpReply | None:
    """Return the response that the judge gave to the request `body` before; None when the judge
    must be called.

    Raises JudgeFailure: the row has no response to `body`, and `server` is not `running`.
    """
    replay = _replay.get()
    if replay is None:
        return None
    exchange = None
    if path.strip("/") == RESPONSES_PATH.strip("/"):
        try:
            question = ResponseCreateParams.model_validate(to_plain(body))
        except ValidationError:
            return None  # for the judge's own server to refuse
        exchange = replay.exchange(question)
    if exchange is not None:
        content = encode_json(exchange.held["response"])
        return HttpReply(200, content, headers={"content-type": "application/json"})
    if not running:
        failure = JudgeFailure(
            f"the row holds no answer of the judge {server} to this question",
            hint=ASK_A_JUDGE,
        )
        raise add_question(failure, question_text(body))
    return None


@final
class RowLayer:
    """ASGI middleware.

    `reported`: the fields that only the verify response has. They are removed from a stored row
    that is verified again, because verifiers build the response from the request's fields and their
    own. `sessions`: they have the tool calls that failed.
    """

    def __init__(self, app: ASGIApp, *, reported: Collection[str], sessions: SessionStore) -> None:
        self._app = app
        self._sessions = sessions
        self._left_out = {*reported, JUDGE_EVALUATIONS, JUDGE_REPLAY}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/verify":
            await self._verify(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _verify(self, scope: Any, receive: Receive, send: Send) -> None:
        messages, raw = await read_body(receive)
        # Most bodies hold neither mark, and are not worth decoding twice.
        concerned = any(mark.encode() in raw for mark in REPLAY_MARKS)
        body = json_object(raw) if concerned else None
        around: AbstractContextManager[None] = contextlib.nullcontext()
        if body is not None and is_stored(body):
            if is_replayed(body):
                around = replaying(body)
            fields = {name: body[name] for name in body if name not in self._left_out}
            messages = [{"type": "http.request", "body": encode_json(fields), "more_body": False}]
        with around:
            await self._answer(scope, replayed(messages, receive), send)

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        """Let the app answer, and add the failed tool calls of the session, which ends."""
        session_id = scope["session"].get(SESSION_ID_KEY, "")
        faults = self._sessions.tool_faults(session_id)
        if not faults:
            await self._app(scope, receive, send)
            return
        answer = WholeAnswer()
        await self._app(scope, receive, answer.send)
        await answer.pass_on(send, lambda row: with_faults(row, faults))
        self._sessions.close(session_id)
