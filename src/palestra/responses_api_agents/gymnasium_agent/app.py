"""`GymnasiumAgent`: one `/reset`, then model turn and environment step alternate until the episode
ends.

The model reads the environment's observations as user messages. The observation of `/reset` is
added to the task's input; later observations stand in the trajectory, between the model's turns.
The episode ends when

- a step returns `terminated` or `truncated`,
- a turn is incomplete (`incomplete_details`): half an action is not sent to `/step`, or
- `max_steps` turns were played.
"""

from typing import Any

from pydantic import Field

from palestra.schema import (
    Message,
    OutputItem,
    Response,
    ResponseCreateParams,
    RunRequest,
    Usage,
    VerifyResponse,
    add_usage,
    changed,
    maker,
)
from palestra.server import BoundAgent, BoundAgentConfig, Opening, Step
from palestra.transport import Peer

_make_message = maker(Message)


class GymnasiumAgentConfig(BoundAgentConfig):
    """The settings of `GymnasiumAgent`."""

    max_steps: int | None = Field(default=None, ge=1)
    """The maximum number of model turns in one episode; None: the environment's own limit applies.
    """


class GymnasiumAgent(BoundAgent):
    """An agent that alternates model turns and environment steps; see the module's docstring."""

    config: GymnasiumAgentConfig

    async def run(self, body: RunRequest) -> VerifyResponse:
        """Play one episode and return its verification.

        The row sent to `/verify` contains the observation of `/reset` in its input.
        """
        environment = self.server_client.peer(self.environment_name())
        model = self.server_client.peer(self.model_name())
        row = {**body.__dict__, **(body.model_extra or {})}
        try:
            opening = await environment.call("/reset", row, Opening)
            params = _opened(body.responses_create_params, opening.observation)
            response = await self.respond(params, environment=environment, model=model)
        except BaseException:
            await self.close_session(environment)
            raise
        played = {**row, "responses_create_params": params, "response": response}
        return await self.verified(environment, played)

    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        """Play the episode and return it as one response: model turns and observations, with summed
        usage.

        Raises `CallError`: the model or the environment gave no answer.
        """
        request = params
        trajectory: list[OutputItem] = []
        usage: Usage | None = None
        turns = 0
        while True:
            turn = await model.call("/v1/responses", request, Response)
            turns += 1
            usage = add_usage(usage, turn.usage)
            trajectory.extend(turn.output)
            if turn.incomplete_details is not None:
                break
            step = await environment.call("/step", {"response": turn}, Step)
            if step.terminated or step.truncated or turns == self.config.max_steps:
                break
            if step.observation is not None:
                trajectory.append(_said_by_the_environment(step.observation))
            request = changed(params, {"input": [*_as_items(params.input), *trajectory]})
        return changed(turn, {"output": trajectory, "usage": usage})


def _opened(params: ResponseCreateParams, observation: str | None) -> ResponseCreateParams:
    if observation is None:
        return params
    opening = _said_by_the_environment(observation)
    return changed(params, {"input": [*_as_items(params.input), opening]})


def _as_items(observation: str | list[Any]) -> list[Any]:
    return [_said_by_the_environment(observation)] if isinstance(observation, str) else observation


def _said_by_the_environment(text: str) -> Message:
    return _make_message({"role": "user", "content": text, "type": "message"})
