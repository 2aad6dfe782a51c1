"""Judge answers that a stored row holds, given to the author's verifier in place of the judge's.

A hosted verifier asks its judge through `ServerClient`, with no hook for a recorded answer; so
the client is where it gets one. Only while a row is verified again: see `palestra.schema.judging`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pydantic import ValidationError

from palestra.errors import JudgeFailure
from palestra.schema import (
    JUDGE_EVALUATIONS,
    JUDGE_REPLAY,
    JudgeReplay,
    ResponseCreateParams,
    encode_json,
    to_plain,
)
from palestra.transport import HttpReply

RESPONSES_PATH = "/v1/responses"

_replay: ContextVar[JudgeReplay | None] = ContextVar("palestra_compat_replay", default=None)


@contextmanager
def replaying(body: Mapping[str, Any]) -> Iterator[None]:
    """Answer the judge's questions in the body from what a stored row holds."""
    held = body.get(JUDGE_EVALUATIONS)
    replay = JudgeReplay(held if isinstance(held, list) else (), replays=True)
    token = _replay.set(replay)
    try:
        yield
    finally:
        _replay.reset(token)


def is_replayed(body: Mapping[str, Any]) -> bool:
    """Whether a verify request is one of a stored row, with its judge's answers."""
    return body.get(JUDGE_REPLAY) is True


def is_stored(body: Mapping[str, Any]) -> bool:
    """Whether it is one of a stored row, whoever is to judge: tasks hold no judge's answers."""
    return is_replayed(body) or JUDGE_EVALUATIONS in body


def recorded_reply(server: str, path: str, body: Any, *, running: bool) -> HttpReply | None:
    """What the judge answered to this before; None when it is to be asked.

    Raises JudgeFailure when the row does not tell and `server` is not `running`.
    """
    replay = _replay.get()
    if replay is None:
        return None
    exchange = None
    if path.strip("/") == RESPONSES_PATH.strip("/"):
        try:
            asked = ResponseCreateParams.model_validate(to_plain(body))
        except ValidationError:
            return None  # for the judge's own server to refuse
        exchange = replay.exchange(asked)
    if exchange is not None:
        content = encode_json(exchange.held["response"])
        return HttpReply(200, content, headers={"content-type": "application/json"})
    if not running:
        raise JudgeFailure(
            f"the row holds no answer of the judge {server} to this question",
            hint="--fresh-judge starts the judge and asks it",
        )
    return None
