"""The folders that `env init` makes for environments and benchmarks."""

import json
import runpy
from pathlib import Path

import pytest

from palestra.authoring import (
    ComponentKind,
    NewComponent,
    RewardDeclaration,
    check_component,
    find_component,
    scaffold_component,
)
from palestra.datasets import fill_row, load_prompt
from palestra.errors import ConfigError


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(kind: str, name: str, folder: Path, **settings: object) -> set[str]:
    new = NewComponent(ComponentKind(kind), name, **settings)  # type: ignore[arg-type]
    return {str(path.relative_to(folder)) for path in scaffold_component(new, folder)}


def test_an_environment_has_its_files_and_a_new_verifier(tmp_path: Path) -> None:
    files = made("environment", "sums", tmp_path)

    assert {
        f"environments/sums/{name}"
        for name in ("config.yaml", "manifest.yaml", "README.md", "data/example.jsonl")
    } == {name for name in files if name.startswith("environments/")}
    assert "resources_servers/sums/app.py" in files


def test_a_benchmark_has_a_prompt_a_script_and_a_source_too(tmp_path: Path) -> None:
    files = made("benchmark", "sums", tmp_path)

    assert {"prompt.yaml", "prepare.py", "data/source.jsonl"} <= {
        name.removeprefix("benchmarks/sums/") for name in files
    }


@pytest.mark.parametrize("kind", list(ComponentKind))
@pytest.mark.parametrize("verifier", ["", "mcqa", "example_single_tool_call"])
def test_what_is_made_is_valid(tmp_path: Path, kind: ComponentKind, verifier: str) -> None:
    made(kind, "sums", tmp_path, verifier=verifier)

    report = check_component(find_component("sums", [tmp_path]))

    assert report.problems == ()
    assert report.manifest is not None
    assert report.manifest.resources_server == (verifier or "sums")


def test_a_reused_verifier_brings_its_domain_and_rows_and_no_folder(tmp_path: Path) -> None:
    files = made("environment", "quiz", tmp_path, verifier="resources_servers/mcqa")

    report = check_component(find_component("quiz", [tmp_path]))
    rows = (tmp_path / "environments/quiz/data/example.jsonl").read_text().splitlines()

    assert not any(name.startswith("resources_servers/") for name in files)
    assert report.manifest is not None
    assert report.manifest.domain == "knowledge"
    assert all("options" in json.loads(row) for row in rows)


def test_only_the_datasets_of_the_component_are_run(tmp_path: Path) -> None:
    made("benchmark", "quiz", tmp_path, verifier="mcqa")

    report = check_component(find_component("quiz", [tmp_path]))

    assert report.config is not None
    names = [d["name"] for i in report.config.instances.values() for d in i.datasets]
    assert names == ["quiz"]


def test_profile_and_reward_are_in_the_manifest(tmp_path: Path) -> None:
    reward = RewardDeclaration(range=(-1.0, 0.0), higher_is_better=False)
    made("environment", "sums", tmp_path, profile="harness", reward=reward)

    manifest = check_component(find_component("sums", [tmp_path])).manifest

    assert manifest is not None
    assert (manifest.integration_profile, manifest.reward) == ("harness", reward)


def test_the_script_of_a_benchmark_writes_rows_that_fill_the_prompt(tmp_path: Path) -> None:
    made("benchmark", "sums", tmp_path)
    folder = tmp_path / "benchmarks/sums"

    path = runpy.run_path(str(folder / "prepare.py"))["prepare"]()
    prompt = load_prompt(folder / "prompt.yaml")
    rows = [fill_row(prompt, json.loads(row)) for row in path.read_text().splitlines()]

    assert path == folder / "data/sums_benchmark.jsonl"
    assert rows[0]["responses_create_params"]["input"][0]["content"].endswith("\\boxed{}.")


def test_files_that_are_the_same_stay_and_missing_ones_are_written(tmp_path: Path) -> None:
    made("environment", "sums", tmp_path)
    (tmp_path / "environments/sums/README.md").unlink()

    assert made("environment", "sums", tmp_path) == {"environments/sums/README.md"}


def test_a_file_with_another_content_is_never_replaced(tmp_path: Path) -> None:
    made("environment", "sums", tmp_path)
    readme = tmp_path / "environments/sums/README.md"
    readme.write_text("mine\n")
    (tmp_path / "environments/sums/config.yaml").unlink()

    with pytest.raises(ConfigError, match=r"README\.md"):
        made("environment", "sums", tmp_path)

    assert readme.read_text() == "mine\n"
    assert not (tmp_path / "environments/sums/config.yaml").exists()


@pytest.mark.parametrize("settings", [{"name": "My-Env"}, {"name": "a", "verifier": "mcqaa"}])
def test_a_wrong_name_or_an_unknown_verifier_writes_nothing(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    with pytest.raises(ConfigError):
        scaffold_component(NewComponent(ComponentKind.ENVIRONMENT, **settings), tmp_path)

    assert list(tmp_path.iterdir()) == []
