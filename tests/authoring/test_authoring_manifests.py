"""Manifests: what is read, what is refused and where, and what `sync` writes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from palestra.authoring import (
    ComponentKind,
    ManifestReport,
    NewComponent,
    check_component,
    component_at,
    find_component,
    read_manifest,
    scaffold_component,
)
from palestra.errors import ConfigError

REQUIRED = (
    "name", "version", "kind", "integration_profile", "domain", "description", "modality",
    "licensing", "authors", "reward", "determinism", "resources_server", "agent_server", "datasets",
)  # fmt: skip
OPTIONAL: dict[str, Any] = {
    "model_server": "policy_model",
    "rollout_driver": "my_driver:run",
    "grading_mode": "exact",
    "session_model": "per_rollout",
    "state": {"kind": "none"},
    "sandbox": False,
    "canonical_split": "validation",
    "standard_prompt_config": "benchmarks/sums/prompt.yaml",
    "adopted_from": {"repository": "https://example.org/sums"},
    "lifecycle": "stable",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the environment `sums`."""
    monkeypatch.chdir(tmp_path)
    scaffold_component(NewComponent(ComponentKind.ENVIRONMENT, "sums"), tmp_path)
    return tmp_path


def manifest_path(project: Path) -> Path:
    return project / "environments" / "sums" / "manifest.yaml"


def edit(project: Path, old: str, new: str) -> None:
    path = manifest_path(project)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def checked(project: Path, *, sync: bool = False) -> ManifestReport:
    return check_component(component_at(manifest_path(project)), sync=sync)


def test_a_manifest_takes_every_key_of_the_contract(project: Path) -> None:
    path = manifest_path(project)
    values = yaml.safe_load(path.read_text()) | OPTIONAL
    path.write_text(yaml.safe_dump(values))

    manifest = read_manifest(path)

    assert manifest.model_dump(mode="json", include=set(OPTIONAL)) == OPTIONAL
    assert (manifest.reward.range, manifest.reward.best) == ((0.0, 1.0), 1.0)


@pytest.mark.parametrize("key", REQUIRED)
def test_a_key_that_is_missing_is_named_with_the_file(project: Path, key: str) -> None:
    path = manifest_path(project)
    values = yaml.safe_load(path.read_text())
    del values[key]
    path.write_text(yaml.safe_dump(values))

    with pytest.raises(ConfigError) as refused:
        read_manifest(path)

    [problem] = refused.value.problems
    assert (problem.key, problem.file, problem.line) == (key, str(path), 1)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("domain: other", "domian: other", "domian"),
        ("range: [0.0, 1.0]", "range: [1, 0]", "reward.range"),
        ("range: [0.0, 1.0]", "range: [low, 1]", "reward.range.0"),
        ("higher_is_better: true", "higher_is_better: perhaps", "reward.higher_is_better"),
        ("higher_is_better: true", "higher: true", "reward.higher"),
        ("kind: environment", "kind: game", "kind"),
        ("authors: [TBD]", "authors: []", "authors"),
        ("modality: text", "modality: 3", "modality"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_line(
    project: Path, old: str, new: str, key: str
) -> None:
    line = manifest_path(project).read_text()[: manifest_path(project).read_text().index(old)]
    edit(project, old, new)

    with pytest.raises(ConfigError) as refused:
        read_manifest(manifest_path(project))

    problems = {problem.key: problem.line for problem in refused.value.problems}
    assert problems[key] == line.count("\n") + 1


def test_a_version_without_quotes_is_a_text(project: Path) -> None:
    edit(project, "version: 0.1.0", "version: 1.0")

    assert read_manifest(manifest_path(project)).version == "1.0"


def test_yaml_that_cannot_be_read_is_one_error_with_its_line(project: Path) -> None:
    edit(project, "authors: [TBD]", "authors: [TBD")

    with pytest.raises(ConfigError) as refused:
        read_manifest(manifest_path(project))

    [problem] = refused.value.problems
    assert problem.file == str(manifest_path(project))
    assert problem.line > 1


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("domain", "domain: other", "domain: math"),
        ("resources_server", "resources_server: sums", "resources_server: products"),
        ("agent_server", "agent_server: simple_agent", "agent_server: other_agent"),
        ("datasets", "- name: example", "- name: test"),
    ],
)
def test_a_field_that_differs_from_the_config_is_a_problem_until_sync_writes_it(
    project: Path, key: str, old: str, new: str
) -> None:
    before = manifest_path(project).read_text()
    edit(project, old, new)

    drifted = checked(project)
    synced = checked(project, sync=True)

    assert [problem.key for problem in drifted.problems] == [key]
    assert (synced.passed, synced.synced) == (True, (key,))
    assert yaml.safe_load(manifest_path(project).read_text()) == yaml.safe_load(before)


def test_sync_mirrors_a_description_of_the_config_itself(project: Path) -> None:
    config = project / "environments" / "sums" / "config.yaml"
    own = {"sums": {"resources_servers": {"sums": {"description": "Adds numbers"}}}}
    config.write_text(config.read_text() + yaml.safe_dump(own))

    report = checked(project, sync=True)

    assert report.synced == ("description",)
    assert report.manifest is not None
    assert report.manifest.description == "Adds numbers"


def test_sync_keeps_comments_and_all_other_bytes(project: Path) -> None:
    edit(project, "domain: other", "# what it is about\ndomain: math  # of which kind")
    edit(project, "lifecycle: draft", "# until it is done\nlifecycle: draft")
    before = manifest_path(project).read_text()

    checked(project, sync=True)

    assert manifest_path(project).read_text() == before.replace("domain: math", "domain: other")


def test_sync_adds_a_mirrored_field_that_is_missing(project: Path) -> None:
    edit(project, "agent_server: simple_agent\n", "")

    report = checked(project, sync=True)

    assert report.passed
    assert report.synced == ("agent_server",)


def test_sync_writes_nothing_when_nothing_differs(project: Path) -> None:
    before = manifest_path(project).stat().st_mtime_ns

    assert checked(project, sync=True).synced == ()
    assert manifest_path(project).stat().st_mtime_ns == before


def test_names_alone_are_enough_for_datasets(project: Path) -> None:
    path = manifest_path(project)
    values = yaml.safe_load(path.read_text()) | {"datasets": ["example"]}
    path.write_text(yaml.safe_dump(values))

    assert checked(project).passed


@pytest.mark.parametrize(("key", "new"), [("name", "products"), ("kind", "benchmark")])
def test_a_name_or_kind_of_another_folder_is_a_problem(project: Path, key: str, new: str) -> None:
    path = manifest_path(project)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {key: new}))

    assert [problem.key for problem in checked(project).problems] == [key]


def test_problems_of_the_config_and_of_the_manifest_are_reported_together(project: Path) -> None:
    edit(project, "domain: other", "domian: other")
    config = project / "environments" / "sums" / "config.yaml"
    config.write_text("config_paths: [no_such_file.yaml]\n")

    problems = checked(project).problems

    assert any("no_such_file.yaml" in problem.message for problem in problems)
    assert any(problem.key == "domian" for problem in problems)


def test_a_component_is_found_by_name_flavour_and_tree(project: Path) -> None:
    hard = project / "benchmarks" / "sums" / "hard"
    hard.mkdir(parents=True)
    (hard / "config.yaml").touch()
    (project / "benchmarks" / "sums" / "easy.yaml").touch()

    found = [find_component(name, [project]) for name in ("sums", "environments/sums", "sums/hard")]
    easy = find_component("sums/easy", [project])

    assert [component.kind for component in found] == ["environment", "environment", "benchmark"]
    assert (easy.kind, easy.config.name) == ("benchmark", "easy.yaml")


def test_a_name_of_both_kinds_needs_its_kind(project: Path) -> None:
    (project / "benchmarks" / "sums").mkdir(parents=True)
    (project / "benchmarks" / "sums" / "config.yaml").touch()

    with pytest.raises(ConfigError):
        find_component("sums", [project])

    assert find_component("sums", [project], [ComponentKind.BENCHMARK]).kind == "benchmark"


def test_the_first_root_that_has_a_component_wins(project: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    (extra / "environments" / "sums").mkdir(parents=True)
    (extra / "environments" / "sums" / "config.yaml").touch()

    assert find_component("sums", [extra, project]).root == extra


def test_an_unknown_name_suggests_a_similar_one(project: Path) -> None:
    with pytest.raises(ConfigError, match="sums"):
        find_component("sumz", [project])
