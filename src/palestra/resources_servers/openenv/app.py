"""Any environment that an OpenEnv server offers, its actions read out of the model's words.

The model's turn is an action: JSON in `<action>…</action>`, or with `action_field` the text
itself. What the server shows afterwards is the next user's message. The reward is the sum of the
environment's.
"""

import asyncio
import math
from dataclasses import dataclass, field
from typing import Final

import orjson
from pydantic import Field, PrivateAttr

from palestra.errors import CallError, ConfigError, EnvironmentFault
from palestra.resources_servers.actions import last_action
from palestra.resources_servers.openenv.connection import ActionRefused, Observed, OpenEnvEpisode
from palestra.schema import JsonDict, JsonObject, Response, WireModel, encode_json
from palestra.server import Episode, Opening, ResourcesServerConfig, Session, Step, TurnsServer
from palestra.transport import HttpClient, HttpRequest

_START_WITHIN_S: Final = 10.0


class OpenEnvServerConfig(ResourcesServerConfig):
    """Settings of this environment."""

    base_url: str = "http://127.0.0.1:8000"
    """Where the OpenEnv server is. It must run when the fleet starts."""

    action_field: str | None = None
    """The action's field that takes the model's text, of the last `<action>…</action>` where there
    is one; None when the model writes actions as JSON objects."""

    observation_field: str | None = None
    """The observation's field that the model reads; None for all of them, as JSON."""

    max_invalid_actions: int = Field(default=3, ge=1)
    """With so many turns that are no action the episode is cut off."""

    max_episode_steps: int | None = Field(default=None, ge=1)
    """Steps after which the episode is cut off; None leaves it to the environment."""

    answer_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds that the server may take for one reset or step."""


class OpenEnvRow(WireModel):
    """What a row may say."""

    reset: JsonDict = Field(default_factory=dict)
    """Arguments of the environment's `reset`, like `seed` or `episode_id`."""


@dataclass(slots=True)
class Play:
    """A live episode."""

    live: OpenEnvEpisode
    text: str
    steps: int = 0
    invalid: int = 0


@dataclass(slots=True)
class Closing:
    """Connections that are being closed: their tasks, until they are done."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, live: OpenEnvEpisode) -> None:
        """Close without waiting for it."""
        task = asyncio.get_running_loop().create_task(live.close())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class UnparsableAction(Exception):
    """The turn holds no action; the message is for the model."""


class OpenEnvServer(TurnsServer):
    """Steps the OpenEnv environment with the action in each turn."""

    config: OpenEnvServerConfig
    _closing: Closing = PrivateAttr(default_factory=Closing)

    async def start(self) -> None:
        """Find the OpenEnv server before the first row."""
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
                hint="start it first, and give base_url its address",
            )

    async def stop(self) -> None:
        """End the connections."""
        if self._closing.tasks:
            await asyncio.wait(set(self._closing.tasks), timeout=_START_WITHIN_S)

    async def reset(self, body: OpenEnvRow, session: Session) -> Opening:
        """Open an environment of the server's, and show what it looks like."""
        live = await OpenEnvEpisode.connect(
            self.config.base_url, answer_s=self.config.answer_timeout_s
        )
        session.at_end(lambda: self._closing.begin(live))
        play = Play(live, self._seen(await live.reset(body.reset)))
        self.begin(session, play)
        return Opening(observation=play.text)

    async def answer(self, turn: Response, episode: Episode) -> Step:
        """One step of the environment, or what was wrong with the action."""
        play: Play = episode.state
        try:
            seen = await play.live.step(self._action(turn.final_text))
        except (UnparsableAction, ActionRefused) as problem:
            return self._refused(play, str(problem))
        play.steps += 1
        play.text = self._seen(seen)
        reward = 0.0 if seen.reward is None else seen.reward
        if not math.isfinite(reward):
            raise EnvironmentFault(f"{self.name}: the environment's reward is {reward}")
        return Step(
            observation=play.text,
            reward=reward,
            terminated=seen.done,
            truncated=not seen.done and play.steps == self.config.max_episode_steps,
            info={"observation": seen.observation},
        )

    def _action(self, text: str) -> JsonObject:
        found = last_action(text)
        name = self.config.action_field
        if name is not None:
            return {name: text if found is None else found}
        if found is None:
            raise UnparsableAction("Your turn holds no <action>…</action>.")
        try:
            action = orjson.loads(found)
        except orjson.JSONDecodeError as error:
            raise UnparsableAction(f"The action is not JSON: {error}.") from None
        if not isinstance(action, dict):
            raise UnparsableAction("The action is no JSON object.")
        return action

    def _seen(self, seen: Observed) -> str:
        """The observation as the model reads it."""
        name = self.config.observation_field
        shown = seen.observation if name is None else seen.observation.get(name, "")
        return shown if isinstance(shown, str) else encode_json(shown).decode()

    def _refused(self, play: Play, problem: str) -> Step:
        play.invalid += 1
        return Step(
            observation=f"{problem}\n{play.text}",
            truncated=play.invalid >= self.config.max_invalid_actions,
            info={"invalid_actions": play.invalid},
        )
