"""A model's answer outlives its verifier's bug: kept with the failure, verified once it is mended."""

import html
import re
import shlex
import threading
from pathlib import Path

import pytest
from cli_world import KEY, FakeEndpoint, World, reply, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

BROKEN = """
from palestra import environment

@environment(data=[{"n": n} for n in range(6)], prompt="say done, {n}")
def check(answer: str, n: int) -> float:
    if n % 2:
        raise KeyError(f"the bug of {n}")
    return float(answer == "done")
"""
MENDED = BROKEN.replace("if n % 2", "if False")
EMBEDDED: tuple[str, ...] = ()
IN_PROCESSES = (
    "++my_env.resources_servers.environment_file.placement=process",
    "++my_env_agent.responses_api_agents.environment_agent.placement=process",
)


def evaluated(fake: FakeEndpoint, *overrides: str) -> list[str]:
    model = ["--model", "openai:tiny", *fake.policy]
    return [
        "eval",
        "my_env.py",
        *model,
        "--output",
        "out/h.jsonl",
        "--progress",
        "none",
        *overrides,
    ]


def advised(text: str) -> list[str]:
    """The arguments of the `palestra reverify` that a hint names."""
    [line] = re.findall(r"palestra (reverify .*--environment \S+)", text)
    return shlex.split(line)


@pytest.mark.parametrize("placement", [EMBEDDED, IN_PROCESSES], ids=["embedded", "process"])
def test_answers_that_a_broken_verifier_lost_are_scored_by_the_mended_one(
    world: World, fake: FakeEndpoint, placement: tuple[str, ...]
) -> None:
    world.write("my_env.py", BROKEN)
    done = world.run("palestra", *evaluated(fake, *placement))
    assert done.code == 1, done.err
    asked = fake.asked

    world.write("my_env.py", MENDED)
    again = world.run("palestra", *advised(done.err))

    assert again.code == 0, again.err
    rows = world.rows("out/h_reverified.jsonl")
    assert {row["_ng_task_index"]: row["reward"] for row in rows} == dict.fromkeys(range(6), 1.0)
    assert sorted(row["n"] for row in rows) == list(range(6))
    assert all(row["responses_create_params"] and row["agent_ref"] for row in rows)
    assert fake.asked == asked


def test_who_ran_gym_verifies_again_with_gym(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", BROKEN)
    world.write("rows.jsonl", "".join(f'{{"n": {n}}}\n' for n in range(6)))
    collected = ["eval", "run", "--config", "my_env.py", "--model-type", "openai_model"]
    model = ["--model", "tiny", "--model-url", fake.url, "--model-api-key", KEY]
    files = ["--input", "rows.jsonl", "--output", "out/h.jsonl"]
    done = world.run("palestra", "gym", *collected, *model, *files)
    assert done.code == 1, done.err

    world.write("my_env.py", MENDED)
    [line] = re.findall(r"palestra (gym eval reverify .*) scores 3", done.err)
    again = world.run("palestra", *shlex.split(line))

    assert again.code == 0, again.err
    assert f"palestra {line}" == world.rows("out/h_failures.jsonl")[0]["reverify"]["command"]
    assert [row["reward"] for row in world.rows("out/h_reverified.jsonl")] == [1.0] * 6


def test_eval_profile_report_and_diagnose_name_the_same_remedy(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", BROKEN)
    evaluated_run = world.run("palestra", *evaluated(fake))
    [clause] = re.findall(r"once the verifier .* without the model", evaluated_run.err)

    profiled = world.run("palestra", "profile", "out/h.jsonl")
    diagnosed = world.run("palestra", "diagnose", "out/h.jsonl")
    report = html.unescape((world.folder / "out/h_report.html").read_text())

    assert profiled.code == 2
    assert clause in profiled.err
    assert clause in diagnosed.out
    assert clause in report


def test_each_remedy_has_a_line_of_its_own(world: World, fake: FakeEndpoint) -> None:
    fake.before_answer = lambda asked: setattr(fake, "status", 400 if asked == 1 else 200)
    world.write("my_env.py", BROKEN)
    done = world.run("palestra", *evaluated(fake), "--concurrency", "1")

    hint = done.err[done.err.index("hint: ") :].splitlines()
    assert hint[0].endswith("out/h_failures.jsonl has the reason of each failed rollout")
    assert [line.split()[:2] for line in hint[1:]] == [["once", "the"], ["1", "needs"]]


def test_the_answers_of_a_killed_run_are_in_one_of_its_two_files(
    world: World, fake: FakeEndpoint
) -> None:
    stuck = threading.Event()
    fake.before_answer = lambda asked: asked <= 4 or stuck.wait(60)
    world.write("my_env.py", BROKEN)
    running = world.start("palestra", *evaluated(fake), "--concurrency", "1")
    until(lambda: fake.asked >= 5)
    running.process.kill()
    running.process.wait()
    stuck.set()

    done = world.run("palestra", *evaluated(fake), "--resume")
    scored, failed = world.rows("out/h.jsonl"), world.rows("out/h_failures.jsonl")

    assert done.code == 1, done.err
    assert {row["n"] for row in scored} == {0, 2, 4}
    assert {row["_ng_task_index"] for row in failed} == {1, 3, 5}
    said = reply()["output"][0]["content"]
    assert all(row["response"]["output"][0]["content"] == said for row in (*scored, *failed))


def test_a_resume_refused_for_a_mended_verifier_names_the_command_that_helps(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", BROKEN)
    world.run("palestra", *evaluated(fake))
    world.write("my_env.py", MENDED)

    refused = world.run("palestra", *evaluated(fake), "--resume").refused()

    assert world.run("palestra", *advised(refused)).code == 0
    assert len(world.rows("out/h_reverified.jsonl")) == 6


def test_a_failures_file_alone_becomes_scored_rows(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", BROKEN)
    world.run("palestra", *evaluated(fake))
    world.write("my_env.py", MENDED)
    command = ["reverify", "--environment", "my_env.py", "--output", "new.jsonl"]

    done = world.run("palestra", *command, "--rollouts", "out/h_failures.jsonl")

    assert done.code == 0, done.err
    assert [row["n"] for row in world.rows("new.jsonl")] == [
        row["_ng_task_index"] for row in world.rows("out/h_failures.jsonl")
    ]
    without = world.run("palestra", *command, "--overwrite", "--rollouts", "out/h.jsonl")
    assert "3 of the failed rollouts have the model's answer; --with-failures" in without.err
    assert len(world.rows("new.jsonl")) == 3


def test_nothing_of_an_answer_is_printed(world: World, fake: FakeEndpoint, tmp_path: Path) -> None:
    fake.body = reply("a word that nobody else says")
    world.write("my_env.py", BROKEN)

    done = world.run("palestra", *evaluated(fake, *IN_PROCESSES))

    assert "nobody else says" in (world.folder / "out/h_failures.jsonl").read_text()
    assert "nobody else says" not in done.out + done.err


def test_an_environment_without_rows_is_named_by_its_file(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", BROKEN.replace('[{"n": n} for n in range(6)]', "[]"))

    refused = world.run("palestra", *evaluated(fake)).refused()

    assert re.search(r"my_env\.py:\d+: my_env has no rows", refused)


def test_a_limit_of_no_tasks_runs_none_and_ends_well(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", MENDED)

    done = world.run("palestra", *evaluated(fake), "--limit", "0")

    assert done.code == 0, done.err
    assert "requested 0 = scored 0" in done.out


def test_a_function_named_verify_is_called_by_its_file(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", MENDED.replace("def check", "def verify"))

    done = world.run("palestra", *evaluated(fake))

    assert {row["agent_ref"]["name"] for row in world.rows("out/h.jsonl")} == {"my_env_agent"}
    assert "verify" not in done.out


def test_diagnose_says_which_changed_file_a_resume_would_be_refused_for(
    world: World, fake: FakeEndpoint
) -> None:
    stuck = threading.Event()
    fake.before_answer = lambda asked: asked <= 2 or stuck.wait(60)
    world.write("my_env.py", MENDED)
    running = world.start("palestra", *evaluated(fake), "--concurrency", "1")
    until(lambda: fake.asked >= 3)
    running.interrupt()
    running.ended(timeout_s=20)
    stuck.set()
    before = world.run("palestra", "diagnose", "out/h.jsonl")
    world.write("my_env.py", MENDED.replace("say done", "say it"))

    after = world.run("palestra", "diagnose", "out/h.jsonl")

    refusal = "but is refused with the changed code of my_env (my_env.py)\n"
    resumed = world.run("palestra", *evaluated(fake), "--resume")
    assert refusal not in before.out
    assert refusal in after.out
    assert "code.my_env.my_env.py: it has changed since" in resumed.refused()
