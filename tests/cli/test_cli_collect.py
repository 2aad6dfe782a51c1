"""Collections with their servers inside the command: `collect`, `eval`, Ctrl-C and `--resume`."""

import re
import threading

import pytest
from cli_world import (
    AGENT,
    MULTI_STEP,
    OPENAI,
    SCRIPTS,
    TASKS,
    FakeEndpoint,
    World,
    alive,
    until,
    without_engine,
)

from palestra.testing import scripted_endpoint

pytestmark = pytest.mark.slow

MY_ENV = """
from palestra import environment

@environment(data=[{"question": "2 + 2 = ?", "expected_answer": "4"}], prompt="{question}")
def verify(answer: str, expected_answer: str) -> float:
    return float(answer.strip() == expected_answer)
"""


def collect(world: World, fake: FakeEndpoint, *arguments: str) -> list[str]:
    return [
        *("collect", "--config", MULTI_STEP, "--config", OPENAI, world.head, *fake.policy),
        *("--agent", AGENT, "--input", TASKS, "--output", "rollouts.jsonl", *arguments),
    ]


def keys(world: World) -> list[int]:
    return sorted(row["_ng_task_index"] for row in world.rows("rollouts.jsonl"))


def test_an_environment_that_is_one_file_runs_on_the_local_model(world: World) -> None:
    if reason := without_engine():
        pytest.skip(reason)
    world.write("my_env.py", MY_ENV)
    done = world.run("palestra", "eval", "my_env.py", "--model", "local")

    assert done.code == 0, done.err
    assert "requested 1 = scored 1" in done.out
    assert "pass@1" in done.out
    [output] = [name for name in world.files() if name.endswith("/rollouts.jsonl")]
    assert world.rows(output)[0]["reward"] in {0.0, 1.0}


def test_collect_needs_no_fleet(world: World, fake: FakeEndpoint) -> None:
    done = world.run("palestra", *collect(world, fake, "--repeats", "2"))

    assert done.code == 0, done.err
    assert "requested 10 = scored 10 + failed 0" in done.out
    assert keys(world) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_missing_rollouts_exit_with_1_and_say_why(world: World, fake: FakeEndpoint) -> None:
    fake.status = 400
    fake.body = {"error": {"message": "Invalid tool: no name", "type": "BadRequestError"}}
    done = world.run("palestra", *collect(world, fake))

    assert done.code == 1
    assert "requested 5 = scored 0 + failed 5 (data_error 5)" in done.out
    assert done.errors == ["error: coverage 0.0% is below the minimum of 100.0%"]
    [first, *_] = world.rows("rollouts_failures.jsonl")
    assert first["_ng_failure_layer"] == "model serving"
    assert "Invalid tool: no name" in first["message"]


def test_less_coverage_can_be_enough(world: World, fake: FakeEndpoint) -> None:
    fake.status = 400
    fake.body = {"error": {"message": "no", "type": "BadRequestError"}}

    assert world.run("palestra", *collect(world, fake, "--min-coverage", "0")).code == 0


@pytest.mark.parametrize("how", ["interrupt", "terminate"])
def test_a_stopped_collection_says_how_to_go_on_and_does(
    world: World, fake: FakeEndpoint, how: str
) -> None:
    stuck = threading.Event()
    fake.before_answer = lambda asked: asked <= 2 or stuck.wait(30)
    running = world.start("palestra", *collect(world, fake, "--concurrency", "1"))
    until(lambda: fake.asked >= 3)
    running.interrupt() if how == "interrupt" else running.process.terminate()

    assert running.ended(timeout_s=5) == {"interrupt": 130, "terminate": 143}[how]
    stuck.set()
    text = running.text()
    assert "requested 5 = scored 2 + failed 0 + not run 3" in text
    assert "that ended are in rollouts.jsonl" in text
    assert "--output rollouts.jsonl --resume" in text
    assert "Traceback" not in text
    done = world.run("palestra", *collect(world, fake, "--resume"))
    assert done.code == 0, done.err
    assert "resuming: 2 of 5 rollouts have ended already" in done.err
    assert keys(world) == [0, 1, 2, 3, 4]


def test_stopped_before_anything_ended_a_collection_leaves_nothing(
    world: World, fake: FakeEndpoint
) -> None:
    stuck = threading.Event()
    fake.before_answer = lambda _asked: stuck.wait(30)
    running = world.start("palestra", *collect(world, fake))
    until(lambda: fake.asked >= 5)
    running.interrupt()

    assert running.ended(timeout_s=5) == 130
    stuck.set()
    assert "stopped by SIGINT before any rollout had ended" in running.text()
    assert "--resume" not in running.text()
    assert world.files() == []


def test_a_killed_collection_is_resumed(world: World, fake: FakeEndpoint) -> None:
    stuck = threading.Event()
    fake.before_answer = lambda asked: asked <= 2 or stuck.wait(30)
    running = world.start("palestra", *collect(world, fake, "--concurrency", "1"))
    until(lambda: fake.asked >= 3)
    running.process.kill()
    running.ended(timeout_s=5)
    stuck.set()
    done = world.run("palestra", *collect(world, fake, "--resume"))

    assert done.code == 0, done.err
    assert keys(world) == [0, 1, 2, 3, 4]


def test_a_stopped_evaluation_goes_on_as_it_says(world: World, fake: FakeEndpoint) -> None:
    stuck = threading.Event()
    fake.before_answer = lambda asked: asked <= 2 or stuck.wait(30)
    world.write("my_env.py", MY_ENV)
    command = ["eval", "my_env.py", "--model", "openai:tiny", "--repeats", "4", *fake.policy]
    running = world.start("palestra", *command, "--concurrency", "1")
    until(lambda: fake.asked >= 3)
    running.interrupt()

    assert running.ended(timeout_s=5) == 130
    stuck.set()
    said = running.text()
    resume = said[said.index("--output") : said.index(" goes on from there")].split()
    done = world.run("palestra", *command, *resume)
    assert done.code == 0, done.err
    assert "requested 4 = scored 4 + failed 0" in done.out


def test_a_changed_sampling_is_not_resumed(world: World, fake: FakeEndpoint) -> None:
    assert world.run("palestra", *collect(world, fake)).code == 0
    hotter = "++responses_create_params.temperature=1.5"
    done = world.run("palestra", *collect(world, fake, "--resume", hotter))

    assert "responses_create_params.temperature: absent -> 1.5" in done.refused()


def test_another_endpoint_may_finish_a_run(world: World, fake: FakeEndpoint) -> None:
    assert world.run("palestra", *collect(world, fake)).code == 0
    elsewhere = f"++policy_base_url={fake.url}/"
    done = world.run("palestra", *collect(world, fake, "--resume", elsewhere))

    assert done.code == 0, done.err
    assert "resuming: 5 of 5 rollouts have ended already" in done.err


def test_the_fields_command_starts_afresh_and_keeps_the_old_files(
    world: World, fake: FakeEndpoint
) -> None:
    command = [
        *("ng_collect_rollouts", f"+config_paths=[{MULTI_STEP},{OPENAI}]", world.head),
        *(*fake.policy, f"+agent_name={AGENT}", f"+input_jsonl_fpath={TASKS}"),
        *("+output_jsonl_fpath=rollouts.jsonl", "+limit=1"),
    ]
    first, second = world.run(*command), world.run(*command)

    assert (first.code, second.code) == (0, 0), second.err
    assert "moved 4 files of an earlier run to <name>.bak" in second.err
    assert len(world.rows("rollouts.jsonl.bak")) == len(world.rows("rollouts.jsonl")) == 1


def test_no_engine_outlives_its_evaluation(world: World) -> None:
    if reason := without_engine():
        pytest.skip(reason)
    world.write("my_env.py", MY_ENV)
    running = world.start("palestra", "eval", "my_env.py", "--model", "local", "--repeats", "50")
    running.until("50 rollouts of 1 task")
    engines = running.children()
    running.interrupt()

    assert running.ended(timeout_s=5) == 130
    assert engines
    assert [pid for pid in engines if alive(pid)] == []


def test_more_in_flight_than_the_process_may_open_files_is_refused(
    world: World, fake: FakeEndpoint
) -> None:
    limited = ["/bin/sh", "-c", 'ulimit -n 300; exec "$@"', "sh", str(SCRIPTS / "palestra")]
    done = world.run(*limited, *collect(world, fake, "--repeats", "20", "--concurrency", "90"))

    assert "90 rollouts in flight need about 346 open files" in done.refused()
    assert fake.asked == 0
    assert world.files() == []


def test_each_cause_of_a_failure_class_has_a_line_at_the_end(world: World) -> None:
    world.write(
        "my_env.py",
        "from palestra import environment\n"
        "@environment(data=[{'n': n} for n in range(4)], prompt='{n}')\n"
        "def verify(answer, n):\n"
        "    raise ValueError(f'no {n}' if n else 'no number')\n",
    )
    with scripted_endpoint(*["1"] * 8) as endpoint:
        done = world.run("palestra", "eval", "my_env.py", "--model", f"vllm:{endpoint.url}")

    lines = [line for line in done.err.splitlines() if line.startswith("verifier_error: ")]
    assert len(lines) == 2
    assert re.search(r"no \d", lines[0])  # of the three alike, the one that failed first
    assert "no number" in lines[1]
