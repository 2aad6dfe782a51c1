"""`nemo_gym.judge`: asking a judge model, and what to raise when there is no verdict."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from palestra.compat.http import response_json
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from palestra.errors import CallError

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
"""Names under which a call may say whom to ask, and what."""


class JudgeError(Exception):
    """The judge failed or gave no readable verdict: there is no reward, which is not a reward of 0.

    What it is raised with by name is kept as attributes.
    """

    def __init__(self, *args: Any, **details: Any) -> None:
        super().__init__(*(args or (details.get("message", ""),)))
        self.message = str(self.args[0])
        for name, value in details.items():
            setattr(self, name, value)


async def call_judge(*args: Any, **kwargs: Any) -> Any:
    """Ask a judge and give its response; raises `JudgeError` for whatever keeps it from answering.

    Needs a client (`server_client`), the model server (a name, or its reference), and what to ask:
    `responses_create_params` (a model, or a mapping), or `input` with other parameters beside it.
    In any order: what an argument is, its value tells. `url_path` asks another endpoint, and
    `response_model` (default `NeMoGymResponse`; None for plain JSON) reads another answer.
    """
    call = _Asked(args, kwargs)
    try:
        reply = await call.client.post(
            server_name=call.server, url_path=call.path, json=call.body, **call.how
        )
        answer = await response_json(reply)
        if call.answer is None:
            return answer
        return call.answer.model_validate(answer)
    except (ValidationError, ValueError) as error:
        raise JudgeError(
            f"the judge {call.server} answered what is no response: {error}"
        ) from error
    except JudgeError:
        raise
    except CallError as error:
        raise JudgeError(f"the judge {call.server} failed: {error.message}") from error
    except Exception as error:  # whatever the client of an author raises
        raise JudgeError(f"the judge {call.server} failed: {error!r}") from error


class _Asked:
    """The arguments of `call_judge`, told apart by what they are."""

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
    """The request: `body`, if there is one, with what is given beside it."""
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
