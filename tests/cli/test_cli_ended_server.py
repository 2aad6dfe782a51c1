"""Authors' code that ends a server of `ng_run`: its rollout alone fails, in the collection beside it."""

import json
from typing import Any

import pytest
from cli_world import OPENAI, Done, FakeEndpoint, Running, World

pytestmark = [pytest.mark.slow, pytest.mark.alone]

AWAITED = """
import asyncio
import ctypes
import os

from palestra.server import environment


@environment(data=[{{"q": str(n)}} for n in range(4)], prompt="{{q}}")
async def verify(answer: str, q: str) -> float:
    await asyncio.sleep(0.5)
    if q == "2":
        {body}
    await asyncio.sleep(1)
    return 1.0
"""
ON_THREADS = """
import ctypes
import os
import time

from palestra.server import environment


@environment(data=[{{"q": str(n)}} for n in range(4)], prompt="{{q}}", isolated=False)
def verify(answer: str, q: str) -> float:
    time.sleep(0.5)
    if q == "2":
        {body}
    time.sleep(1)
    return 1.0
"""
LINE = 13
"""The line of the body, in both."""
OS_EXIT, SEGFAULT = "os._exit(3)", "ctypes.string_at(0)"
UNSEEN = "ctypes.CDLL(None)._exit(3)"
"""An end that leaves no stack."""
BLOCK = "++hang.resources_servers.environment_file"
PROCESS, EMBEDDED = f"{BLOCK}.placement=process", f"{BLOCK}.placement=embedded"


def serving(world: World, fake: FakeEndpoint, file: str, placement: str) -> Running:
    """`ng_run` with the servers of `file`, once they are ready."""
    world.write("hang.py", file)
    fleet = world.start(
        *("ng_run", f"+config_paths=[hang.py,{OPENAI}]", world.head, *fake.policy),
        *(f"{BLOCK}.domain=other", placement),
    )
    fleet.until("servers ready!")
    return fleet


def collecting(world: World, *more: str) -> Done:
    """`ng_collect_rollouts` beside it."""
    rows = [{"q": str(n), "responses_create_params": {"input": str(n)}} for n in range(4)]
    world.write("tasks.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return world.run(
        *("ng_collect_rollouts", world.head, "+agent_name=hang_agent", "+rollout_timeout=30"),
        *("+input_jsonl_fpath=tasks.jsonl", "+output_jsonl_fpath=r.jsonl", *more),
    )


def failures(world: World) -> list[tuple[int, str, int, bool]]:
    return [
        (
            row["_ng_task_index"],
            row["_ng_failure_class"],
            row["attempt"],
            row["_ng_failure_terminal"],
        )
        for row in world.rows("r_failures.jsonl")
    ]


@pytest.mark.parametrize("placement", [PROCESS, EMBEDDED], ids=["process", "embedded"])
@pytest.mark.parametrize(
    ("file", "body", "how"),
    [
        pytest.param(AWAITED, OS_EXIT, "exit code 3", id="exit"),
        pytest.param(AWAITED, SEGFAULT, "signal SIGSEGV", id="crash"),
        pytest.param(ON_THREADS, OS_EXIT, "exit code 3", id="exit on a thread"),
        pytest.param(ON_THREADS, SEGFAULT, "signal SIGSEGV", id="crash on a thread"),
    ],
)
def test_only_the_rollout_fails_whose_code_ended_its_server(
    world: World, fake: FakeEndpoint, placement: str, file: str, body: str, how: str
) -> None:
    fleet = serving(world, fake, file.format(body=body), placement)

    done = collecting(world)

    assert done.code == 1
    assert failures(world) == [(2, "verifier_error", 1, True)]
    named = (
        f"hang/verify ended the process that it ran in ({how}) in verify, "
        f"{world.folder}/hang.py:{LINE}"
    )
    [row] = world.rows("r_failures.jsonl")
    assert row["message"] == named
    assert f"rollout 2:0: {named}" in done.err
    assert fleet.ended(timeout_s=20) == 1
    assert f"rollout 2:0: {named}" in fleet.text()


def test_the_rollouts_that_were_in_flight_are_collected_on_resume(
    world: World, fake: FakeEndpoint
) -> None:
    file = AWAITED.format(body=OS_EXIT)
    fleet = serving(world, fake, file, PROCESS)
    collecting(world)
    fleet.ended(timeout_s=20)

    serving(world, fake, file, PROCESS)
    done = collecting(world, "++resume_from_cache=true")

    assert "requested 4 = scored 3 + failed 1 (verifier_error 1)" in done.out, done.err
    assert failures(world) == [(2, "verifier_error", 1, True)]
    assert sorted(row["_ng_task_index"] for row in world.rows("r.jsonl")) == [0, 1, 3]


@pytest.mark.parametrize("placement", [PROCESS, EMBEDDED], ids=["process", "embedded"])
def test_of_several_rollouts_none_is_blamed_without_a_stack(
    world: World, fake: FakeEndpoint, placement: str
) -> None:
    fleet = serving(world, fake, ON_THREADS.format(body=UNSEEN), placement)

    done = collecting(world)

    calls = ", ".join(f"hang/verify of rollout {task}:0" for task in range(4))
    named = f"exit code 3 while it executed {calls}; whose code ended it is not known"
    assert done.code == 1
    assert not (world.folder / "r_failures.jsonl").exists()
    assert named in done.err
    assert "+num_samples_in_parallel=1" in done.err
    assert fleet.ended(timeout_s=20) == 1
    assert named in fleet.text()


def test_a_single_rollout_is_named_without_a_stack(world: World, fake: FakeEndpoint) -> None:
    serving(world, fake, ON_THREADS.format(body=UNSEEN), PROCESS)

    collecting(world, "+num_samples_in_parallel=1", "+num_repeats=1")

    assert failures(world) == [(2, "verifier_error", 1, True)]


def test_who_kills_a_server_from_outside_accuses_no_rollout(
    world: World, fake: FakeEndpoint
) -> None:
    serving(world, fake, AWAITED.format(body="os.kill(os.getpid(), 9)"), PROCESS)

    done = collecting(world)

    assert "server hang ended with signal SIGKILL" in done.err
    assert not (world.folder / "r_failures.jsonl").exists()


def test_a_server_process_of_the_command_itself_costs_the_same_rollout(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("hang.py", AWAITED.format(body=OS_EXIT))
    command = [
        *("eval", "hang.py", "--model", "openai:tiny", "--output", "r.jsonl", world.head),
        *(*fake.policy, PROCESS, "--progress", "plain"),
    ]

    done = world.run("palestra", *command)
    again = world.run("palestra", *command, "--resume")

    assert "error: server hang was ended by a call of rollout 2:0" in done.err
    assert "requested 4 = scored 3 + failed 1 (verifier_error 1)" in again.out, again.err
    assert failures(world) == [(2, "verifier_error", 1, True)]


def test_a_stored_row_whose_verification_ends_its_server_is_the_only_failure(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("hang.py", AWAITED.format(body=OS_EXIT))
    world.write("stored.jsonl", "".join(json.dumps(stored(n)) + "\n" for n in range(4)))
    command = [
        *("reverify", "-r", "stored.jsonl", "--environment", "hang.py", "--output", "new.jsonl"),
        PROCESS,
    ]

    done = world.run("palestra", *command)
    again = world.run("palestra", *command, "--resume")

    assert "error: server hang was ended by a call of rollout 2:0" in done.err
    assert "4 rows = 3 verified + 1 failed" in again.out, again.err
    [failure] = world.rows("new_failures.jsonl")
    assert (failure["_ng_task_index"], failure["_ng_failure_class"]) == (2, "verifier_error")


def stored(task: int) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": str(task)},
        "response": {**FakeEndpoint().body, "parallel_tool_calls": True},
        "reward": 0.0,
        "q": str(task),
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
    }
