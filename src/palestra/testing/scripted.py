"""`ScriptedModel`: a model server that says what a test wants it to."""

from collections.abc import Callable, Iterable
from typing import Any, Self

from pydantic import PrivateAttr

from palestra.errors import ModelRejectedRow
from palestra.fleet import server_client
from palestra.schema import (
    UNNAMED_CALL,
    FunctionCall,
    OutputItem,
    Response,
    ResponseCreateParams,
    changed,
    response_of,
)
from palestra.server import ModelServer, ModelServerConfig, Session

Answer = str | OutputItem | Response | Iterable[str | OutputItem]
"""A text, a call, a whole response, or several items of one turn."""


class ScriptedModel(ModelServer):
    """Answers in order, or by a function of the request; keeps what it was asked."""

    asked: list[ResponseCreateParams] = []  # noqa: RUF012  # pydantic copies it
    """The requests so far."""

    _answer: Callable[[ResponseCreateParams], Answer] = PrivateAttr()

    @classmethod
    def saying(cls, *answers: Answer, name: str = "policy_model") -> Self:
        """A model that gives these answers, one a turn. One more turn is an error that says so."""
        remaining = list(answers)

        def next_answer(_params: ResponseCreateParams) -> Answer:
            if not remaining:
                raise ModelRejectedRow(
                    f"the scripted model has given its {len(answers)} answers, and is asked again"
                )
            return remaining.pop(0)

        return cls.answering(next_answer, name=name)

    @classmethod
    def answering(
        cls, answer: Callable[[ResponseCreateParams], Answer], *, name: str = "policy_model"
    ) -> Self:
        """A model whose answers are made by `answer` of the request."""
        server = cls(config=ModelServerConfig(name=name), server_client=server_client({}, {}))
        server._answer = answer
        return server

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """The next answer."""
        del session
        self.asked.append(body)
        return _with_own_ids(_response(self._answer(body)), turn=len(self.asked))


def _response(answer: Answer) -> Response:
    if isinstance(answer, Response):
        return answer
    items: Any = [answer] if isinstance(answer, str) or hasattr(answer, "type") else list(answer)
    return response_of(*items, model="scripted")


def _with_own_ids(response: Response, *, turn: int) -> Response:
    """The response with an id of its own for each call whose author gave it none."""
    output = [
        changed(item, {"call_id": f"call_{turn}_{number}"})
        if isinstance(item, FunctionCall) and item.call_id == UNNAMED_CALL
        else item
        for number, item in enumerate(response.output, start=1)
    ]
    return changed(response, {"output": output})
