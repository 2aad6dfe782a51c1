"""Bad input: one clear error, exit code 2, and nothing written."""

import os
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_world import AGENT, KEY, MULTI_STEP, OPENAI, World

CONFIGS = f"+config_paths=[{MULTI_STEP},{OPENAI}]"
POLICY = ("++policy_base_url=http://127.0.0.1:9/v1", f"++policy_api_key={KEY}")
NAMED = (*POLICY, "++policy_model_name=tiny")


def refused_config(world: World, *arguments: str) -> str:
    """What `ng_run` says to such a configuration."""
    before = world.files()
    message = world.run("ng_run", world.head, *arguments).refused()
    assert world.files() == before
    return message


def test_a_missing_config_file_is_named_with_the_places_looked_at(world: World) -> None:
    message = refused_config(world, "+config_paths=[no/such.yaml]")

    assert "config file 'no/such.yaml' (asked for) does not exist" in message
    assert str(world.folder / "no/such.yaml") in message


def test_a_yaml_error_has_its_line(world: World) -> None:
    world.write("bad.yaml", "fine: 1\nbroken: [1,\n")

    assert "bad.yaml, line 3" in refused_config(world, "+config_paths=[bad.yaml]")


def test_a_reference_to_nobody_names_the_nearest_instance(world: World) -> None:
    wrong = f"++{AGENT}.responses_api_agents.simple_agent.model_server.name=policy_modl"
    message = refused_config(world, CONFIGS, *NAMED, wrong)

    assert "'policy_modl', which does not exist; did you mean 'policy_model'?" in message


def test_a_configuration_without_a_model_is_told_to_add_one(world: World) -> None:
    message = refused_config(world, f"+config_paths=[{MULTI_STEP}]")

    assert "the configuration has no responses_api_models; add a model's config" in message
    assert "responses_api_models/openai_model/configs/openai_model.yaml" in message


@pytest.mark.parametrize(
    ("asked", "meant"), [("word_cuont", "word_count"), ("wrods.py", "words.py")]
)
def test_a_misspelt_environment_of_the_readers_own_is_recognized(
    world: World, asked: str, meant: str
) -> None:
    configs = world.folder / "resources_servers" / "word_count" / "configs"
    configs.mkdir(parents=True)
    (configs / "word_count.yaml").touch()
    world.write("words.py", "from palestra import environment\n\n\n@environment(data=[])\n")

    message = world.run("palestra", "eval", asked).refused()

    assert f"did you mean '{meant}'?" in message


def test_two_instances_on_one_port_are_both_named(world: World) -> None:
    ports = (
        "++example_multi_step_resources_server.resources_servers.example_multi_step.port=12345",
        "++policy_model.responses_api_models.openai_model.port=12345",
    )
    message = refused_config(world, CONFIGS, *NAMED, *ports)

    assert (
        "example_multi_step_resources_server and policy_model both want 127.0.0.1:12345" in message
    )


def test_an_unknown_implementation_names_the_nearest_one(world: World) -> None:
    wrong = "++x.resources_servers.exampel_multi_step.entrypoint=app.py"
    message = refused_config(world, f"+config_paths=[{OPENAI}]", *NAMED, wrong)

    assert "exampel_multi_step/app.py; nearest: example_multi_step" in message


def test_a_missing_key_says_how_to_give_it(world: World) -> None:
    message = refused_config(
        world, CONFIGS, "++policy_base_url=http://127.0.0.1:9/v1", "++policy_model_name=tiny"
    )

    assert "openai_api_key needs policy_api_key: ++policy_api_key=<value>" in message


def test_all_missing_settings_are_listed_at_once(world: World) -> None:
    message = refused_config(world, CONFIGS)

    for name in ("policy_base_url", "policy_api_key", "policy_model_name"):
        assert f"++{name}=<value>" in message


def test_a_fleet_without_servers_is_refused(world: World) -> None:
    assert "no server instance is configured" in refused_config(world)


@pytest.mark.parametrize("override", ["foo", "+config_paths=[a", "new_key=1"])
def test_an_override_that_cannot_be_used_is_quoted(world: World, override: str) -> None:
    assert override.split("=", maxsplit=1)[0] in refused_config(world, CONFIGS, *NAMED, override)


def test_no_message_shows_a_key(world: World) -> None:
    done = world.run("ng_run", world.head, CONFIGS, *NAMED, "++head_server.port=x")

    assert KEY not in done.out + done.err


def test_missing_settings_of_a_command_are_all_named(world: World) -> None:
    message = world.run("ng_collect_rollouts", world.head).refused()

    assert "input_jsonl_fpath: is required" in message
    assert "output_jsonl_fpath: is required" in message


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("palestra", "collect", "--repeats", "0"), "(--num-repeats)"),
        (("ng_collect_rollouts", "+num_samples_in_parallel=x"), "(--concurrency)"),
        (("palestra", "prepare"), "(--output-dir)"),
    ],
)
def test_a_setting_is_named_with_its_flag(
    world: World, arguments: tuple[str, ...], named: str
) -> None:
    assert named in world.run(*arguments, world.head).refused()


def test_a_busy_head_port_names_its_holder(world: World) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", world.head_port))
        holder.listen()
        message = refused_config(world, CONFIGS, *NAMED)

    assert f"cannot listen on 127.0.0.1:{world.head_port}: process {os.getpid()} (" in message
    assert "holds it" in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reasning_gym"], "did you mean 'reasoning_gym'?"),
        (["nope.py"], "nope.py does not exist"),
        (["mcqa", "--model", "openai:"], "names no model"),
        (["mcqa", "--model", "bogus"], "bogus"),
        (["mcqa", "--rows", "families"], "is not KEY=VALUE"),
        (["mcqa", "--model", "local", "--progress", "nonsense"], "'nonsense' is unknown"),
    ],
)
def test_an_evaluation_that_means_nothing_is_refused(
    world: World, arguments: list[str], says: str
) -> None:
    message = world.run("palestra", "eval", *arguments).refused()

    assert says in message
    assert world.files() == []


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("reasoning_gym"), reason="needs reasoning_gym")
def test_rows_that_an_environment_does_not_make_are_refused(world: World) -> None:
    done = world.run("palestra", "eval", "reasoning_gym", "--model", "local", "--rows", "size=3")

    assert "makes no rows with --rows size" in done.refused()
    assert world.files() == []


def test_files_to_profile_that_are_missing_are_named(world: World) -> None:
    message = world.run("palestra", "profile", "--inputs", "a.jsonl", "--rollouts", "b").refused()

    assert "cannot read a.jsonl" in message


def test_a_config_file_may_have_any_name(world: World) -> None:
    path = Path("my conf, it's=1 [x].yaml")
    world.write(str(path), "note: here\n")
    done = world.run("palestra", "config", "--config", str(path))

    assert done.code == 0, done.err
    assert "note: here" in done.out
