"""What an agent's `datasets` may say, and what is said when they are wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palestra.config import InstanceConfig, ServerType
from palestra.datasets import (
    AgentDataset,
    DatasetEntry,
    Located,
    dataset_type_problems,
    datasets_of_agents,
    fetch,
)
from palestra.datasets.entries import LICENCES
from palestra.errors import ConfigError, InputDataError

HUB = {"repo_id": "org/set"}
REGISTRY = {"dataset_name": "Set", "version": "0.0.1", "artifact_fpath": "train.jsonl"}


def agent(*datasets: dict[str, Any]) -> InstanceConfig:
    return InstanceConfig("a", ServerType.AGENT, "simple_agent", {}, "h", None, datasets=datasets)


def entry(**fields: Any) -> DatasetEntry:
    return DatasetEntry(name="d", type="example", jsonl_fpath="d.jsonl", **fields)


def test_everything_wrong_with_the_entries_is_said_in_one_error() -> None:
    held = agent(
        {"name": "t", "type": "train", "jsonl_fpath": "t.jsonl"},
        {"name": "e", "type": "exmaple", "jsonl_fpath": "e.jsonl"},
        {"name": "n", "type": "example", "jsonl_fpath": "n.jsonl", "num_repeat": 8},
    )

    with pytest.raises(ConfigError) as caught:
        datasets_of_agents([held])

    assert "a.datasets[0] (t): license is required" in caught.value.message
    assert "a.datasets[1] (e): type: Input should be" in caught.value.message
    assert "num_repeat is not a setting of a dataset; did you mean 'num_repeats'" in str(
        caught.value
    )


def test_a_value_of_a_wrong_kind_is_quoted() -> None:
    fields = {"name": "t", "type": "example", "jsonl_fpath": "t.jsonl", "num_repeats": "one"}

    with pytest.raises(ConfigError) as caught:
        datasets_of_agents([agent(fields)])

    assert caught.value.message.endswith('got "one"')


def test_a_misspelt_type_is_a_problem_by_itself() -> None:
    held = agent(
        {"name": "t", "type": "train", "jsonl_fpath": "t.jsonl"},
        {"name": "e", "type": "exmaple", "jsonl_fpath": "e.jsonl"},
    )

    [problem] = dataset_type_problems([held])

    assert problem.key == "a.responses_api_agents.simple_agent.datasets.1.type"
    assert problem.message.endswith("; did you mean 'example'?")


def test_keys_of_other_versions_are_kept() -> None:
    assert entry(source=None, note="x").model_extra == {"source": None, "note": "x"}


def test_the_preferred_source_decides_only_when_both_are_known() -> None:
    both = entry(huggingface_identifier=HUB, gitlab_identifier=REGISTRY)

    assert both.source("gitlab") == "gitlab"
    assert both.source("huggingface") == "huggingface"
    assert entry(gitlab_identifier=REGISTRY).source("huggingface") == "gitlab"
    assert entry().source("gitlab") is None


def test_a_download_from_another_source_than_the_preferred_one_says_why(tmp_path: Path) -> None:
    dataset = AgentDataset("a", entry(huggingface_identifier=HUB))
    notices: list[str] = []

    fetch(
        [Located(dataset, tmp_path / "d.jsonl")],
        download=lambda _entry, _source, path: path.touch(),
        preferred="gitlab",
        report=notices.append,
    )

    [notice] = notices
    assert "from huggingface (it has no gitlab_identifier)" in notice


def test_a_missing_file_is_named_with_the_line_of_the_config_and_the_nearest_file(
    tmp_path: Path,
) -> None:
    config = tmp_path / "conf.yaml"
    config.write_text(
        "a:\n  responses_api_agents:\n    simple_agent:\n      datasets:\n"
        "      - name: t\n        jsonl_fpath: trian.jsonl\n"
    )
    (tmp_path / "train.jsonl").touch()
    fields = {"name": "t", "type": "example", "jsonl_fpath": "trian.jsonl"}
    instance = replace(agent(fields), setting_files={"datasets": config})
    [dataset] = datasets_of_agents([instance])

    with pytest.raises(InputDataError) as caught:
        fetch(
            [Located(dataset, tmp_path / "trian.jsonl")],
            download=None,
            preferred="huggingface",
            report=print,
        )

    assert f"{config}:6: {tmp_path / 'trian.jsonl'}" in caught.value.message
    assert caught.value.message.endswith(f"; did you mean {tmp_path / 'train.jsonl'}?")
    assert "the other files" not in caught.value.hint


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("Appache", "Apache 2.0"),
        (
            "Creative Comons Attribution 4.0 International",
            "Creative Commons Attribution 4.0 International",
        ),
    ],
)
def test_a_misspelt_licence_is_refused_with_the_nearest(misspelt: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        datasets_of_agents(
            [agent({"name": "t", "type": "train", "jsonl_fpath": "t.jsonl", "license": misspelt})]
        )

    assert f"license {misspelt!r} is misspelt; did you mean {meant!r}?" in caught.value.message


@pytest.mark.parametrize(
    "name",
    [
        *LICENCES,
        "Apache-2.0",
        "CC0 1.0",
        "MIT Licence",
        "Open Data Commons Attribution 1.0",
        "Common Development and Distribution License 1.0",
        "Licensed under MIT",
        "see https://example.org/datasets/licenses",
    ],
)
def test_a_licence_may_have_any_name(name: str) -> None:
    assert entry(license=name).license == name
