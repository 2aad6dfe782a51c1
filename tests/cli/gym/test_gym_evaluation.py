"""`gym env start`, `env status`, `eval run`, `eval profile`, `eval aggregate` and `eval reverify`
together.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_world import AGENT, KEY, MULTI_STEP, TASKS, Done, FakeEndpoint, World, reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

SERVER = "example_multi_step"


def model(fake: FakeEndpoint) -> tuple[str, ...]:
    """The flags that choose the endpoint as the model."""
    return (
        *("--model-type", "openai_model", "--model", "tiny"),
        *("--model-url", fake.url, "--model-api-key", KEY),
    )


def gym(world: World, *words: str) -> Done:
    return world.run("palestra", "gym", *words, timeout_s=150)


def test_servers_start_answer_collect_and_profile(world: World, fake: FakeEndpoint) -> None:
    fleet = world.start(
        *("palestra", "gym", "env", "start", "--resources-server", SERVER, *model(fake)),
        world.head,
    )
    fleet.until("servers ready!")
    status = gym(world, "env", "status", "--json", world.head)
    assert [item["state"] for item in json.loads(status.out)] == ["healthy"] * 3
    collected = gym(
        world,
        *("eval", "run", "--no-serve", "--agent", AGENT, "--input", TASKS),
        *("--output", "out/rollouts.jsonl", "--num-repeats", "2", "--concurrency", "4"),
        *("--max-output-tokens", "8", world.head),
    )
    assert collected.code == 0, collected.err
    assert "requested 10 = scored 10" in collected.out
    profiled = gym(
        world,
        *("eval", "profile", "--inputs", "out/rollouts_materialized_inputs.jsonl"),
        *("--rollouts", "out/rollouts.jsonl", "--json"),
    )
    assert profiled.code == 0, profiled.err
    assert json.loads(profiled.out)["scored"] == 10
    assert {"out/rollouts_reward_profiling.jsonl", "out/rollouts_agent_metrics.json"} < set(
        world.files()
    )
    merged = gym(
        world,
        *("eval", "aggregate", "-i", "out/rollouts.jsonl", "-o", "all/rollouts.jsonl", world.head),
    )
    assert merged.code == 0, merged.err
    assert "all/rollouts_aggregate_metrics.json" in world.files()
    fleet.interrupt()
    assert fleet.ended(timeout_s=10) == 0


def test_start_waits_for_the_endpoint_of_the_model(world: World) -> None:
    fleet = world.start(
        *("palestra", "gym", "env", "start", "--resources-server", SERVER),
        *("--model-type", "openai_model", "--model", "tiny"),
        *("--model-url", "http://127.0.0.1:9/v1", "--model-api-key", KEY, world.head),
        "+model_endpoint_readiness_timeout_seconds=2",
    )

    assert fleet.ended(timeout_s=60) == 1
    assert "servers ready!" not in fleet.text()
    assert "has no endpoint after 2 s" in fleet.text()


def test_no_serve_starts_no_server(world: World, fake: FakeEndpoint) -> None:
    done = gym(
        world,
        *("eval", "run", "--no-serve", "--resources-server", SERVER, *model(fake)),
        *("--agent", AGENT, "-i", TASKS, "-o", "out/rollouts.jsonl", world.head),
    )

    assert done.code == 1
    assert "not running" in done.err
    assert fake.asked == 0


@pytest.mark.parametrize("rows", ["{}\n", '{"responses_create_params": {"input": "q"}}\n{}\n'])
def test_rows_that_cannot_be_used_are_refused_before_a_model_is_asked(
    world: World, fake: FakeEndpoint, rows: str
) -> None:
    world.write("tasks.jsonl", rows)

    done = gym(
        world,
        *("eval", "run", "--resources-server", SERVER, *model(fake), "--agent", AGENT),
        *("--input", "tasks.jsonl", "--output", "out/rollouts.jsonl", world.head),
    )

    assert "no `responses_create_params`" in done.refused()
    assert (fake.asked, world.files()) == (0, ["tasks.jsonl"])


def write_dataset(world: World) -> str:
    """A config whose agent has the example tasks as its benchmark; return its name."""
    rows = Path("benchmarks/steps/rows.jsonl")
    (world.folder / rows.parent).mkdir(parents=True)
    source = Path(__file__).parents[3] / "src/palestra" / TASKS
    if not source.is_file():
        import palestra

        source = Path(palestra.__path__[0]) / TASKS
    shutil.copyfile(source, world.folder / rows)
    world.write(
        "benchmarks/steps/config.yaml",
        f"""
config_paths: [{MULTI_STEP}]
{AGENT}:
  responses_api_agents:
    simple_agent:
      datasets:
      - {{name: steps, type: benchmark, jsonl_fpath: {rows}, num_repeats: 2}}
""",
    )
    return "steps"


def run_split(world: World, fake: FakeEndpoint, *words: str) -> Done:
    return gym(
        world,
        *("eval", "run", "--benchmark", write_dataset(world), *model(fake)),
        *("--split", "benchmark", "-o", "out/rollouts.jsonl", world.head, *words),
    )


def test_a_split_is_collated_and_collected(world: World, fake: FakeEndpoint) -> None:
    done = run_split(world, fake, "--json")

    assert done.code == 0, done.err
    run = json.loads(done.out)
    assert (run["outcomes"], run["requested"]) == ({"scored": 10}, 10)
    collated = world.rows("out/rollouts/preprocessed_datasets/benchmark.jsonl")
    assert {row["agent_ref"]["name"] for row in collated} == {AGENT}
    keys = {(r["_ng_task_index"], r["_ng_rollout_index"]) for r in world.rows("out/rollouts.jsonl")}
    assert keys == {(task, rollout) for task in range(5) for rollout in range(2)}
    assert "out/rollouts_aggregate_metrics.json" in world.files()


def test_a_config_that_cannot_be_served_is_refused_before_data_are_prepared(
    world: World, fake: FakeEndpoint
) -> None:
    done = run_split(
        world, fake, f"++{AGENT}.responses_api_agents.simple_agent.model_server.name=x"
    )

    assert (done.code, fake.asked) == (1, 0)
    assert "refers to responses_api_models 'x', which does not exist" in done.out
    assert not [name for name in world.files() if name.startswith("out/")]


def test_prepared_data_are_used_again_on_demand(world: World, fake: FakeEndpoint) -> None:
    prepared = world.folder / "out/rollouts/preprocessed_datasets/benchmark.jsonl"
    prepared.parent.mkdir(parents=True)
    row = {
        "responses_create_params": {"input": "hi"},
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "expected_synonyms": [],
        "expected_synonym_values": [],
        "id": 1,
        "minefield_label": "x",
        "minefield_label_value": 1,
    }
    prepared.write_text(json.dumps(row) + "\n")
    done = run_split(world, fake, "+reuse_existing_data_preparation=true")

    assert done.code == 0, done.err
    assert len(world.rows("out/rollouts.jsonl")) == 1


DRIVER = """
import json
from pathlib import Path


async def drive(config):
    rows = Path(config.input_jsonl_fpath).read_text().splitlines()
    Path(config.output_jsonl_fpath).write_text(json.dumps({"rows": len(rows)}) + "\\n")
"""


def test_a_driver_replaces_the_collection(world: World, fake: FakeEndpoint) -> None:
    world.write("my_driver.py", DRIVER)
    done = run_split(world, fake, "+rollout_collection_driver=my_driver:drive")

    assert done.code == 0, done.err
    assert world.rows("out/rollouts.jsonl") == [{"rows": 10}]
    assert fake.asked == 0


def test_a_driver_has_no_document(world: World, fake: FakeEndpoint) -> None:
    done = run_split(world, fake, "+rollout_collection_driver=my_driver:drive", "--json")

    assert (done.code, done.out) == (2, "")
    assert "leave --json out" in done.err


@pytest.mark.parametrize("name", ["my_driver", "my_driver:fly", "not_there:drive"])
def test_a_driver_that_is_not_there_is_an_error(
    world: World, fake: FakeEndpoint, name: str
) -> None:
    world.write("my_driver.py", DRIVER)
    done = run_split(world, fake, f"+rollout_collection_driver={name}")

    assert done.code == 1
    assert done.out.splitlines()[-1].startswith(f"Error: +rollout_collection_driver={name}")


MCQA = "resources_servers/mcqa/configs/mcqa.yaml"


def stored_rows(world: World) -> list[dict[str, Any]]:
    """Stored rollouts of mcqa, whose answers are right."""
    rows = [
        {
            "_ng_task_index": number,
            "_ng_rollout_index": 0,
            "agent_ref": {"type": "responses_api_agents", "name": "mcqa_simple_agent"},
            "responses_create_params": {"input": "Which?"},
            "options": [{"A": "yes"}, {"B": "no"}],
            "expected_answer": "A",
            "reward": 0.0,
            "response": reply(r"\boxed{A}"),
        }
        for number in range(2)
    ]
    write_rows(world, "rollouts.jsonl", rows)
    return rows


def write_rows(world: World, name: str, rows: list[dict[str, Any]]) -> None:
    world.write(name, "".join(json.dumps(row) + "\n" for row in rows))


def reverify(world: World, fake: FakeEndpoint, *words: str) -> Done:
    return gym(
        world,
        *("eval", "reverify", "--resources-server", "mcqa", *_model_of(fake)),
        *("--rollouts", "rollouts.jsonl", *words, world.head),
    )


def _model_of(fake: FakeEndpoint) -> tuple[str, ...]:
    return ("--model-type", "openai_model", *fake.policy)


def test_stored_responses_are_verified_again(world: World, fake: FakeEndpoint) -> None:
    stored_rows(world)
    done = reverify(world, fake, "-o", "again.jsonl", "--json")

    assert done.code == 0, done.err
    assert json.loads(done.out)["verified"] == 2
    assert [row["reward"] for row in world.rows("again.jsonl")] == [1.0, 1.0]
    assert "again_aggregate_metrics.json" in world.files()
    assert fake.asked == 0


def test_a_judge_whose_answers_are_not_stored_is_asked(world: World, fake: FakeEndpoint) -> None:
    [row, _] = stored_rows(world)
    task = {"question": "Which gas?", "expected_answer": "carbon dioxide"}
    agent = {**row["agent_ref"], "name": "equivalence_llm_judge_simple_agent"}
    answered = {**row, **task, "agent_ref": agent, "response": reply(r"\boxed{CO2}")}
    write_rows(world, "rollouts.jsonl", [answered])
    fake.body = reply("[[A=B]]")

    done = gym(
        world,
        *("eval", "reverify", "--resources-server", "equivalence_llm_judge", *_model_of(fake)),
        *("--rollouts", "rollouts.jsonl", "-o", "again.jsonl", "--disable-aggregation", world.head),
    )

    assert done.code == 0, done.err
    assert [row["reward"] for row in world.rows("again.jsonl")] == [1.0]
    assert fake.asked > 0


def test_disabled_aggregation_makes_no_metrics(world: World, fake: FakeEndpoint) -> None:
    stored_rows(world)
    done = reverify(world, fake, "-o", "again.jsonl", "--disable-aggregation", "--limit", "1")

    assert done.code == 0, done.err
    assert len(world.rows("again.jsonl")) == 1
    assert "again_aggregate_metrics.json" not in world.files()


def test_forced_rewards_are_in_a_file_called_unsafe(world: World, fake: FakeEndpoint) -> None:
    stored_rows(world)
    done = reverify(world, fake, "-o", "again.jsonl", "--force", "--disable-aggregation")

    assert done.code == 0, done.err
    assert "again.jsonl" not in world.files()
    assert len(world.rows("unsafe_again.jsonl")) == 2


@pytest.fixture
def judged(world: World) -> World:
    """A run in which the judge of the second rollout failed, and the model of the third."""
    first, second = stored_rows(world)
    write_rows(world, "rollouts.jsonl", [first])
    failure = {**second, "_ng_failure_class": "judge_failed", "_ng_failure_terminal": True}
    other = {**failure, "_ng_task_index": 2, "_ng_failure_class": "sandbox_timeout"}
    write_rows(world, "rollouts_failures.jsonl", [failure, failure, other])
    inputs = [{k: v for k, v in row.items() if k not in {"response", "reward", "_ng_failure_class", "_ng_failure_terminal"}} for row in (first, failure, other)]  # fmt: skip
    write_rows(world, "rollouts_materialized_inputs.jsonl", inputs)
    return world


def test_only_rollouts_whose_judge_failed_are_judged_again(
    judged: World, fake: FakeEndpoint
) -> None:
    words = ("--judge-failed-only", "--disable-aggregation", "--json")
    done = reverify(judged, fake, "-o", "again.jsonl", *words)

    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (Path(document["output"]).name, document["added"]) == ("again.jsonl", 1)
    rows = judged.rows("again.jsonl")
    assert [(row["_ng_task_index"], row["reward"]) for row in rows] == [(0, 0.0), (1, 1.0)]


def test_answers_whose_verification_failed_are_verified_too(
    judged: World, fake: FakeEndpoint
) -> None:
    failed = {**judged.rows("rollouts_failures.jsonl")[0], "_ng_failure_class": "verifier_error"}
    write_rows(judged, "rollouts_failures.jsonl", [failed])

    done = reverify(judged, fake, "-o", "again.jsonl", "--with-failures", "--disable-aggregation")

    assert done.code == 0, done.err
    rows = judged.rows("again.jsonl")
    assert sorted((row["_ng_task_index"], row["reward"]) for row in rows) == [(0, 1.0), (1, 1.0)]


def test_new_rewards_are_appended_to_the_run(judged: World, fake: FakeEndpoint) -> None:
    done = reverify(judged, fake, "--judge-failed-only", "--append", "--disable-aggregation")

    assert done.code == 0, done.err
    again = reverify(judged, fake, "--judge-failed-only", "--append", "--disable-aggregation")
    assert again.code == 0, again.err
    assert [row["_ng_task_index"] for row in judged.rows("rollouts.jsonl")] == [0, 1]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("benchmarks:\n  - steps\n", "jobs.yaml:1: output_path"),
        ("a: 1\nb: [\n", "jobs.yaml, line 2, column 5: "),
    ],
)
def test_a_file_of_benchmarks_that_is_wrong_is_refused_with_its_line(
    world: World, text: str, place: str
) -> None:
    world.write("jobs.yaml", text)

    done = gym(world, "eval", "submit", "-c", "jobs.yaml", "--dry-run")

    assert place in done.out + done.err


def test_a_run_is_submitted_per_benchmark(world: World, fake: FakeEndpoint) -> None:
    write_dataset(world)
    world.write(
        "jobs.yaml",
        f"""
benchmarks: [steps]
output_path: results
job: {{package: none}}
services:
  config_paths: [responses_api_models/openai_model/configs/openai_model.yaml]
  server_address: {fake.url}
  policy_model_name: tiny
  policy_api_key: dummy
""",
    )
    done = gym(world, "eval", "submit", "-c", "jobs.yaml", "--dry-run")

    assert done.code == 0, done.out + done.err
    [folder] = (world.folder / "results").glob("gym-job-*")
    assert (folder / "steps" / "job.sh").is_file()
    assert (folder / "steps" / "artifacts").is_dir()
    assert fake.asked == 0
