"""An error about a value of a file says in which line the value is, or should be."""

from dataclasses import replace
from pathlib import Path

import pytest
from config_world import FLEET, POLICY, World
from pydantic import BaseModel

from palestra.config import (
    ServerType,
    domain_problems,
    line_at,
    line_in,
    locating,
    read_settings,
    settings_from,
)
from palestra.errors import ConfigError, Problem
from palestra.responses_api_models.providers import MODEL_PROVIDERS, providers_with

DOCUMENT = """\
# a comment

base: &base
  one: 1
  two: {inner: 2}
merged:
  <<: *base
  own: 3
several:
  <<: [{alpha: 1}, *base]
items:
  - name: a
  - name: b
    7: seven
    yes: true
    0x10: sixteen
"quoted key": 1
"""


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (("base",), 3),
        (("base", "two", "inner"), 5),
        (("merged", "own"), 8),
        (("merged", "one"), 4),
        (("several", "two", "inner"), 5),
        (("items", 1, "name"), 13),
        (("items", "1", "name"), 13),
        (("items", 1, 7), 14),
        (("items", 1, "7"), 14),
        (("items", 1, True), 15),
        (("items", 1, 16), 16),
        (("quoted key",), 17),
        (("base", "three"), 3),
        (("items", 5, "name"), 11),
        (("base", "one", "below", "a", "scalar"), 4),
        (("absent",), 1),
    ],
)
def test_a_path_leads_to_the_line_of_its_key_or_of_the_mapping_that_lacks_it(
    steps: tuple[object, ...], line: int
) -> None:
    assert line_in(DOCUMENT, steps) == line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a list",
        "only words",
        "a: [",
        "a: 1\nb: \x00",
        "a: &a {<<: *a}",
        "[" * 5000,
        "!odd key: 1",
        "? [a, b]\n: 1",
    ],
)
def test_a_text_without_the_key_is_no_crash(text: str) -> None:
    assert line_in(text, ("a", "b")) in {None, 1}


def test_no_steps_are_no_line() -> None:
    assert line_in(DOCUMENT, ()) is None


def test_a_file_of_python_or_without_text_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text("a: int = 1\n")
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff")

    assert line_at(tmp_path / "env.py", ("a",)) is None
    assert line_at(tmp_path / "bytes.yaml", ("a",)) is None
    assert line_at(tmp_path / "none.yaml", ("a",)) is None


BROKEN_REFERENCE = "\n        type: responses_api_models\n        name: polcy_model"


def refused(world: World, text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        world.load_text(text, *overrides)
    return caught.value.problems


def place(problem: Problem) -> tuple[str, int]:
    """The file and the line of a problem, with which its message begins."""
    if problem.file:
        assert problem.message.startswith(f"{problem.file}:{problem.line}: ")
    return Path(problem.file).name, problem.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (FLEET.replace("domain: knowledge", "domain: knowledge\n      datasetz: []"), 11),
        (f"{FLEET}policy_base_ulr: x\n", 16),
        (f"{FLEET}head_server.port: 1\n", 16),
        (FLEET.replace("knowledge", "[knowledge]"), 10),
        (FLEET.replace("domain: knowledge", "domain: knowledge\n      port: high"), 11),
        (FLEET.replace("domain: knowledge", "placement: remote"), 9),
        (FLEET.replace("name: policy_model", "name: polcy_model"), 14),
        (FLEET.replace("{type: responses_api_models, name: policy_model}", BROKEN_REFERENCE), 16),
        (FLEET.replace("    mcqa:\n", "    mcqq:\n"), 9),
        (FLEET.replace("resources_servers:\n", "resource_servers:\n"), 8),
        (FLEET.replace("      domain: knowledge", "      domain: knowledge\n    more: {}"), 11),
        (FLEET.replace("      domain: knowledge", "      domain: knowledge\n  seed: 1"), 11),
        (FLEET.replace("domain: knowledge", "domain: ???"), 10),
        (FLEET.replace("domain: knowledge", "domain: ${absent}"), 10),
        (FLEET.replace("domain: knowledge", "domain: ${oops"), 10),
        (FLEET.replace("domain: knowledge", "x: ${.y}\n      y: ${.x}"), 10),
        (FLEET.replace("domain: knowledge", "domain: knowledge\n      port: 11000"), 11),
        (f"{FLEET}disallowed_ports: 3\n", 16),
        (f"{FLEET}head_server:\n  port: high\n", 17),
        (f"{FLEET}port_range_low: 5\nport_range_high: 4\n", 16),
        (f"{FLEET}more:\n  _copy: mcqaa\n", 17),
        (f"{FLEET}more:\n  _delete_key: 1\n", 17),
        (f"{FLEET}more:\n  _copy: 1\n", 17),
        (f"{FLEET}more:\n  _inherit_from: mcqa\n  _copy: mcqa\n", 16),
        (f"{FLEET}more:\n  one:\n    _copy: more\n", 16),
    ],
)
def test_a_wrong_value_of_a_file_is_refused_with_its_line(
    world: World, text: str, line: int
) -> None:
    problem = refused(world, text, *POLICY)[0]

    assert (Path(problem.file).name, problem.line) == ("config.yaml", line)
    assert f"config.yaml:{line}: " in problem.message


def test_a_wrong_value_of_env_yaml_is_refused_with_its_line(world: World) -> None:
    world.write("env.yaml", "note: 1\n\nmcqa: {resources_servers: {mcqa: {port: high}}}\n")

    [problem] = refused(world, FLEET, *POLICY)

    assert place(problem) == ("env.yaml", 3)


def test_a_value_of_an_override_has_no_line(world: World) -> None:
    [problem] = refused(world, FLEET, *POLICY, "++mcqa.resources_servers.mcqa.port=high")

    assert place(problem) == ("", 0)
    assert problem.message.startswith("override ++mcqa.resources_servers.mcqa.port: mcqa.")


def test_a_key_below_a_block_that_is_copied_has_the_line_of_the_copy(world: World) -> None:
    world.write("part.yaml", "part: {mcqa: {port: high}}")

    [problem] = refused(
        world,
        f"config_paths: [part.yaml]\n{FLEET}copied: {{resources_servers: {{_copy: part}}}}",
        *POLICY,
    )

    assert place(problem) == ("config.yaml", 17)


def test_two_implementations_in_one_file_have_the_line_of_the_second(world: World) -> None:
    more = FLEET.replace("mcqa:\n      domain: knowledge", "mcqa: {}\n    more: {}")

    with pytest.raises(ConfigError) as caught:
        world.load_text(more, *POLICY)

    assert place(caught.value.problems[0]) == ("config.yaml", 10)
    assert "leave one of the files out" not in caught.value.hint


def test_two_implementations_in_two_files_have_the_line_of_each(world: World) -> None:
    world.write("other.yaml", "\n\nmcqa:\n  resources_servers:\n    more: {}\n")

    with pytest.raises(ConfigError) as caught:
        world.load_text(FLEET, *POLICY, "+config_paths=[other.yaml]")

    assert f"mcqa of {world.cwd / 'config.yaml'}:9" in caught.value.message
    assert f"more of {world.cwd / 'other.yaml'}:5" in caught.value.message
    assert caught.value.hint.startswith("leave one of the files out")


class Inner(BaseModel):
    depth: int


class Settings(BaseModel):
    model_config = {"extra": "forbid"}

    name: str = ""
    base_url: str = ""
    steps: int = 1
    inner: Inner = Inner(depth=1)
    parts: list[int | bool] = []


class Needy(Settings):
    api_key: str


BLOCK = """
m:
  responses_api_models:
    openai_model:
"""


def refused_settings(
    world: World, settings: str, model: type[BaseModel] = Settings, *overrides: str
) -> Problem:
    instance = world.load_text(f"{BLOCK}{settings}", *overrides).instance("m")
    with pytest.raises(ConfigError) as caught:
        settings_from(model, instance)
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("      steps: 1\n      stepz: 2", 6),
        ("      base_url: x\n      steps: five", 6),
        ("      steps: [1]", 5),
        ("      steps:\n        - 1", 5),
        ("      inner:\n        depth: deep", 6),
        ("      inner:\n        width: 1", 5),
        ("      parts:\n        - 1\n        - two", 7),
    ],
)
def test_a_wrong_setting_of_a_server_has_its_line(world: World, settings: str, line: int) -> None:
    assert place(refused_settings(world, settings)) == ("config.yaml", line)


@pytest.mark.parametrize("settings", ["      steps: 1", "      {}"])
def test_a_missing_setting_has_the_line_of_its_block(world: World, settings: str) -> None:
    problem = refused_settings(world, settings, Needy)

    assert problem.key.endswith(".api_key")
    assert place(problem) == ("config.yaml", 4)


def test_a_missing_setting_of_a_block_in_two_files_has_the_line_of_the_last(world: World) -> None:
    world.write("more.yaml", "m: {responses_api_models: {openai_model: {steps: 2}}}")

    problem = refused_settings(world, "      base_url: x", Needy, "+config_paths=[more.yaml]")

    assert place(problem) == ("more.yaml", 1)


@pytest.mark.parametrize(
    "override",
    [
        "++m.responses_api_models.openai_model.steps=five",
        "++m.responses_api_models.openai_model.inner={depth: deep}",
        "++n=five",
    ],
)
def test_a_wrong_setting_of_an_override_has_no_line(world: World, override: str) -> None:
    settings = "      inner: {depth: 1}\n      steps: ${n}\nn: 1"

    problem = refused_settings(world, settings, Settings, override)

    assert place(problem) == ("", 0)


def test_a_setting_has_the_file_alone_when_the_file_is_gone(world: World) -> None:
    instance = world.load_text(f"{BLOCK}      stepz: 2").instance("m")
    (world.cwd / "config.yaml").unlink()

    with pytest.raises(ConfigError) as caught:
        settings_from(Settings, instance)

    [problem] = caught.value.problems
    assert (Path(problem.file).name, problem.line) == ("config.yaml", 0)
    assert problem.message.startswith(f"{world.cwd / 'config.yaml'}: m: stepz ")


def test_a_block_without_a_file_has_no_line(world: World) -> None:
    instance = world.load_text(f"{BLOCK}      base_url: x").instance("m")

    with pytest.raises(ConfigError) as caught:
        settings_from(Needy, replace(instance, file=None))

    assert place(caught.value.problems[0]) == ("", 0)


def test_a_configuration_without_problems_is_read_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read_text = Path.read_text

    def counted(path: Path, *args: str, **options: str) -> str:
        reads.append(path.name)
        return read_text(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    config = world.load_text(FLEET, *POLICY)
    domain_problems(config)

    assert reads.count("config.yaml") == 1


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("  corp: {base_url: ftp://x}", 3),
        ("  corp:\n    base_ulr: https://x", 4),
        ("  corp:\n    dialect: morse", 4),
        ("  - corp", 2),
    ],
)
def test_a_wrong_row_of_model_providers_has_its_line(
    world: World, monkeypatch: pytest.MonkeyPatch, rows: str, line: int
) -> None:
    monkeypatch.chdir(world.cwd)
    world.write("env.yaml", f"note: 1\nmodel_providers:\n{rows}\n")
    value = read_settings((MODEL_PROVIDERS,))[MODEL_PROVIDERS]

    with pytest.raises(ConfigError) as caught, locating():
        providers_with(value)

    assert caught.value.message.startswith(f"env.yaml:{line}: model_providers")
    assert caught.value.problems[0].line == line


@pytest.mark.parametrize(
    ("text", "line"),
    [("a: 1\nwhen: !!timestamp 2020-01-01\n", 2), ("a: 1\nb:\n  null: 1\n", 3)],
)
def test_a_value_that_no_config_can_hold_has_its_line(world: World, text: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        world.load_text(text)

    assert f"config.yaml:{line}: " in caught.value.message


def test_config_paths_that_are_none_have_their_line(world: World) -> None:
    [problem] = refused(world, "a: 1\nconfig_paths: 3\n")

    assert place(problem) == ("config.yaml", 2)


def test_a_domain_that_is_missing_in_an_empty_block_has_the_line_of_the_block(world: World) -> None:
    text = FLEET.replace("mcqa:\n      domain: knowledge", "mcqa: {}")

    [problem] = domain_problems(world.load_text(text, *POLICY))

    assert place(problem) == ("config.yaml", 9)
    assert ServerType.RESOURCES in problem.key
