"""`num_repeats` may be one number, or a number for each agent."""

from pathlib import Path
from typing import Any

import pytest
from scripted_runs import AGENT, read_rows, settings, task, write_rows

from palestra.config import load_config
from palestra.errors import ConfigError
from palestra.rollouts import materialize
from palestra.settings import CollectArgs, CollectSettings, args_from


def args(**given: Any) -> CollectArgs:
    tree = {"input_jsonl_fpath": "tasks.jsonl", "output_jsonl_fpath": "run.jsonl", **given}
    return args_from(CollectArgs, tree)


def agents_of(folder: Path, num_repeats: Any) -> list[str]:
    rows = [task(1), task(2, agent_ref={"type": "responses_api_agents", "name": "other_agent"})]
    write_rows(folder / "tasks.jsonl", rows)
    asked = settings(folder, num_repeats=num_repeats)
    materialize(asked, folder / "rows.jsonl", agents={AGENT, "other_agent"})
    return [row["agent_ref"]["name"] for row in read_rows(folder / "rows.jsonl")]


@pytest.mark.parametrize(
    ("num_repeats", "mine", "others"),
    [
        (2, 2, 2),
        ({AGENT: 3, "other_agent": 2}, 3, 2),
        ({AGENT: 3, "_default": 2}, 3, 2),
        ({AGENT: 3}, 3, 1),
        ({"_default": 2}, 2, 2),
    ],
)
def test_each_agent_has_its_own_number_of_repeats(
    tmp_path: Path, num_repeats: Any, mine: int, others: int
) -> None:
    assert agents_of(tmp_path, num_repeats) == [AGENT] * mine + ["other_agent"] * others


def test_an_agent_that_does_not_exist_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        agents_of(tmp_path, {"other_agnt": 2, "_default": 1})

    assert "other_agnt" in caught.value.message
    assert "'other_agent'" in caught.value.message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (4, 4),
        ("4", 4),
        ({"a": 2, "_default": 1}, {"a": 2, "_default": 1}),
        ("{a: 2, _default: 1}", {"a": 2, "_default": 1}),
    ],
)
def test_the_setting_takes_a_number_or_a_mapping(given: Any, expected: Any) -> None:
    assert args(num_repeats=given).num_repeats == expected


def test_the_command_line_takes_a_mapping() -> None:
    config = load_config(overrides=["+num_repeats={my_agent: 4, _default: 1}"], use_env_yaml=False)

    assert args(**config.tree).num_repeats == {"my_agent": 4, "_default": 1}


@pytest.mark.parametrize(
    "given", [0, -1, "many", 1.5, True, {}, {"a": 0}, {"a": "x"}, {"a": {"b": 1}}, [1]]
)
def test_a_bad_value_is_one_error_that_names_the_setting(given: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        args(num_repeats=given)

    assert caught.value.message.startswith("num_repeats: ")
    assert "\n" not in caught.value.message


def test_the_settings_of_a_collection_keep_the_mapping(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "tasks.jsonl", [task(1)])
    config = load_config(use_env_yaml=False)

    made = args(num_repeats={"a": 2}, input_jsonl_fpath=str(path)).settings(config)

    assert isinstance(made, CollectSettings)
    assert (made.repeats_of("a"), made.repeats_of("b")) == (2, 1)
