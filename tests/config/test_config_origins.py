"""An error about the configuration names the file, or the override, that it comes from."""

from pathlib import Path

import pytest
from config_world import FLEET, POLICY, World

from palestra.config import domain_problems, parse_overrides
from palestra.config.origins import Origins
from palestra.config.sources import Source
from palestra.datasets import datasets_of_agents
from palestra.errors import ConfigError

FILES = (
    Source(Path("/a.yaml"), {"env": {"resources_servers": {"mcqa": {"x": 1, "y": 1}}}}),
    Source(Path("/b.yaml"), {"env": {"resources_servers": {"mcqa": {"y": 2}}}}),
)
BLOCK = ("env", "resources_servers", "mcqa")


def refused(world: World, text: str, *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        world.load_text(text, *overrides)
    return caught.value


def test_a_secret_is_traced_to_the_line_of_its_key(world: World) -> None:
    env_file = world.write(
        "env.yaml", "policy_base_url: http://localhost:8000/v1\npolicy_api_key: x\n"
    )
    in_file = world.load_text(FLEET)
    typed = world.load_text(FLEET, "++policy_api_key=y")

    assert in_file.origins_of_secrets("policy_model") == [f"policy_api_key ({env_file}:2)"]
    assert typed.origins_of_secrets("policy_model") == ["policy_api_key (command line)"]


@pytest.mark.parametrize(
    ("overrides", "steps", "origin"),
    [
        ((), (*BLOCK, "x"), "/a.yaml"),
        ((), (*BLOCK, "y"), "/b.yaml"),
        ((), (*BLOCK, "z"), ""),
        (("++env.resources_servers.mcqa.x=3",), (*BLOCK, "x"), "override ++env.resources_servers.mcqa.x"),
        (("++env.resources_servers.mcqa.x=3",), BLOCK, "/b.yaml"),
        (("++env.resources_servers={mcqa: {z: 3}}",), (*BLOCK, "z"), "override ++env.resources_servers"),
        (("+new.resources_servers.mcqa.x=3",), ("new",), "override +new.resources_servers.mcqa.x"),
        (("~env.resources_servers.mcqa.x",), (*BLOCK, "x"), "/a.yaml"),
    ],
)  # fmt: skip
def test_the_last_source_of_a_value_is_its_origin(
    overrides: tuple[str, ...], steps: tuple[str, ...], origin: str
) -> None:
    assert Origins(FILES, parse_overrides(overrides)).of(*steps) == origin


def test_a_server_type_that_is_misspelt_is_named_with_its_file(world: World) -> None:
    error = refused(world, "mcqa: {resource_servers: {mcqa: {}}}")

    assert error.message.startswith(
        f"{world.cwd / 'config.yaml'}:1: mcqa: 'resource_servers' is not"
    )


def test_a_setting_beside_the_server_type_is_named_with_the_override_to_type(world: World) -> None:
    error = refused(world, FLEET, *POLICY, "++mcqa.bonus=1")

    assert error.message.startswith("override ++mcqa.bonus: mcqa has bonus next to")
    assert error.hint == "write ++mcqa.resources_servers.mcqa.bonus=…"


def test_another_implementation_in_an_override_is_named_with_the_one_of_the_file(
    world: World,
) -> None:
    error = refused(world, FLEET, *POLICY, "++mcqa.resources_servers.mcqaa.bonus=1")

    assert "mcqaa of override ++mcqa.resources_servers.mcqaa.bonus" in error.message
    assert error.message.endswith("did you mean 'mcqa'?")
    assert error.hint == "write ++mcqa.resources_servers.mcqa.bonus=…"


def test_an_override_of_an_implementation_that_replaces_the_one_of_the_file_is_shown(
    world: World,
) -> None:
    error = refused(world, FLEET, *POLICY, "++policy_model.responses_api_models.vllm.base_url=x")

    assert "did you mean" not in error.message
    assert "put ~policy_model.responses_api_models.openai_model before it" in error.hint


def test_two_files_with_two_implementations_of_one_instance_are_both_named(world: World) -> None:
    world.write("other.yaml", "policy_model: {responses_api_models: {vllm_model: {}}}")

    error = refused(world, FLEET, *POLICY, "+config_paths=[other.yaml]")

    assert f"openai_model of {world.cwd / 'config.yaml'}:4" in error.message
    assert f"vllm_model of {world.cwd / 'other.yaml'}:1" in error.message
    assert error.hint.startswith("leave one of the files out")


def test_a_missing_reference_is_named_with_its_file_unless_an_override_sets_it(
    world: World,
) -> None:
    override = "++agent.responses_api_agents.simple_agent.model_server.name=foo"
    text = FLEET.replace("name: policy_model", "name: foo")

    assert refused(world, text, *POLICY).message.startswith(
        f"{world.cwd / 'config.yaml'}:14: agent: "
    )
    assert refused(world, FLEET, *POLICY, override).message.startswith("agent: model_server")


@pytest.mark.parametrize(("domain", "line"), [("domain: geography", 10), ("", 9)])
def test_a_domain_that_is_wrong_or_missing_is_named_with_its_file(
    world: World, domain: str, line: int
) -> None:
    config = world.load_text(FLEET.replace("domain: knowledge", domain or "x: 1"), *POLICY)
    [problem] = domain_problems(config)

    assert problem.message.startswith(f"{world.cwd / 'config.yaml'}:{line}: mcqa.resources_servers")


def test_a_wrong_dataset_is_named_with_its_file(world: World) -> None:
    config = world.load_text(
        f"{FLEET}      datasets: [{{name: d, type: train, jsonl_fpath: d.jsonl}}]", *POLICY
    )

    with pytest.raises(ConfigError) as caught:
        datasets_of_agents(config.instances.values())

    assert caught.value.message.startswith(
        f"{world.cwd / 'config.yaml'}:16: agent.datasets[0] (d): "
    )


def test_a_folder_that_does_not_exist_is_named_with_the_file_of_its_server(world: World) -> None:
    error = refused(world, "mcqq: {resources_servers: {mcqq: {}}}")

    assert error.message.startswith(f"{world.cwd / 'config.yaml'}:1: mcqq.resources_servers.mcqq: ")
