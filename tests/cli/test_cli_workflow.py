"""The field's three steps, in its own words, against a real llama.cpp."""

import os
import re
import signal
import threading

import pytest
from cli_world import (
    AGENT,
    CAPTURED_401,
    MULTI_STEP,
    OPENAI,
    SINGLE_CALL,
    TASKS,
    VLLM,
    FakeEndpoint,
    Running,
    World,
    alive,
    listens,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

COLLECT = (
    f"+agent_name={AGENT}",
    f"+input_jsonl_fpath={TASKS}",
    "+output_jsonl_fpath=out/rollouts.jsonl",
    "+num_repeats=2",
)
PROFILE = (
    "+materialized_inputs_jsonl_fpath=out/rollouts_materialized_inputs.jsonl",
    "+rollouts_jsonl_fpath=out/rollouts.jsonl",
)
BRIEF = "++responses_create_params.max_output_tokens=8"


def start_fleet(world: World, *configs: str, overrides: tuple[str, ...] = ()) -> Running:
    """`ng_run`, ready. Only the head's port is not as a user would have it."""
    fleet = world.start("ng_run", f"+config_paths=[{','.join(configs)}]", world.head, *overrides)
    fleet.until("servers ready!")
    return fleet


def ports(world: World) -> list[int]:
    """The ports of the fleet's servers, and its head's."""
    # The endpoint of a model server, which is not ours, has a path.
    words = world.run("ng_status", world.head).out.split()
    urls = [found for word in words if (found := re.fullmatch(r"http://[^/]+:(\d+)", word))]
    return [world.head_port, *(int(url[1]) for url in urls)]


def collect_and_profile(world: World, *overrides: str) -> None:
    """The second and third step, and what they leave behind."""
    collected = world.run("ng_collect_rollouts", *COLLECT, world.head, *overrides, timeout_s=350)
    assert collected.code == 0, collected.err
    assert "requested 10 = scored 10" in collected.out
    profiled = world.run("ng_reward_profile", *PROFILE)
    assert profiled.code == 0, profiled.err
    assert f" {AGENT}" in profiled.out
    assert "10/10" in profiled.out

    keys = [
        (row["_ng_task_index"], row["_ng_rollout_index"])
        for row in world.rows("out/rollouts.jsonl")
    ]
    assert sorted(keys) == [(task, rollout) for task in range(5) for rollout in range(2)]
    assert [name for name in world.files() if name.startswith("out/")] == [
        "out/rollouts.jsonl",
        "out/rollouts_agent_metrics.json",
        "out/rollouts_aggregate_metrics.json",
        "out/rollouts_manifest.json",
        "out/rollouts_materialized_inputs.jsonl",
        "out/rollouts_report.html",
        "out/rollouts_reward_profiling.jsonl",
    ]


def test_the_three_steps_work_word_for_word(served: World) -> None:
    start_fleet(served, MULTI_STEP, OPENAI)
    status = served.run("ng_status", served.head)

    assert status.code == 0
    assert status.out.splitlines()[-1] == "3 servers found (3 healthy, 0 unhealthy)"
    collect_and_profile(served)


def test_the_three_steps_work_with_chat_completions(served: World) -> None:
    start_fleet(served, MULTI_STEP, VLLM)

    collect_and_profile(served, BRIEF)


def test_two_environments_share_one_fleet_and_rows_find_their_agent(served: World) -> None:
    start_fleet(served, MULTI_STEP, SINGLE_CALL, VLLM)
    row = '{"responses_create_params": {"input": "hi"}, "agent_ref": {"name": "%s"}%s}\n'
    other = "example_single_tool_call_simple_agent"
    fields = ', "expected_synonyms": [], "expected_synonym_values": [], "minefield_label": "x"'
    value = ', "minefield_label_value": 1, "id": 1'
    served.write("tasks.jsonl", row % (AGENT, fields + value) + row % (other, ""))
    done = served.run(
        *("ng_collect_rollouts", "+input_jsonl_fpath=tasks.jsonl", BRIEF, served.head),
        "+output_jsonl_fpath=rollouts.jsonl",
    )

    assert done.code == 0, done.err
    agents = {
        row["_ng_task_index"]: row["agent_ref"]["name"] for row in served.rows("rollouts.jsonl")
    }
    assert agents == {0: AGENT, 1: other}


def test_ctrl_c_leaves_no_process_and_no_port(world: World, fake: FakeEndpoint) -> None:
    fleet = start_fleet(world, MULTI_STEP, OPENAI, overrides=tuple(fake.policy))
    pids, listening = fleet.children(), ports(world)
    assert len(pids) == 4  # the fleet, which a guard watches, and its servers
    assert len(listening) == 4
    fleet.interrupt()

    assert fleet.ended(timeout_s=5) == 0
    assert [pid for pid in pids if alive(pid)] == []
    assert [port for port in listening if listens(port)] == []
    assert fleet.text().endswith("stopped\n")
    assert world.run("ng_status", world.head).out == "No Palestra servers found running.\n"


def test_a_killed_fleet_takes_its_servers_with_it(world: World, fake: FakeEndpoint) -> None:
    fleet = start_fleet(world, MULTI_STEP, OPENAI, overrides=tuple(fake.policy))
    pids = fleet.children()
    fleet.process.kill()

    until(lambda: not any(map(alive, pids)), timeout_s=5)


def test_a_killed_server_ends_the_fleet_which_says_so(world: World, fake: FakeEndpoint) -> None:
    fleet = start_fleet(world, MULTI_STEP, OPENAI, overrides=tuple(fake.policy))
    others = fleet.children()
    os.kill(others.pop(), signal.SIGKILL)

    assert fleet.ended(timeout_s=10) == 1
    assert "ended with signal SIGKILL; its last lines:" in fleet.text()
    assert "error: server " in fleet.text()
    assert [pid for pid in others if alive(pid)] == []


def test_a_second_fleet_on_the_same_head_port_names_the_first(
    world: World, fake: FakeEndpoint
) -> None:
    first = start_fleet(world, MULTI_STEP, OPENAI, overrides=tuple(fake.policy))
    second = world.run("ng_run", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head, *fake.policy)

    fleet = first.children()[0]
    assert f"another fleet (process {fleet}, started 0 min ago)" in second.refused()


def test_a_misspelt_setting_stops_the_fleet_before_it_serves(
    world: World, fake: FakeEndpoint
) -> None:
    wrong = "++policy_model.responses_api_models.openai_model.openai_modl=tiny"
    done = world.run(
        "ng_run", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head, *fake.policy, wrong
    )

    assert done.code == 2
    assert done.err.count("openai_modl is not a setting; did you mean 'openai_model'?") == 1
    assert "Traceback" not in done.err


def test_a_wrong_key_reaches_the_user_through_all_servers_once(
    world: World, fake: FakeEndpoint
) -> None:
    fake.status, fake.body = 401, CAPTURED_401
    start_fleet(world, MULTI_STEP, OPENAI, overrides=tuple(fake.policy))
    done = world.run("ng_collect_rollouts", *COLLECT, world.head)

    assert done.refused().count("Incorrect API key provided") == 1
    assert world.files() == []


def test_a_collection_ends_when_its_fleet_does(world: World, fake: FakeEndpoint) -> None:
    fleet = start_fleet(world, MULTI_STEP, OPENAI, overrides=tuple(fake.policy))
    stuck = threading.Event()
    fake.before_answer = lambda _asked: stuck.wait(60)
    collecting = world.start("ng_collect_rollouts", *COLLECT, world.head)
    until(lambda: fake.asked >= 10)
    fleet.interrupt()

    assert collecting.ended(timeout_s=40) == 1
    stuck.set()
    assert "error: " in collecting.text()
