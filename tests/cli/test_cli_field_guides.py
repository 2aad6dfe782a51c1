"""What NeMo Gym's debugging and profiling guides tell their users to search for, is there."""

import json
import re

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, World, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("installed")]

SEARCHED_FOR = (
    r"Request info:",
    r"Request kwargs:",
    r"Response content:",
    r"Hit an exception in \S+ calling an inner server",
    r"\[rollout_collection\] /run failed",
)
"""The words of the debugging guide's own search."""
MATH = "resources_servers/math_with_judge/configs/math_with_judge.yaml"


def rollout(task: int, number: int, answer: str | None, reward: float) -> dict[str, object]:
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": number,
        "responses_create_params": {"input": f"question {task}"},
        "response": {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": []},
        "extracted_answer": answer,
        "reward": reward,
    }


def written(world: World, name: str, votes: list[tuple[str, float]]) -> None:
    """A run of one task, with an answer and its reward for each rollout."""
    rows = [rollout(0, number, *vote) for number, vote in enumerate(votes)]
    inputs = [
        {
            key: row[key]
            for key in ("_ng_task_index", "_ng_rollout_index", "responses_create_params")
        }
        | {"agent_ref": {"type": "responses_api_agents", "name": "a"}}
        for row in rows
    ]
    world.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    world.write(
        f"{name}_materialized_inputs.jsonl", "".join(json.dumps(row) + "\n" for row in inputs)
    )


VOTES = [("4", 1.0), ("4", 1.0), ("5", 0.0), ("4", 1.0)]


def test_profile_shows_majorities(world: World) -> None:
    written(world, "run", VOTES)

    done = world.run("palestra", "profile", "run.jsonl")

    assert done.code == 0, done.err
    assert "maj@2 0.750, maj@4 1.000" in done.out


def test_profile_says_nothing_of_votes_where_no_answers_are_extracted(world: World) -> None:
    written(world, "run", VOTES)
    text = (world.folder / "run.jsonl").read_text()
    world.write("run.jsonl", re.sub(r'"extracted_answer": "\d", ', "", text))

    assert "maj@" not in world.run("palestra", "profile", "run.jsonl").out


@pytest.mark.parametrize(("flags", "score"), [((), "75.00"), (("--fractions",), "0.7500")])
def test_scores_are_in_percent_or_in_fractions(
    world: World, flags: tuple[str, ...], score: str
) -> None:
    written(world, "run", VOTES)

    done = world.run("palestra", "scores", "model=run.jsonl", *flags)

    assert done.code == 0, done.err
    assert "maj@4" in done.out
    (line,) = [line for line in done.out.splitlines() if line.strip().startswith("model ")][1:]
    assert score in line


def test_the_debugging_guides_search_finds_its_words(world: World, fake: FakeEndpoint) -> None:
    fake.status, fake.body = 400, {"error": {"message": "no such thing", "type": "bad"}}

    done = world.run(
        "palestra",
        "collect",
        *("--config", MULTI_STEP, "--config", OPENAI, "--agent", AGENT),
        *("--input", TASKS, "--output", "out/run.jsonl", "--limit", "1"),
        *fake.policy,
        "++global_aiohttp_client_request_debug=True",
    )

    log = done.out + done.err
    assert [words for words in SEARCHED_FOR if not re.search(words, log)] == []
    assert '"openapi":' not in log


def test_a_servers_profile_begins_with_its_own_verifier(world: World, fake: FakeEndpoint) -> None:
    running = world.start(
        "ng_run",
        f"+config_paths=[{MATH},{OPENAI}]",
        *fake.policy,
        world.head,
        "+profiling_enabled=true",
        "+profiling_results_dirpath=results/profiling",
    )
    running.until("servers ready!")
    done = world.run(
        "ng_collect_rollouts",
        "+agent_name=math_with_judge_simple_agent",
        "+input_jsonl_fpath=resources_servers/math_with_judge/data/example.jsonl",
        "+output_jsonl_fpath=results/rollouts.jsonl",
        world.head,
    )
    assert done.code == 0, done.err

    running.interrupt()
    running.ended(timeout_s=30)

    log = world.folder / "results/profiling/math_with_judge.log"
    first, second, *_ = log.read_text().splitlines()
    assert first.split() == ["name", "ncall", "tsub", "ttot", "tavg"]
    assert re.match(r"\S+/math_with_judge/app\.py:\d+ MathWithJudgeServer\.verify +5 ", second)
    everything = log.with_name("math_with_judge.all.log").read_text()
    assert len(everything.splitlines()) > len(log.read_text().splitlines())
    until(lambda: str(log) in running.text(), timeout_s=5)
