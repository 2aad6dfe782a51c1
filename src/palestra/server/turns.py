"""`TurnsServer`: an environment that takes turns with the model, as in a game or a dialogue.

The protocol is Gymnasium's, spoken in messages: `POST /reset` with the task row opens an episode,
`POST /step` with the model's turn answers it with the next observation, which the agent
(`gymnasium_agent`) gives the model as a user's message. `/verify` says what the episode came to:
its reward is the sum of its steps'.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from pydantic import Field

from palestra.errors import NoSession
from palestra.schema import JsonDict, Response, VerifyRequest, VerifyResponse, WireModel
from palestra.server.endpoints import Endpoint
from palestra.server.resources_server import ResourcesServer, ReverifyMode
from palestra.server.sessions import Session

_EPISODE = "episode"


class Opening(WireModel):
    """What `/reset` answers."""

    observation: str | None = None
    """Added to the task's input as a user's message; None when the input says it all."""
    info: JsonDict = Field(default_factory=dict)


class StepRequest(WireModel):
    """What `/step` is asked: one turn of the model."""

    response: Response


class Step(WireModel):
    """What `/step` answers."""

    observation: str | None = None
    """What the model reads next, as a user's message."""
    reward: float = 0.0
    terminated: bool = False
    """The episode came to an end of its own."""
    truncated: bool = False
    """The episode was cut off, by a limit on its steps for instance."""
    info: JsonDict = Field(default_factory=dict)


@dataclass(slots=True)
class Episode:
    """One rollout's game so far. `state` is the environment's own."""

    state: Any = None
    reward: float = 0.0
    steps: int = 0
    terminated: bool = False
    truncated: bool = False
    info: JsonDict = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to play."""
        return self.terminated or self.truncated

    def add(self, step: Step) -> None:
        """Count one step."""
        self.steps += 1
        self.reward += step.reward
        self.terminated, self.truncated = step.terminated, step.truncated
        self.info = step.info


class TurnsServer(ResourcesServer):
    """Subclass this and write `reset` and `answer`."""

    palestra_failures: ClassVar[frozenset[int]] = ResourcesServer.palestra_failures | {409}

    reverify_mode: ClassVar[ReverifyMode] = "unsupported"
    """`stateless` where `rescored` tells the reward of a stored episode."""

    @abstractmethod
    async def reset(self, body: Any, session: Session) -> Opening:
        """Open an episode: call `begin` with what it is about. Annotate `body` with a model of the
        row's fields that you need.
        """

    def begin(self, session: Session, state: Any) -> Episode:
        """A new episode of this session; one that it had is forgotten."""
        episode = session.state[_EPISODE] = Episode(state)
        return episode

    @abstractmethod
    async def answer(self, turn: Response, episode: Episode) -> Step:
        """React to the model's turn. Never raise because of what a model wrote."""

    async def rescored(self, body: VerifyRequest) -> VerifyResponse:
        """The result of a stored episode, whose session is gone, from what its row holds."""
        del body
        raise NoSession(
            f"{self.name}/verify: there is no episode in this session",
            hint="call /reset and /step first, in the same session",
        )

    async def step(self, body: StepRequest, session: Session) -> Step:
        """One turn of the model and the environment's answer."""
        episode = _episode_of(session)
        if episode is None or episode.over:
            what = "has ended" if episode else "was not opened by /reset"
            raise NoSession(f"{self.name}/step: the episode of this session {what}")
        step = await self.answer(body.response, episode)
        episode.add(step)
        return step

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        """The sum of the steps' rewards, how the episode ended, and what the last step told."""
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
        """Reset and step besides the protocol's own."""
        return [
            *super().routes(),
            self.endpoint(self.reset, "/reset"),
            self.endpoint(self.step, "/step"),
        ]


def _episode_of(session: Session) -> Episode | None:
    return cast("Episode | None", session.state.get(_EPISODE))
