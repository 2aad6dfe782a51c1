"""`TurnsServer`: an environment that takes turns with the model, as in a game or a dialogue.

The protocol is Gymnasium's, in messages. `POST /reset` with the task row starts an episode. `POST
/step` with the model's turn returns the next observation, which the agent (`gymnasium_agent`) sends
to the model as a user message. `/verify` returns the episode's result: its reward is the sum of the
steps' rewards.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from pydantic import Field

from palestra.errors import KnownCause, NoSession
from palestra.schema import (
    VERIFIES_EPISODES,
    JsonDict,
    Response,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    is_infinite,
    no_reward,
)
from palestra.server.endpoints import Endpoint
from palestra.server.resources_server import ResourcesServer, ReverifyMode, refuse_reward
from palestra.server.sessions import Session

_EPISODE = "episode"


class Opening(WireModel):
    """The answer of `/reset`."""

    observation: str | None = None
    """A user message that is added to the task's input; None when the input needs no addition."""
    info: JsonDict = Field(default_factory=dict)


class StepRequest(WireModel):
    """The request body of `/step`: one turn of the model."""

    response: Response


class Step(WireModel):
    """The answer of `/step`."""

    observation: str | None = None
    """The user message that the model reads next."""
    reward: float = 0.0
    terminated: bool = False
    """Whether the episode has reached its own end."""
    truncated: bool = False
    """Whether the episode was cut off, for example by a limit on its steps."""
    info: JsonDict = Field(default_factory=dict)


@dataclass(slots=True)
class Episode:
    """One rollout's game so far. The environment uses `state` freely."""

    state: Any = None
    reward: float = 0.0
    steps: int = 0
    terminated: bool = False
    truncated: bool = False
    info: JsonDict = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    def add(self, step: Step) -> None:
        """Add one step: its reward, end flags and info."""
        self.steps += 1
        self.reward += step.reward
        self.terminated, self.truncated = step.terminated, step.truncated
        self.info = step.info


def no_episode(server: str, path: str) -> NoSession:
    """Return the error of a call in a session whose episode was never begun."""
    return NoSession(
        f"{server}{path}: this session has no episode, because the agent did not call /reset",
        hint="gymnasium_agent calls /reset and /step: write it in place of simple_agent under "
        "responses_api_agents; it has the same settings",
        cause=KnownCause.NO_EPISODE,
    )


class TurnsServer(ResourcesServer):
    """The base class of environments that take turns. Subclass it and write `reset` and `answer`."""

    palestra_failures: ClassVar[frozenset[int]] = ResourcesServer.palestra_failures | {409}

    reverify_mode: ClassVar[ReverifyMode] = "unsupported"
    """Set it to `stateless` if `rescored` can compute the reward of a stored episode."""

    @abstractmethod
    async def reset(self, body: Any, session: Session) -> Opening:
        """Start an episode: call `begin` with the state of the task. Annotate `body` with a model
        of the row's fields that you need.
        """

    def begin(self, session: Session, state: Any) -> Episode:
        """Start a new episode in this session; an earlier one is dropped."""
        episode = session.state[_EPISODE] = Episode(state)
        return episode

    @abstractmethod
    async def answer(self, turn: Response, episode: Episode) -> Step:
        """React to the model's turn. Never raise an error because of a model's output."""

    async def rescored(self, body: VerifyRequest) -> VerifyResponse:
        """Return the result of a stored episode from its row alone. The session no longer exists."""
        del body
        raise no_episode(self.name, "/verify")

    def _complete_document(self, document: JsonDict) -> None:
        super()._complete_document(document)
        kind = type(self)
        if (kind.verify, kind.rescored, kind.seed_session) == (
            TurnsServer.verify,
            TurnsServer.rescored,
            TurnsServer.seed_session,
        ):
            document["paths"]["/verify"]["post"][VERIFIES_EPISODES] = True

    async def step(self, body: StepRequest, session: Session) -> Step:
        """Take one turn of the model and return the environment's answer."""
        episode = _episode_of(session)
        if episode is None or episode.over:
            what = "has ended" if episode else "was not opened by /reset"
            raise NoSession(f"{self.name}/step: the episode of this session {what}")
        step = await self.answer(body.response, episode)
        refuse_reward(
            f"{self.name}/step", no_reward(step.reward) if is_infinite(step.reward) else ""
        )
        episode.add(step)
        return step

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        """Return the sum of the step rewards, how the episode ended, and the `info` of the last
        step.
        """
        episode = _episode_of(session)
        if episode is None:
            return await self.rescored(body)
        return self.reply(
            body,
            episode.reward,
            terminated=episode.terminated,
            truncated=episode.truncated,
            info=episode.info,
        )

    def routes(self) -> list[Endpoint]:
        """Return the endpoints: `/reset` and `/step`, and those of every environment."""
        return [
            *super().routes(),
            self.endpoint(self.reset, "/reset"),
            self.endpoint(self.step, "/step"),
        ]


def _episode_of(session: Session) -> Episode | None:
    return cast("Episode | None", session.state.get(_EPISODE))
