"""Which files the selectors of `gym` name."""

from pathlib import Path

import pytest

from palestra.cli.gym.grammar import Invocation, UsageError, parse
from palestra.cli.gym.selection import select, with_config_files
from palestra.config import SearchPaths, load_config
from palestra.programs import SELECTORS, command_at


@pytest.fixture
def paths(tmp_path: Path) -> SearchPaths:
    return SearchPaths(tmp_path / "cwd", tmp_path / "package", (tmp_path / "extra",))


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")


def chosen(flag: str, name: str, paths: SearchPaths) -> str:
    return select(SELECTORS[flag], name, paths)[0]


@pytest.mark.parametrize(
    ("flag", "name", "file"),
    [
        ("benchmark", "a", "benchmarks/a/config.yaml"),
        ("benchmark", "a/b", "benchmarks/a/b/config.yaml"),
        ("benchmark", "a/c", "benchmarks/a/c.yaml"),
        ("environment", "a", "environments/a/config.yaml"),
        ("environment", "a/b", "environments/a/b/config.yaml"),
        ("environment", "a/c", "environments/a/c.yaml"),
        ("resources_server", "a", "resources_servers/a/configs/a.yaml"),
        ("resources_server", "a/b", "resources_servers/a/configs/b.yaml"),
        ("model_type", "a", "responses_api_models/a/configs/a.yaml"),
        ("model_type", "a/b", "responses_api_models/a/configs/b.yaml"),
    ],
)
def test_a_name_means_a_file(flag: str, name: str, file: str, paths: SearchPaths) -> None:
    write(paths.cwd, file)

    assert chosen(flag, name, paths) == file


def test_a_folder_comes_before_a_file_of_the_same_flavour(paths: SearchPaths) -> None:
    write(paths.cwd, "benchmarks/a/b/config.yaml", "benchmarks/a/b.yaml")

    assert chosen("benchmark", "a/b", paths) == "benchmarks/a/b/config.yaml"


def test_the_first_root_wins_and_the_others_are_warned_of(paths: SearchPaths) -> None:
    file = "resources_servers/a/configs/a.yaml"
    for root in paths.roots:
        write(root, file)
    relative, warning = select(SELECTORS["resources_server"], "a", paths)

    assert relative == file
    assert str(paths.extra[0] / file) in warning.partition("not used")[0]
    assert str(paths.cwd / file) in warning.partition("not used")[2]
    assert str(paths.package_root / file) in warning.partition("not used")[2]


def test_an_unknown_name_is_an_error_with_the_nearest_name_and_the_roots(
    paths: SearchPaths,
) -> None:
    write(paths.cwd, "benchmarks/aime/config.yaml")
    with pytest.raises(UsageError, match="aime") as caught:
        select(SELECTORS["benchmark"], "aim", paths)

    assert all(str(root) in caught.value.hint for root in paths.roots)


def test_a_name_of_another_kind_is_pointed_to(paths: SearchPaths) -> None:
    write(paths.cwd, "resources_servers/mcqa/configs/mcqa.yaml")
    with pytest.raises(UsageError) as caught:
        select(SELECTORS["environment"], "mcqa", paths)

    assert "--resources-server mcqa" in caught.value.hint


def invocation_of(*words: str) -> Invocation:
    command = command_at("env", "start")
    assert command is not None
    return parse(command, words)


def test_all_config_files_are_one_override_in_the_order_of_the_flags(paths: SearchPaths) -> None:
    write(
        paths.cwd,
        "benchmarks/b/config.yaml",
        "environments/e/config.yaml",
        "resources_servers/r/configs/r.yaml",
        "responses_api_models/m/configs/m.yaml",
    )
    invocation = invocation_of(
        *("+config_paths=[typed.yaml]", "+limit=1", "--model-type", "m", "--resources-server", "r"),
        *("--environment", "e", "--benchmark", "b", "--config", "c1.yaml", "--config", "c2.yaml"),
    )

    files = (
        "c1.yaml,c2.yaml,benchmarks/b/config.yaml,environments/e/config.yaml,"
        "resources_servers/r/configs/r.yaml,responses_api_models/m/configs/m.yaml,typed.yaml"
    )
    assert with_config_files(invocation, paths).overrides == (
        f"+config_paths=[{files}]",
        "+limit=1",
    )


def test_without_a_selector_the_typed_files_stay_as_they_are(paths: SearchPaths) -> None:
    invocation = invocation_of("+config_paths=[a.yaml,b.yaml]")

    assert with_config_files(invocation, paths) == invocation


def test_a_selector_that_is_a_text_selects_no_file(paths: SearchPaths) -> None:
    command = command_at("env", "packages")
    assert command is not None
    invocation = parse(command, ["--resources-server", "not_there"])

    assert with_config_files(invocation, paths) == invocation


def test_configs_env_yaml_and_prompts_are_first_searched_in_the_extra_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palestra.settings import existing_path

    extra, cwd = tmp_path / "extra", tmp_path / "cwd"
    for root, text in ((extra, "extra"), (cwd, "cwd")):
        write(root, "prompt.yaml")
        (root / "a.yaml").write_text(f"origin: {text}\n")
        (root / "env.yaml").write_text(f"machine: {text}\n")
    monkeypatch.chdir(cwd)
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(extra))
    tree = load_config(config_paths=["a.yaml"]).tree

    assert (tree["origin"], tree["machine"]) == ("extra", "extra")
    assert existing_path("prompt.yaml") == extra / "prompt.yaml"
    assert existing_path("new.jsonl") == cwd / "new.jsonl"
