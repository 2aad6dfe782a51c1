"""Real Gymnasium environments, played in words."""

import asyncio
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces
from verifying import example_rows, response, said

from palestra.errors import RowError
from palestra.resources_servers.gymnasium.app import (
    GymnasiumRow,
    GymnasiumServer,
    GymnasiumServerConfig,
)
from palestra.resources_servers.gymnasium.spaces import NoAction, action_in, observation_text
from palestra.schema import Response
from palestra.server import Session, Step, StepRequest
from palestra.transport import HttpClient, ServerClient

LAKE = {
    "env_id": "FrozenLake-v1",
    "env_kwargs": {"desc": ["SF", "FG"], "is_slippery": False},
    "actions": {"left": 0, "down": 1, "right": 2, "up": 3},
}


PAIR = spaces.Tuple((spaces.Discrete(4), spaces.Discrete(4)))
NESTED = {"a": (0, 3), "b": "x"}


def server(**settings: Any) -> GymnasiumServer:
    return GymnasiumServer(
        config=GymnasiumServerConfig(name="under_test", **settings),
        server_client=ServerClient({}, HttpClient()),
    )


def play(row: dict[str, Any], *turns: str, **settings: Any) -> tuple[list[Step], Session, str]:
    async def episode() -> tuple[list[Step], Session, str]:
        env, session = server(**settings), Session("a")
        opened = await env.reset(GymnasiumRow.model_validate(row), session)
        steps = []
        for text in turns:
            answer = Response.model_validate(response(said(text)))
            steps.append(await env.step(StepRequest(response=answer), session))
        return steps, session, str(opened.observation)

    return asyncio.run(episode())


def test_a_lake_is_crossed_by_named_steps() -> None:
    steps, _, drawn = play(LAKE, "<action>Right</action>", "I go <action> down </action>")

    assert drawn.replace("\x1b[41mS\x1b[0m", "S").split() == ["SF", "FG"]
    assert [step.reward for step in steps] == [0.0, 1.0]
    assert [step.terminated for step in steps] == [False, True]


def test_a_name_in_quotes_is_that_name() -> None:
    steps, _, _ = play(LAKE, '<action>"right"</action>', "<action>'down'</action>")

    assert steps[-1].reward == 1.0


def test_a_turn_without_an_action_is_told_so_and_three_end_the_episode() -> None:
    steps, _, _ = play(LAKE, "right", "<action>jump</action>", "<action></action>")

    assert "no <action>" in str(steps[0].observation)
    assert "'jump' is not an action. It is one of: left, down, right, up." in str(
        steps[1].observation
    )
    assert [step.truncated for step in steps] == [False, False, True]


def test_a_bad_action_can_cost_something() -> None:
    steps, _, _ = play(LAKE, "?", "<action>2</action>", invalid_action_reward=-0.25)

    assert [step.reward for step in steps] == [-0.25, 0.0]


def test_an_environment_that_draws_nothing_is_seen_by_its_numbers() -> None:
    _, _, seen = play({"env_id": "CartPole-v1", "seed": 1})

    assert seen.startswith("[")
    assert seen.count(",") == 3


def test_a_seed_gives_the_same_episode() -> None:
    taxi = {"env_id": "Taxi-v4" if "Taxi-v4" in registered() else "Taxi-v3"}
    one, same, other = (play({**taxi, "seed": seed})[2] for seed in (1, 1, 2))

    assert one == same != other


def registered() -> set[str]:
    return set(gymnasium.registry)


def test_a_limit_on_steps_cuts_the_episode_off() -> None:
    steps, _, _ = play(LAKE, "<action>left</action>", max_episode_steps=1)

    assert (steps[0].truncated, steps[0].terminated) == (True, False)


def test_the_environment_is_closed_with_its_session() -> None:
    _, session, _ = play(LAKE)
    closed: list[str] = []
    session.state["episode"].state.env.unwrapped.close = lambda: closed.append("closed")
    session.end()

    assert closed == ["closed"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"env_id": "NoSuchGame-v0"}, "NoSuchGame-v0 cannot be made"),
        ({"env_id": "FrozenLake-v1", "env_kwargs": {"depth": 3}}, "cannot be made"),
        ({}, "no env_id"),
    ],
)
def test_a_row_that_names_no_environment_is_refused(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(RowError, match=problem):
        play(row)


def test_a_row_may_not_name_a_module_to_import() -> None:
    with pytest.raises(ValueError, match="env_id"):
        GymnasiumRow.model_validate({"env_id": "os:system"})


@pytest.mark.parametrize(
    ("space", "text", "action"),
    [
        (spaces.Discrete(4), "3", 3),
        (spaces.Discrete(4), "2.0", 2),
        (spaces.Box(-1, 1, (1,)), "0.5", [0.5]),
        (spaces.Box(0, 9, (2,), dtype="int8"), "[3, 4.0]", [3, 4]),
        (spaces.MultiBinary(3), "[1, 0, 1]", [1, 0, 1]),
        (PAIR, "[1, 2]", (1, 2)),
        (spaces.Dict({"a": PAIR, "b": spaces.Text(5)}), '{"b": "x", "a": [0, 3]}', NESTED),
        (spaces.Sequence(spaces.Discrete(3)), "[2, 1]", (2, 1)),
        (spaces.MultiDiscrete([3, 3]), "[1, 2]", [1, 2]),
        (spaces.Box(-1, 1, (2,)), "[0.5, -1]", [0.5, -1.0]),
        (spaces.Text(5), "abc", "abc"),
    ],
)
def test_actions_of_each_kind_of_space(space: Any, text: str, action: Any) -> None:
    found = action_in(f"<action>{text}</action>", space, {})

    assert (found.tolist() if hasattr(found, "tolist") else found) == action


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Discrete(4), "4"),
        (spaces.Discrete(4), "true"),
        (spaces.Discrete(4), "1.5"),
        (spaces.Discrete(4), "1e300"),
        (spaces.Discrete(4), "null"),
        (spaces.Discrete(4), "18446744073709551615"),
        (spaces.Box(-1, 1, (2,)), "[null, 0]"),
        (spaces.Box(-1, 1, (2,)), "[true, 0]"),
        (spaces.Box(-1, 1, (2,)), "0"),
        (spaces.Box(0, 9, (2,), dtype="int8"), "[3.5, 4]"),
        (spaces.Box(0, 9, (2,), dtype="uint8"), "[257, 4]"),
        (PAIR, "[1]"),
        (PAIR, "[1, 4]"),
        (PAIR, "1"),
        (PAIR, "[" * 5000),
        (spaces.MultiDiscrete([3, 3]), "[1]"),
        (spaces.Box(-1, 1, (2,)), "[2, 0]"),
        (spaces.Box(-1, 1, (2,)), '"far"'),
        (spaces.Dict({"x": spaces.Discrete(2)}), "[]"),
    ],
)
def test_what_lies_outside_the_space_is_no_action(space: Any, text: str) -> None:
    with pytest.raises(NoAction):
        action_in(f"<action>{text}</action>", space, {})


@pytest.mark.parametrize(
    "space",
    [
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Tuple((spaces.Discrete(2), spaces.Sequence(spaces.Discrete(2), stack=True))),
    ],
)
def test_a_space_that_cannot_be_played_is_refused_before_the_first_turn(space: Any) -> None:
    gymnasium.register("Unplayable-v0", lambda **_: FrozenIn(space))
    try:
        with pytest.raises(RowError, match="cannot be written as text"):
            asyncio.run(server(env_id="Unplayable-v0").start())
    finally:
        del gymnasium.registry["Unplayable-v0"]


class FrozenIn(gymnasium.Env[Any, Any]):
    def __init__(self, space: Any) -> None:
        self.action_space, self.observation_space = space, spaces.Discrete(1)


def test_observations_are_json() -> None:
    space = spaces.Box(0, 255, (2, 2), dtype="uint8")

    assert observation_text(space.low, space) == "[[0,0],[0,0]]"
    assert observation_text("a maze", spaces.Text(10)) == "a maze"


def test_the_example_lakes_can_be_begun() -> None:
    for row in example_rows("gymnasium"):
        assert "S" in play(row)[2]
