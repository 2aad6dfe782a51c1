"""`GymnasiumServer`: an environment of the Gymnasium API, in which the model chooses the actions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from palestra.errors import EnvironmentFault, RowError, require_extra
from palestra.resources_servers.gymnasium.spaces import (
    NoAction,
    action_in,
    observation_text,
    plain_info,
    unplayable,
)
from palestra.schema import JsonDict, Response, WireModel
from palestra.server import (
    Aside,
    Episode,
    Opening,
    ResourcesServerConfig,
    RewardRules,
    Session,
    Step,
    TurnsServer,
)

if TYPE_CHECKING:
    from gymnasium import Env


class GymnasiumServerConfig(ResourcesServerConfig):
    """The settings of this environment."""

    env_id: str | None = None
    """The registered id, like `FrozenLake-v1`, or `module:id`. Used for rows without an `env_id`.
    """

    env_kwargs: JsonDict = Field(default_factory=dict)
    """The arguments for `gymnasium.make`."""

    actions: dict[str, int] = Field(default_factory=dict)
    """Action names that the model may use, each with its number in the discrete action space."""

    invalid_action_reward: float = 0.0
    """The reward of each turn without a valid action. Such a turn does not step the environment."""

    max_invalid_actions: int = Field(default=3, ge=1)
    """The number of invalid actions after which the episode is truncated."""

    max_episode_steps: int | None = Field(default=None, ge=1)
    """The number of steps after which the episode is truncated. None: the environment decides."""


class GymnasiumRow(WireModel):
    """The fields of a row. They override the settings."""

    env_id: str | None = Field(default=None, pattern=r"^[^:]+$")
    """A registered id. A row may not name a module to import."""
    env_kwargs: JsonDict = Field(default_factory=dict)
    actions: dict[str, int] = Field(default_factory=dict)
    seed: int | None = None
    """The same seed gives the same episode. Without a seed, every rollout gets its own episode."""
    options: JsonDict | None = None


@dataclass(slots=True)
class Game:
    """The state of an episode: the Gymnasium environment, its action names and the last
    observation.
    """

    env: "Env[Any, Any]"
    actions: Mapping[str, int]
    text: str = ""
    invalid: int = 0


class GymnasiumServer(TurnsServer):
    """A resources server that steps the environment with the model's action in each turn.

    The reward is the sum of the environment's rewards.
    """

    repeatable: ClassVar[bool | None] = True

    config: GymnasiumServerConfig

    reward_rules: ClassVar[RewardRules] = RewardRules(
        lowest=-math.inf,
        highest=math.inf,
        unsure={"other": "the same actions may lead to the goal from elsewhere"},
    )

    async def start(self) -> None:
        """Check before the first row that the library and the configured environment can be loaded."""
        _library()
        if self.config.env_id is not None:
            env = await self._aside.run(partial(self._make, GymnasiumRow()))
            env.close()

    async def reset(self, body: GymnasiumRow, session: Session) -> Opening:
        """Create the environment, and return its first observation."""
        env = await self._aside.run(partial(self._make, body))
        session.at_end(env.close)
        game = Game(env, body.actions or self.config.actions)
        seed = body.seed
        observation, info = await self._aside.run(
            partial(env.reset, seed=seed, options=body.options)
        )
        game.text = self._observation_text(game, observation)
        self.begin(session, game)
        return Opening(observation=game.text, info=plain_info(info))

    async def answer(self, turn: Response, episode: Episode) -> Step:
        """Step the environment with the model's action. An invalid action returns an error text
        instead.
        """
        game: Game = episode.state
        try:
            action = action_in(turn.final_text, game.env.action_space, game.actions)
        except NoAction as problem:
            return self._refused(game, str(problem))
        observation, reward, terminated, truncated, info = await self._aside.run(
            partial(game.env.step, action)
        )
        if not math.isfinite(float(reward)):
            raise EnvironmentFault(f"{self.name}: the environment's reward is {reward}")
        game.text = self._observation_text(game, observation)
        return Step(
            observation=game.text,
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            info=plain_info(info),
        )

    def _make(self, row: GymnasiumRow) -> "Env[Any, Any]":
        env_id = row.env_id or self.config.env_id
        if env_id is None:
            raise RowError(f"{self.name}: no env_id: set it in the row or in the settings")
        library = _library()
        arguments = {**self.config.env_kwargs, **row.env_kwargs}
        try:
            if _speaks(env_id):
                arguments.setdefault("render_mode", "ansi")
            env: Env[Any, Any] = library.make(
                env_id, max_episode_steps=self.config.max_episode_steps, **arguments
            )
        except (library.error.Error, TypeError, ModuleNotFoundError) as error:
            raise RowError(
                f"{self.name}: {env_id} cannot be made: {error}",
                hint="`python -c 'import gymnasium; gymnasium.pprint_registry()'` lists the ids",
            ) from error
        part = unplayable(env.action_space)
        if part is not None:
            env.close()
            raise RowError(
                f"{self.name}: actions of {env_id} cannot be written as text: {part}",
                hint="wrap the environment so that its actions are texts, numbers, or lists or "
                "objects of them",
            )
        return env

    def _observation_text(self, game: Game, observation: Any) -> str:
        """Return the environment's own text rendering if it has one, else the observation as text."""
        if game.env.render_mode == "ansi":
            drawn = game.env.render()
            if isinstance(drawn, str):
                return drawn
        return observation_text(observation, game.env.observation_space)

    def _refused(self, game: Game, problem: str) -> Step:
        game.invalid += 1
        is_over = game.invalid >= self.config.max_invalid_actions
        return Step(
            observation=f"{problem}\n{game.text}",
            reward=self.config.invalid_action_reward,
            truncated=is_over,
            info={"invalid_actions": game.invalid},
        )

    @cached_property
    def _aside(self) -> Aside:
        return Aside()


def _library() -> Any:
    require_extra("gymnasium", extra="gymnasium", what="the gymnasium environment")
    import gymnasium

    return gymnasium


def _speaks(env_id: str) -> bool:
    """Whether the environment can render itself as text."""
    spec = _library().spec(env_id)
    entry = spec.entry_point
    if isinstance(entry, str):
        entry = _library().envs.registration.load_env_creator(entry)
    metadata = getattr(entry, "metadata", {})
    return "ansi" in metadata.get("render_modes", ())
