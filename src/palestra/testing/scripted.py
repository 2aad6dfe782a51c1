"""`ScriptedModel`: a model server whose answers a test sets."""

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
"""One turn of the model: a text, a call, a whole response, or several items."""


class ScriptedModel(ModelServer):
    """A model that gives set answers in order, or answers from a function; it stores the requests."""

    asked: list[ResponseCreateParams] = []  # noqa: RUF012  # pydantic copies it
    """The requests that the model has got so far."""

    _answer: Callable[[ResponseCreateParams], Answer] = PrivateAttr()

    @classmethod
    def saying(cls, *answers: Answer, name: str = "policy_model") -> Self:
        """Make a model that gives `answers`, one per turn. Raises ModelRejectedRow on a further
        turn.
        """
        remaining = list(answers)

        def next_answer(_params: ResponseCreateParams) -> Answer:
            if not remaining:
                raise ModelRejectedRow(
                    f"the scripted model has only {len(answers)} answers, and the agent "
                    "requested another one"
                )
            return remaining.pop(0)

        return cls.answering(next_answer, name=name)

    @classmethod
    def answering(
        cls, answer: Callable[[ResponseCreateParams], Answer], *, name: str = "policy_model"
    ) -> Self:
        """Make a model whose answers are the results of `answer`, a function of the request."""
        server = cls(config=ModelServerConfig(name=name), server_client=server_client({}, {}))
        server._answer = answer
        return server

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return the next answer."""
        del session
        self.asked.append(body)
        return _with_own_ids(_response(self._answer(body)), turn=len(self.asked))


def _response(answer: Answer) -> Response:
    if isinstance(answer, Response):
        return answer
    items: Any = [answer] if isinstance(answer, str) or hasattr(answer, "type") else list(answer)
    return response_of(*items, model="scripted")


def _with_own_ids(response: Response, *, turn: int) -> Response:
    """Return the response with a new call id for each call without one."""
    output = [
        changed(item, {"call_id": f"call_{turn}_{number}"})
        if isinstance(item, FunctionCall) and item.call_id == UNNAMED_CALL
        else item
        for number, item in enumerate(response.output, start=1)
    ]
    return changed(response, {"output": output})
