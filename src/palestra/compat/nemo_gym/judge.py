"""`nemo_gym.judge`: call a judge model; raise `JudgeError` when there is no verdict."""

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from palestra.compat.handlers import Handler, like
from palestra.compat.http import get_response_json, raise_for_status
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.errors import CallError, JudgeFailure
from palestra.schema import FAILURE_CLASS, FAILURE_JUDGE_ERROR, question_text
from palestra.transport import note_unanswered

RESPONSES_PATH = "/v1/responses"

_SERVER = frozenset(
    {None, "server_name", "name", "model_server", "judge", "judge_server", "judge_model_server"}
    | {"judge_server_name", "judge_name", "judge_model_server_name", "model_server_name"}
)
_BODY = frozenset(
    {
        None,
        "json",
        "body",
        "params",
        "request",
        "payload",
        "create_params",
        "responses_create_params",
    }
    | {"judge_responses_create_params", "judge_params", "request_params"}
)
"""Keyword names under which a call may pass the request body."""


class JudgeError(Exception):
    """The judge failed or gave no readable verdict: there is no reward, which is not a reward of 0.

    Keyword arguments become attributes of the exception.
    """

    judge_question: str = ""
    """What the judge was asked; empty when unknown."""

    def __init__(self, *args: Any, **details: Any) -> None:
        super().__init__(*(args or (details.get("message", ""),)))
        self.message = str(self.args[0])
        for name, value in details.items():
            setattr(self, name, value)


Verdict = TypeVar("Verdict")


async def reraise_judge_errors(coro: Awaitable[Verdict]) -> Verdict:
    """Await a judge call and return its result; raise `JudgeError` for every exception of it."""
    try:
        return await coro
    except JudgeError:
        raise
    except Exception as error:
        raise JudgeError(f"{type(error).__name__}: {error}") from error


def judge_failsafe(verify_fn: Handler) -> Handler:
    """Return `verify_fn` that answers a failed row, instead of raising, when the judge failed.

    The row is the request's body with `reward: 0.0`, `_ng_failure_class: "judge_failed"` and
    `_ng_failure_judge_error`. Raises RuntimeError: the judge failed, and no argument is the body of
    a verify request. Raises JudgeError in a fleet, which makes a typed failure of it: a row could
    lose its marks in an author's agent, and be scored with 0.0.
    """

    @like(verify_fn)
    async def verify(*args: Any, **kwargs: Any) -> Any:
        try:
            return await verify_fn(*args, **kwargs)
        except JudgeError as error:
            server = getattr(verify_fn, "__self__", args[0] if args else None)
            if getattr(getattr(server, "server_client", None), "is_in_fleet", False) is True:
                raise
            return JSONResponse(_failed_row(error, args, kwargs))

    return verify


def _failed_row(
    error: JudgeError, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    bodies = [kwargs["body"]] if "body" in kwargs else [*args, *kwargs.values()]
    body = next((b for b in bodies if hasattr(b, "model_dump") and hasattr(b, "response")), None)
    if body is None:
        raise RuntimeError("the judge failed, and no argument is a verify request") from error
    row: dict[str, Any] = body.model_dump(mode="json")
    return row | {"reward": 0.0, FAILURE_CLASS: "judge_failed", FAILURE_JUDGE_ERROR: str(error)}


async def call_judge(*args: Any, **kwargs: Any) -> Any:
    """Send a request to a judge and return its response; raises `JudgeError` for any failure of the
    call.

    Needs a client (`server_client`), the model server (a name, or its reference), and the request:
    `responses_create_params` (a model, or a mapping), or `input` and further parameters. Arguments
    may come in any order: each is recognized by its value. `url_path` selects another endpoint, and
    `response_model` (default `NeMoGymResponse`; None for plain JSON) another type of response.
    """
    call = _Asked(args, kwargs)
    try:
        return await _answer(call)
    except JudgeError as error:
        error.judge_question = question_text(call.body)
        if isinstance(error.__cause__, ValueError):  # the reply is not a response
            note_unanswered(call.body, JudgeFailure(error.message))
        raise


async def _answer(call: "_Asked") -> Any:
    try:
        reply = await call.client.post(
            server_name=call.server, url_path=call.path, json=call.body, **call.how
        )
        await raise_for_status(reply)
        answer = await get_response_json(reply)
        if call.answer is None:
            return answer
        return call.answer.model_validate(answer)
    except (ValidationError, ValueError) as error:
        raise JudgeError(
            f"the judge {call.server} answered what is not a response: {error}"
        ) from error
    except JudgeError:
        raise
    except CallError as error:
        raise JudgeError(f"the judge {call.server} failed: {error.message}") from error
    except Exception as error:  # whatever the client of an author raises
        raise JudgeError(f"the judge {call.server} failed: {error!r}") from error


class _Asked:
    """The arguments of `call_judge`, each recognized by its type and name."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.client: Any = None
        self.server = ""
        self.body: Any = None
        self.path = str(kwargs.pop("url_path", RESPONSES_PATH))
        self.answer: Any = kwargs.pop("response_model", NeMoGymResponse)
        self.how = {
            name: kwargs.pop(name) for name in ("cookies", "headers", "params") if name in kwargs
        }
        further = {name: value for name, value in kwargs.items() if not self._take(name, value)}
        for value in args:
            # What is nothing else is what to say: a prompt, or messages.
            if not self._take(None, value):
                further.setdefault("input", value)
        self.body = _params(self.body, further)
        if not all((self.client, self.server)):
            raise TypeError("call_judge needs a server_client and the judge's server")

    def _take(self, name: str | None, value: Any) -> bool:
        if hasattr(value, "post") and self.client is None:
            self.client = value
        elif isinstance(value, str) and name in _SERVER and not self.server:
            self.server = value
        elif isinstance(getattr(value, "name", None), str) and hasattr(value, "type"):
            self.server = value.name
        elif name in _BODY and isinstance(value, Mapping | BaseModel):
            self.body = value
        elif isinstance(value, type) and issubclass(value, BaseModel):
            self.answer = value
        else:
            return False
        return True


def _params(body: Any, keywords: dict[str, Any]) -> Any:
    """Return the request: `body`, if given, updated with the other keyword arguments."""
    fields = set(NeMoGymResponseCreateParamsNonStreaming.model_fields)
    params = {
        name: value for name, value in keywords.items() if name in fields and value is not None
    }
    for name in ("messages", "prompt_messages", "input_messages", "prompt"):
        if "input" not in params and keywords.get(name) is not None:
            params["input"] = keywords[name]
            params.pop("prompt", None)
    if body is not None and not params:
        return body
    base_params = (
        body.model_dump(exclude_unset=True) if isinstance(body, BaseModel) else dict(body or {})
    )
    return NeMoGymResponseCreateParamsNonStreaming.model_validate(base_params | params)
