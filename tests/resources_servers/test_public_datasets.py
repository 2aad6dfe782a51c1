"""The full data of shipped environments: which files, from where, under which licence."""

import pytest
from verifying import ENVIRONMENTS

from palestra.config import load_config
from palestra.datasets import DatasetEntry, datasets_of_agents

CC_BY = "Creative Commons Attribution 4.0 International"
MATH = "resources_servers/math_with_judge/data"
MATH_HUB = "nvidia/Nemotron-RL-math-OpenMathReasoning"
CODE = "resources_servers/code_gen/data"
CODE_HUB = "nvidia/nemotron-RL-coding-competitive_coding"
LIVE = "livecodebench_v5_2024-07-01_2025-02-01_validation.jsonl"
STEPS = "resources_servers/example_multi_step/data"
IF_HUB = "nvidia/Nemotron-RL-instruction_following"

CONFIGS = sorted(
    str(path.relative_to(ENVIRONMENTS.parent)) for path in ENVIRONMENTS.glob("*/configs/*.yaml")
)


def entries(config: str) -> dict[str, DatasetEntry]:
    """The datasets of a config by type."""
    loaded = load_config(config_paths=[f"resources_servers/{config}.yaml"], required=())
    return {
        found.entry.type: found.entry for found in datasets_of_agents(loaded.instances.values())
    }


def gitlab(entry: DatasetEntry) -> tuple[str, str, str] | None:
    place = entry.gitlab_identifier
    return place and (place.dataset_name, place.version, place.artifact_fpath)


def hub(entry: DatasetEntry) -> tuple[str, str | None] | None:
    place = entry.huggingface_identifier
    return place and (place.repo_id, place.artifact_fpath)


@pytest.mark.parametrize(
    ("config", "kind", "file", "in_gitlab", "on_the_hub", "repeats", "licence"),
    [
        (
            "math_with_judge/configs/bytedtsinghua_dapo17k",
            "train",
            f"{MATH}/dapo17k_bytedtsinghua_train.jsonl",
            ("bytedtsinghua_dapo17k", "0.0.1", "dapo17k_bytedtsinghua_train.jsonl"),
            None,
            1,
            "Apache 2.0",
        ),
        (
            "math_with_judge/configs/bytedtsinghua_dapo17k",
            "validation",
            f"{MATH}/aime24_bytedtsinghua_validation.jsonl",
            ("bytedtsinghua_dapo17k", "0.0.1", "aime24_bytedtsinghua_validation.jsonl"),
            None,
            1,
            "Apache 2.0",
        ),
        (
            "math_with_judge/configs/dapo17k",
            "train",
            f"{MATH}/dapo17k_train.jsonl",
            ("dapo17k", "0.0.1", "dapo17k_train.jsonl"),
            None,
            1,
            "Apache 2.0",
        ),
        (
            "math_with_judge/configs/dapo17k",
            "validation",
            f"{MATH}/aime24_validation.jsonl",
            ("aime24", "0.0.1", "aime24.jsonl"),
            None,
            32,
            "Apache 2.0",
        ),
        (
            "math_with_judge/configs/math_with_judge",
            "train",
            f"{MATH}/OpenMathReasoning_train.jsonl",
            None,
            (MATH_HUB, "train.jsonl"),
            1,
            CC_BY,
        ),
        (
            "math_with_judge/configs/math_with_judge",
            "validation",
            f"{MATH}/OpenMathReasoning_aime24_validation.jsonl",
            None,
            (MATH_HUB, "validation.jsonl"),
            1,
            "Apache 2.0",
        ),
        (
            "code_gen/configs/code_gen",
            "train",
            f"{CODE}/opencodereasoning_filtered_25k_train.jsonl",
            None,
            (CODE_HUB, "opencodereasoning_filtered_25k_train.jsonl"),
            1,
            "Creative Commons Attribution-ShareAlike 4.0 International",
        ),
        (
            "code_gen/configs/code_gen",
            "validation",
            f"{CODE}/{LIVE}",
            ("livecodebench", "0.0.1", LIVE),
            (CODE_HUB, "validation.jsonl"),
            10,
            "MIT",
        ),
        (
            "example_multi_step/configs/example_multi_step",
            "train",
            f"{STEPS}/train.jsonl",
            ("example_multi_step", "0.0.1", "train.jsonl"),
            (IF_HUB, "instruction_following.jsonl"),
            1,
            "Apache 2.0",
        ),
        (
            "example_multi_step/configs/example_multi_step",
            "validation",
            f"{STEPS}/validation.jsonl",
            ("example_multi_step", "0.0.1", "validation.jsonl"),
            (IF_HUB, "if_validation.jsonl"),
            1,
            "Apache 2.0",
        ),
    ],
)
def test_a_dataset_is_named_as_the_field_names_it(
    config: str,
    kind: str,
    file: str,
    in_gitlab: tuple[str, str, str] | None,
    on_the_hub: tuple[str, str | None] | None,
    repeats: int,
    licence: str,
) -> None:
    entry = entries(config)[kind]

    assert (entry.jsonl_fpath, entry.num_repeats, entry.license) == (file, repeats, licence)
    assert gitlab(entry) == in_gitlab
    assert hub(entry) == on_the_hub


@pytest.mark.parametrize("name", ["bytedtsinghua_dapo17k", "dapo17k"])
def test_the_other_sets_of_mathematics_have_the_same_servers(name: str) -> None:
    folder = ENVIRONMENTS / "math_with_judge" / "configs"
    ours, other = (
        load_config(config_paths=[str(folder / f"{one}.yaml")], required=()).instances
        for one in ("math_with_judge", name)
    )

    assert {key: one.settings for key, one in ours.items()} == {
        key: one.settings for key, one in other.items()
    }
    assert other["math_with_judge"].settings["should_use_judge"] is False


@pytest.mark.parametrize(
    "name", ["arc_agi", "example_multi_step", "example_session_state_mgmt", "text_to_sql"]
)
def test_the_environments_instance_has_the_fields_name(name: str) -> None:
    config = f"resources_servers/{name}/configs/{name}.yaml"
    loaded = load_config(config_paths=[config], required=())

    assert set(loaded.instances) == {f"{name}_resources_server", f"{name}_simple_agent"}


@pytest.mark.parametrize("config", CONFIGS)
def test_full_data_are_ignored_by_git_and_can_be_had(config: str) -> None:
    found = datasets_of_agents(load_config(config_paths=[config], required=()).instances.values())
    full = [one.entry for one in found if one.entry.type != "example"]

    assert all(entry.source("huggingface") for entry in full)
    assert all(entry.jsonl_fpath.endswith(f"{entry.type}.jsonl") for entry in full)
