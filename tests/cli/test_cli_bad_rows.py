"""A collection that cannot be: one clear error, exit code 2, and nothing written."""

import pytest
from cli_world import AGENT, CAPTURED_401, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, World

pytestmark = pytest.mark.slow


def collect(world: World, fake: FakeEndpoint, *arguments: str) -> list[str]:
    """A collection with the servers inside the command."""
    return [
        *("collect", "--config", MULTI_STEP, "--config", OPENAI, world.head, *fake.policy),
        *("--agent", AGENT, "--output", "out/rollouts.jsonl", *arguments),
    ]


def refused_rows(world: World, fake: FakeEndpoint, *arguments: str) -> str:
    """What `palestra collect` says to such rows or outputs."""
    before = world.files()
    message = world.run("palestra", *collect(world, fake, *arguments)).refused()
    assert world.files() == before
    return message


def test_a_misspelt_setting_of_a_server_names_the_nearest_one(
    world: World, fake: FakeEndpoint
) -> None:
    wrong = f"++{AGENT}.responses_api_agents.simple_agent.max_stepz=3"
    message = refused_rows(world, fake, "--input", TASKS, wrong)

    assert f"{AGENT}: max_stepz is not a setting; did you mean 'max_steps'?" in message


def test_a_misspelt_override_of_palestra_names_the_nearest_one(
    world: World, fake: FakeEndpoint
) -> None:
    message = refused_rows(world, fake, "--input", TASKS, "num_repeat=3")

    assert "override 'num_repeat' is not a setting" in message
    assert "did you mean 'num_repeats'?" in message


def test_numbers_out_of_range_are_all_named(world: World, fake: FakeEndpoint) -> None:
    message = refused_rows(world, fake, "--input", TASKS, "--limit=-3", "--concurrency", "0")

    assert "--limit: should be at least 0, got -3" in message
    assert "--concurrency: should be a whole number from 1 on, or auto" in message


def test_a_missing_input_file_is_named(world: World, fake: FakeEndpoint) -> None:
    message = refused_rows(world, fake, "--input", "none.jsonl")

    assert "none.jsonl does not exist" in message


def test_an_empty_input_file_is_refused(world: World, fake: FakeEndpoint) -> None:
    world.write("tasks.jsonl", "")

    assert "tasks.jsonl has no rows" in refused_rows(world, fake, "--input", "tasks.jsonl")


def test_every_row_that_cannot_be_used_is_named(world: World, fake: FakeEndpoint) -> None:
    good = '{"responses_create_params": {"input": "q"}}\n'
    world.write("tasks.jsonl", good + "{}\n{}\n" + good + "not json\n{}\n")
    message = refused_rows(world, fake, "--input", "tasks.jsonl")

    assert "tasks.jsonl: 4 rows cannot be used" in message
    assert "lines 2-3, 6: no `responses_create_params`" in message
    assert "line 5: not JSON" in message


def test_an_unknown_agent_is_named_with_those_that_exist(world: World, fake: FakeEndpoint) -> None:
    message = refused_rows(world, fake, "--input", TASKS, "--agent", "simple_agent")

    assert "there is no agent 'simple_agent'" in message
    assert f"agents: {AGENT}" in message


def test_an_unknown_agent_of_a_row_is_not_answered_with_the_flag_that_it_overrides(
    world: World, fake: FakeEndpoint
) -> None:
    row = '{"responses_create_params": {"input": "q"}, "agent_ref": {"name": "nobody"}}\n'
    world.write("tasks.jsonl", row)

    message = refused_rows(world, fake, "--input", "tasks.jsonl")

    assert "line 1: agent 'nobody' does not exist" in message
    assert "hint: a row's agent_ref wins over --agent: correct it in the file" in message


@pytest.mark.parametrize("output", ["a_file/rollouts.jsonl", "/proc/none/rollouts.jsonl"])
def test_an_output_that_cannot_be_written_is_named(
    world: World, fake: FakeEndpoint, output: str
) -> None:
    world.write("a_file", "")
    message = refused_rows(world, fake, "--input", TASKS, "--output", output)

    assert f"cannot write to {(world.folder / output).parent}" in message


def test_an_existing_output_is_not_overwritten_unasked(world: World, fake: FakeEndpoint) -> None:
    (world.folder / "out").mkdir()
    world.write("out/rollouts.jsonl", "precious\n")
    message = refused_rows(world, fake, "--input", TASKS)

    assert "rollouts.jsonl exists already" in message
    assert "--resume" in message
    assert (world.folder / "out/rollouts.jsonl").read_text() == "precious\n"


def test_an_unknown_kind_of_progress_names_the_known_ones(world: World, fake: FakeEndpoint) -> None:
    message = refused_rows(world, fake, "--input", TASKS, "--progress", "nonsense")

    assert "--progress: should be 'rich', 'plain' or 'none', got 'nonsense'" in message


def test_a_wrong_key_is_the_providers_own_sentence_once(world: World, fake: FakeEndpoint) -> None:
    fake.status = fake.models_status = 401
    fake.body = CAPTURED_401
    message = refused_rows(world, fake, "--input", TASKS)

    assert message.count("Incorrect API key provided") == 1
    assert fake.asked == 0


def test_a_wrong_key_is_named_with_what_sets_it(world: World, fake: FakeEndpoint) -> None:
    fake.status = fake.models_status = 401
    fake.body = CAPTURED_401
    message = refused_rows(world, fake, "--input", TASKS, "++policy_api_key=sk-wrong")

    assert "policy_model was started with policy_api_key (command line)" in message


def test_a_key_that_only_lists_models_stops_the_first_rollout(
    world: World, fake: FakeEndpoint
) -> None:
    fake.status = 401
    fake.body = CAPTURED_401
    message = refused_rows(world, fake, "--input", TASKS)

    assert message.count("Incorrect API key provided") == 1
    assert "policy_model" in message


def test_a_real_engine_that_rejects_the_key_is_quoted_once(served: World) -> None:
    wrong = "++policy_api_key=sk-another-key"
    done = served.run(
        *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, served.head, wrong),
        *("--agent", AGENT, "--input", TASKS, "--output", "rollouts.jsonl"),
    )

    assert done.refused().count("Invalid API Key") == 1
    assert served.files() == ["env.yaml"]
