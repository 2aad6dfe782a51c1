"""Any environment of an OpenEnv server. Actions are read from the model's text.

The model's turn contains an action: JSON in `<action>…</action>`, or, with `action_field`, plain
text. The server's observation becomes the next user message. The reward is the sum of the
environment's rewards.
"""

import asyncio
import math
from dataclasses import dataclass, field
from typing import Final

import orjson
from pydantic import Field, PrivateAttr

from palestra.errors import CallError, ConfigError, EnvironmentFault, require_extra
from palestra.resources_servers.actions import last_action
from palestra.resources_servers.openenv.connection import ActionRefused, Observed, OpenEnvEpisode
from palestra.schema import JsonDict, JsonObject, Response, WireModel, encode_json
from palestra.server import Episode, Opening, ResourcesServerConfig, Session, Step, TurnsServer
from palestra.transport import HttpClient, HttpRequest

_START_WITHIN_S: Final = 10.0


class OpenEnvServerConfig(ResourcesServerConfig):
    """The settings of this environment."""

    base_url: str = "http://127.0.0.1:8000"
    """The address of the OpenEnv server. The server must run when the fleet starts."""

    action_field: str | None = None
    """The field of the action that takes the model's text. The text is the last
    `<action>…</action>`, or else the whole turn. None: the model writes actions as JSON objects."""

    observation_field: str | None = None
    """The field of the observation that the model reads. None: all fields, as JSON."""

    max_invalid_actions: int = Field(default=3, ge=1)
    """The number of turns without an action after which the episode is truncated."""

    max_episode_steps: int | None = Field(default=None, ge=1)
    """The number of steps after which the episode is truncated. None: the environment decides."""

    answer_timeout_s: float = Field(default=60.0, gt=0)
    """The seconds that the server may take for one reset or step."""


class OpenEnvRow(WireModel):
    """The fields of a row."""

    reset: JsonDict = Field(default_factory=dict)
    """The arguments of the environment's `reset`, like `seed` or `episode_id`."""


@dataclass(slots=True)
class Play:
    """The state of an episode: its connection, the last observation, and counts of steps and
    invalid actions.
    """

    live: OpenEnvEpisode
    text: str
    steps: int = 0
    invalid: int = 0


@dataclass(slots=True)
class Closing:
    """The tasks of connections that are being closed."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, live: OpenEnvEpisode) -> None:
        """Start to close a connection without waiting for it."""
        task = asyncio.get_running_loop().create_task(live.close())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class UnparsableAction(Exception):
    """Raised when the turn has no readable action; the model reads the message."""


class OpenEnvServer(TurnsServer):
    """A resources server that steps the OpenEnv environment with the model's action in each turn."""

    config: OpenEnvServerConfig
    _closing: Closing = PrivateAttr(default_factory=Closing)

    async def start(self) -> None:
        """Check that the OpenEnv server runs, before the first row. Raises ConfigError: it does
        not run, or the WebSocket client is not installed.
        """
        require_extra("websockets", extra="openenv", what=self.name)
        url = f"{self.config.base_url.rstrip('/')}/health"
        http = HttpClient()
        try:
            reply = await http.send(HttpRequest("GET", url, timeout_s=_START_WITHIN_S))
            problem = "" if reply.status < 400 else f"{url} answers with status {reply.status}"
        except CallError as error:
            problem = error.message
        finally:
            await http.aclose()
        if problem:
            raise ConfigError(
                f"{self.name}: there is no OpenEnv server at {self.config.base_url}: {problem}",
                hint="start that server first, and set base_url to its address",
            )

    async def stop(self) -> None:
        """Wait until the connections are closed, up to `_START_WITHIN_S` seconds."""
        if self._closing.tasks:
            await asyncio.wait(set(self._closing.tasks), timeout=_START_WITHIN_S)

    async def reset(self, body: OpenEnvRow, session: Session) -> Opening:
        """Open an environment on the server, and return its first observation."""
        live = await OpenEnvEpisode.connect(
            self.config.base_url, answer_s=self.config.answer_timeout_s
        )
        session.at_end(lambda: self._closing.begin(live))
        play = Play(live, self._observation_text(await live.reset(body.reset)))
        self.begin(session, play)
        return Opening(observation=play.text)

    async def answer(self, turn: Response, episode: Episode) -> Step:
        """Step the environment with the model's action. An invalid action returns an error text
        instead.
        """
        play: Play = episode.state
        try:
            observed = await play.live.step(self._action(turn.final_text))
        except (UnparsableAction, ActionRefused) as problem:
            return self._refused(play, str(problem))
        play.steps += 1
        play.text = self._observation_text(observed)
        reward = 0.0 if observed.reward is None else observed.reward
        if not math.isfinite(reward):
            raise EnvironmentFault(f"{self.name}: the environment's reward is {reward}")
        return Step(
            observation=play.text,
            reward=reward,
            terminated=observed.done,
            truncated=not observed.done and play.steps == self.config.max_episode_steps,
            info={"observation": observed.observation},
        )

    def _action(self, text: str) -> JsonObject:
        action_text = last_action(text)
        name = self.config.action_field
        if name is not None:
            return {name: text if action_text is None else action_text}
        if action_text is None:
            raise UnparsableAction("Your turn holds no <action>…</action>.")
        try:
            action = orjson.loads(action_text)
        except orjson.JSONDecodeError as error:
            raise UnparsableAction(f"The action is not JSON: {error}.") from None
        if not isinstance(action, dict):
            raise UnparsableAction("The action is not a JSON object.")
        return action

    def _observation_text(self, observed: Observed) -> str:
        """Return an observation as text for the model."""
        name = self.config.observation_field
        value = observed.observation if name is None else observed.observation.get(name, "")
        return value if isinstance(value, str) else encode_json(value).decode()

    def _refused(self, play: Play, problem: str) -> Step:
        play.invalid += 1
        return Step(
            observation=f"{problem}\n{play.text}",
            truncated=play.invalid >= self.config.max_invalid_actions,
            info={"invalid_actions": play.invalid},
        )
