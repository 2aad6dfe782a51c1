"""What a collection finds out before anything starts, and which fleet it works with."""

import pytest
from cli_world import AGENT, KEY, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, World, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STRICT_ENV = """
from pydantic import BaseModel
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Question(VerifyRequest):
    expected_answer: str


class Strict(ResourcesServer):
    async def verify(self, body: Question) -> VerifyResponse:
        return self.reply(body, 1.0)
"""

STRICT_CONFIG = """
strict:
  resources_servers:
    strict: {entrypoint: app.py, domain: other}
strict_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: strict}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - {name: mine, type: validation, jsonl_fpath: tasks.jsonl, num_repeats: 3}
"""

GOOD = '{"responses_create_params": {"input": "q"}, "expected_answer": "4"}\n'
BAD = '{"responses_create_params": {"input": "q"}}\n'


def strict(world: World, rows: str) -> list[str]:
    """An environment of the user's own with typed rows, and the overrides that use it."""
    folder = world.folder / "resources_servers" / "strict"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(STRICT_ENV)
    world.write("strict.yaml", STRICT_CONFIG)
    world.write("tasks.jsonl", rows)
    return [f"+config_paths=[strict.yaml,{OPENAI}]", world.head]


def nobody() -> list[str]:
    """A policy endpoint where nobody listens."""
    url = f"http://127.0.0.1:{free_port()}/v1"
    return [f"++policy_base_url={url}", f"++policy_api_key={KEY}", "++policy_model_name=tiny"]


def test_a_misspelt_input_is_said_before_an_endpoint_is_waited_for(world: World) -> None:
    done = world.run(
        *("ng_collect_rollouts", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head, *nobody()),
        *("+agent_name=" + AGENT, "+input_jsonl_fpath=nope.jsonl", "+output_jsonl_fpath=o.jsonl"),
        timeout_s=20,
    )

    assert "input file" in done.refused()
    assert "waiting for its endpoint" not in done.err
    assert world.files() == []


def test_a_fleet_that_cannot_start_leaves_an_earlier_run_as_it_was(
    world: World, fake: FakeEndpoint
) -> None:
    command = [
        *("ng_collect_rollouts", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head),
        *(f"+agent_name={AGENT}", f"+input_jsonl_fpath={TASKS}", "+output_jsonl_fpath=o.jsonl"),
    ]
    assert world.run(*command, *fake.policy).code == 0
    before = world.files()
    dead = [*nobody(), "++model_endpoint_readiness_timeout_seconds=0.1"]
    done = world.run(*command, *dead, "+limit=1")

    assert done.code == 1
    assert "has no endpoint" in done.err
    assert world.files() == before


def test_rows_that_the_verifier_would_reject_are_refused_before_the_first_call(
    world: World, fake: FakeEndpoint
) -> None:
    done = world.run(
        *("ng_collect_rollouts", *strict(world, GOOD + BAD), *fake.policy),
        *(
            "+agent_name=strict_agent",
            "+input_jsonl_fpath=tasks.jsonl",
            "+output_jsonl_fpath=o.jsonl",
        ),
    )

    assert 'line 2: /: "expected_answer" is a required property' in done.refused()
    assert fake.asked == 0
    assert not [name for name in world.files() if name.startswith("o")]


def test_a_split_collects_over_the_datasets_of_the_configuration(
    world: World, fake: FakeEndpoint
) -> None:
    done = world.run(
        *("ng_e2e_collect_rollouts", *strict(world, GOOD), *fake.policy),
        *("+split=validation", "+output_jsonl_fpath=o.jsonl"),
    )

    assert done.code == 0, done.err
    assert "requested 3 = scored 3" in done.out
    assert {row["agent_ref"]["name"] for row in world.rows("o.jsonl")} == {"strict_agent"}


def test_a_split_without_datasets_is_an_error(world: World, fake: FakeEndpoint) -> None:
    done = world.run(
        *("ng_e2e_collect_rollouts", *strict(world, GOOD), *fake.policy),
        *("+split=benchmark", "+output_jsonl_fpath=o.jsonl"),
    )

    assert "no agent of the configuration has a dataset of type benchmark" in done.refused()


def test_a_split_without_any_config_is_answered_with_where_datasets_are(world: World) -> None:
    done = world.run(
        "ng_collect_rollouts", "+split=example", "+output_jsonl_fpath=o.jsonl", world.head
    )

    error = done.refused()
    assert "there are no datasets of type example: no config file is given" in error
    assert "those of a running fleet too: +config_paths=[FILE]" in error


def test_a_running_fleet_with_other_settings_is_not_used_unawares(
    world: World, fake: FakeEndpoint
) -> None:
    configs = f"+config_paths=[{MULTI_STEP},{OPENAI}]"
    fleet = world.start("ng_run", configs, world.head, *fake.policy)
    fleet.until("servers ready!")
    collect = [
        *("ng_collect_rollouts", world.head, f"+agent_name={AGENT}"),
        *(f"+input_jsonl_fpath={TASKS}", "+output_jsonl_fpath=o.jsonl", "+limit=1"),
    ]
    other = world.run(*collect, configs, *fake.policy[:2], "++policy_model_name=another")

    assert "settings.openai_model: 'tiny' -> 'another'" in other.refused()
    assert world.run(*collect, configs, *fake.policy).code == 0
    alone = world.run(*collect)
    assert alone.code == 0
    assert "policy_model: " in alone.err
    assert "is reachable and serves tiny" in alone.err


def test_a_running_fleet_whose_endpoint_rejects_the_key_ends_the_collection_at_once(
    world: World, fake: FakeEndpoint
) -> None:
    fleet = world.start(
        "ng_run", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head, *fake.policy
    )
    fleet.until("servers ready!")
    fake.models_status, fake.body = 401, {"error": {"message": "Incorrect API key provided"}}
    done = world.run(
        *("ng_collect_rollouts", world.head, f"+agent_name={AGENT}"),
        *(f"+input_jsonl_fpath={TASKS}", "+output_jsonl_fpath=o.jsonl"),
    )

    assert done.code != 0
    assert "Incorrect API key provided" in done.err
    assert "policy_model was started with policy_api_key (command line)" in done.err
    assert world.files() == []


def test_a_fleet_warns_of_an_endpoint_that_refuses_it(world: World, fake: FakeEndpoint) -> None:
    fake.models_status, fake.body = 401, {"error": {"message": "Incorrect API key provided"}}
    fleet = world.start(
        "ng_run", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head, *fake.policy
    )
    fleet.until("warning: policy_model: ")

    said = fleet.text()
    assert "servers ready!" in said
    assert "answered 401: Incorrect API key provided" in said
    assert "policy_model was started with policy_api_key (command line)" in said


def test_shards_by_the_command_line(world: World, fake: FakeEndpoint) -> None:
    for index in range(2):
        done = world.run(
            *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, world.head),
            *(*fake.policy, "--agent", AGENT, "--input", TASKS, "--shard", f"{index}/2"),
            *("--output", f"s{index}.jsonl"),
        )
        assert done.code == 0, done.err
        assert f"shard {index}/2" in done.err

    tasks = [[row["_ng_task_index"] for row in world.rows(f"s{i}.jsonl")] for i in range(2)]
    assert [sorted(found) for found in tasks] == [[0, 1], [2, 3, 4]]


def test_a_shard_that_does_not_exist_is_refused(world: World, fake: FakeEndpoint) -> None:
    done = world.run(
        *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, world.head),
        *(*fake.policy, "--agent", AGENT, "--input", TASKS, "--shard", "2/2", "-o", "o.jsonl"),
    )

    assert "shards count from 0, and the last of 2 is 1/2" in done.refused()


def test_a_prompt_that_is_not_there_is_one_clear_error(world: World, fake: FakeEndpoint) -> None:
    done = world.run(
        *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, world.head),
        *(*fake.policy, "--agent", AGENT, "--input", TASKS, "-o", "o.jsonl"),
        *("--prompt-config", "nothere.yaml"),
    )

    assert "nothere.yaml" in done.refused()


def test_servers_inside_the_fields_command_need_a_domain(world: World) -> None:
    arguments = strict(world, GOOD)
    world.write("strict.yaml", STRICT_CONFIG.replace("domain: other", "domain: matths"))

    done = world.run(
        *("ng_collect_rollouts", *arguments, *nobody(), "+agent_name=strict_agent"),
        *("+input_jsonl_fpath=tasks.jsonl", "+output_jsonl_fpath=o.jsonl"),
        timeout_s=20,
    )

    assert "'matths' is not a domain" in done.refused()
    assert not (world.folder / "o.jsonl").exists()


def test_an_agent_that_another_block_took_away_is_named_with_that_block(world: World) -> None:
    arguments = strict(world, GOOD)
    world.write("strict.yaml", STRICT_CONFIG + "mine:\n  _inherit_from: strict_agent\n")

    refused = world.run(
        *("ng_collect_rollouts", *arguments, *nobody(), "+agent_name=strict_agent"),
        *("+input_jsonl_fpath=tasks.jsonl", "+output_jsonl_fpath=o.jsonl"),
        timeout_s=20,
    ).refused()

    assert "no agent 'strict_agent' any more" in refused
    assert "strict.yaml:14: mine._inherit_from has taken it away" in refused
    assert "_copy" in refused


def test_a_running_fleet_names_the_block_that_took_an_agent_away(world: World) -> None:
    arguments = strict(world, GOOD)
    world.write("strict.yaml", STRICT_CONFIG + "mine:\n  _inherit_from: strict_agent\n")
    world.start("ng_run", *arguments, *nobody()).until("servers ready!")

    refused = world.run(
        *("ng_collect_rollouts", world.head, "+agent_name=strict_agent"),
        *("+input_jsonl_fpath=tasks.jsonl", "+output_jsonl_fpath=o.jsonl"),
    ).refused()

    assert "strict.yaml:14: mine._inherit_from has taken it away" in refused


def test_a_resources_server_as_the_agent_is_called_what_it_is(world: World) -> None:
    arguments = strict(world, GOOD)

    refused = world.run(
        *("ng_collect_rollouts", *arguments, *nobody(), "+agent_name=strict"),
        *("+input_jsonl_fpath=tasks.jsonl", "+output_jsonl_fpath=o.jsonl"),
        timeout_s=20,
    ).refused()

    assert "strict is a resources server, not an agent" in refused
    assert "name an agent that uses it: `+agent_name=strict_agent`" in refused


def test_the_file_of_a_server_is_no_entrypoint_of_its_tests(world: World) -> None:
    strict(world, GOOD)

    refused = world.run("ng_test", "+entrypoint=resources_servers/strict/app.py").refused()

    assert "+entrypoint=resources_servers/strict\n" in f"{refused}\n"


def test_a_misspelt_entrypoint_is_refused_with_the_nearest(world: World) -> None:
    arguments = strict(world, GOOD)
    world.write("strict.yaml", STRICT_CONFIG.replace("app.py, domain", "apps.py, domain"))

    refused = world.run("ng_run", *arguments, *nobody(), timeout_s=20).refused()

    assert "has no apps.py; did you mean 'app.py'?" in refused


def test_the_fields_start_refuses_a_type_of_datasets_that_does_not_exist(world: World) -> None:
    arguments = strict(world, GOOD)
    world.write("strict.yaml", STRICT_CONFIG.replace("type: validation", "type: exmaple"))

    refused = world.run("ng_run", *arguments, *nobody(), timeout_s=20).refused()

    assert "did you mean 'example'?" in refused
