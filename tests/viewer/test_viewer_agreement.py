"""A page agrees with itself, with the commands that it prints, and with what the files hold."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from viewer_world import HOST, World, viewing

from listed_runs import SEMANTICS, answered, failure, write_run
from palestra import api
from palestra.analysis import RateBand, SelectionCriteria
from palestra.cluster import Standing
from palestra.rollouts import Manifest, ShardOf
from palestra.schema import RunPaths
from palestra.viewer.access import Access
from palestra.viewer.pages.clusters import tone_of
from palestra.viewer.serving import Door, allowed_hosts, shown_host
from profiled_runs import Run, lines, materialized, scored


@pytest.fixture(autouse=True)
def _no_run_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run-dir"))


def with_output(output: Sequence[Any], **fields: Any) -> dict[str, Any]:
    params = {"input": [{"role": "user", "content": "q"}]}
    return scored(0, 0, 1.0, response={"output": output}, responses_create_params=params) | fields


def talk(count: int, last: str) -> list[dict[str, Any]]:
    message = {"type": "message", "role": "assistant"}
    texts = ["same"] * (count - 1) + [last]
    return [message | {"content": [{"type": "output_text", "text": text}]} for text in texts]


# Two rollouts


def test_a_difference_after_the_first_page_is_on_the_next(tmp_path: Path) -> None:
    rows = [with_output(talk(150, last), _ng_task_index=at) for at, last in enumerate("ab")]
    output = write_run(tmp_path / "a", rows, requested=2)
    with viewing(output, cache=tmp_path / "cache") as world:
        sides = {"a": f"{world.run_id}/0/0", "b": f"{world.run_id}/1/0"}
        first = world.get("/api/diff", **sides)
        second = world.get("/api/diff", **sides, start=first["limit"])

    assert all(item["same"] for item in first["items"])
    assert first["start"] + len(first["items"]) < first["total"]
    assert second["start"] + len(second["items"]) == second["total"]
    assert not second["items"][-1]["same"]


def test_what_an_item_shows_is_found_and_compared(tmp_path: Path) -> None:
    call = {"type": "mcp_call", "arguments": "{}", "output": "RESULT Y"}
    rows = [with_output([call]), with_output([call | {"output": "RESULT X"}], _ng_task_index=1)]
    output = write_run(tmp_path / "a", rows, requested=2)
    with viewing(output, cache=tmp_path / "cache") as world:
        hits = world.get("/api/r/RUN/t/0/0/find", text="RESULT")["hits"]
        sides = {"a": f"{world.run_id}/0/0", "b": f"{world.run_id}/1/0"}
        items = world.get("/api/diff", **sides)["items"]

    assert len(hits) == 1
    assert [item["same"] for item in items] == [True, False]


def test_reasoning_is_searched_in_summary_and_content(tmp_path: Path) -> None:
    reasoning = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long"}],
    }
    output = write_run(tmp_path / "a", [with_output([reasoning])], requested=1)
    with viewing(output, cache=tmp_path / "cache") as world:
        found = [
            world.get("/api/r/RUN/t/0/0/find", text=word)["hits"] for word in ("short", "long")
        ]

    assert [len(hits) for hits in found] == [1, 1]


def test_a_task_whose_name_has_a_slash_can_be_compared(tmp_path: Path) -> None:
    rows = [answered(0, 1.0, text) | {"_ng_rollout_index": at} for at, text in enumerate("ab")]
    rows = [row | {"_ng_task_index": "a/b,c"} for row in rows]
    inputs = [materialized("a/b,c", at) for at in range(2)]
    output = Run.write(tmp_path, rows, inputs=inputs).paths.output
    with viewing(output, cache=tmp_path / "cache") as world:
        sides = {side: f"{world.run_id}/a%2Fb%2Cc/{at}" for at, side in enumerate("ab")}
        diff = world.get("/api/diff", **sides)

    assert diff["a"]["task"] == "a/b,c"


# Numbers


def test_all_rows_are_in_the_same_bins_as_the_rows_that_match(tmp_path: Path) -> None:
    rows = [scored(task, 0, task / 100) for task in range(100)]
    output = Run.write(tmp_path, rows).paths.output
    with viewing(output, cache=tmp_path / "cache") as world:
        everything = world.get("/api/r/RUN/histograms", fields="reward")["histograms"][0]
        some = world.get("/api/r/RUN/histograms", fields="reward", q="reward<0.5")["histograms"][0]

    assert everything["counts"] == everything["all_counts"] == some["all_counts"]
    assert sum(some["counts"]) == 50


def test_answers_are_counted_over_the_whole_group(tmp_path: Path) -> None:
    rows = [
        answered(0, float(at % 2), "right" if at % 2 else "wrong") | {"_ng_rollout_index": at}
        for at in range(130)
    ]
    inputs = [materialized(0, at) for at in range(130)]
    output = Run.write(tmp_path, rows, inputs=inputs).paths.output
    with viewing(output, cache=tmp_path / "cache") as world:
        answers = world.get("/api/r/RUN/t/0")["answers"]

    assert [(a["answer"], a["count"], a["mean_reward"]) for a in answers] == [
        ("wrong", 65, 0.0),
        ("right", 65, 1.0),
    ]


def test_an_open_rollout_has_no_neighbours_among_rows_that_were_not_read(tmp_path: Path) -> None:
    rows = [answered(task, 1.0, "needle" if task == 1 else "hay") for task in range(3)]
    output = write_run(tmp_path / "a", rows, requested=3)
    with viewing(output, cache=tmp_path / "cache") as world:
        head = world.get("/api/r/RUN/t/1/0", q="text:needle")

    assert (head["previous"], head["next"]) == (None, None)


# Failures


@pytest.mark.parametrize("message", ["\ud800 went wrong", "plain"])
def test_every_failed_attempt_of_the_table_is_on_the_failures_page(
    tmp_path: Path, message: str
) -> None:
    rows = [failure(0, message, elapsed_s=float("nan"))]
    output = write_run(tmp_path / "a", [answered(1, 1.0)], requested=2, failures=rows)
    with viewing(output, cache=tmp_path / "cache") as world:
        tree = world.get("/api/r/RUN/failures")
        table = world.get("/api/r/RUN/rollouts", q="outcome:verifier_error")

    assert (tree["attempts"], table["matches"]) == (1, 1)


def test_rare_messages_are_counted_and_not_explained(tmp_path: Path) -> None:
    rows = [failure(task, f"message {task}") for task in range(130)]
    output = write_run(tmp_path / "a", [], requested=130, failures=rows)
    with viewing(output, cache=tmp_path / "cache") as world:
        [by_class] = world.get("/api/r/RUN/failures")["nodes"]

    [cause] = by_class["nodes"][0]["nodes"]
    assert (len(cause["nodes"]), cause["others"], cause["attempts"]) == (100, 30, 130)


def test_a_row_that_only_python_reads_as_json_has_a_tree(tmp_path: Path) -> None:
    row = answered(0, 1.0) | {"note": float("nan"), "said": "\ud800"}
    output = write_run(tmp_path / "a", [row], requested=1)
    with viewing(output, cache=tmp_path / "cache") as world:
        names = [entry["key"] for entry in world.get("/api/r/RUN/t/0/0/tree")["entries"]]

    assert {"note", "said", "reward"} <= set(names)


# Commands of a run of shards


@pytest.fixture(params=["one folder", "a folder each"])
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a run of two shards: tasks 0 and 1 in the first, 2 to 4 in the second."""
    folder = tmp_path / "run"
    for at, tasks in enumerate((range(2), range(2, 5))):
        rows = [answered(task, float(task % 2)) for task in tasks]
        part = folder if request.param == "one folder" else folder / f"s{at}"
        part.mkdir(parents=True, exist_ok=True)
        inputs = [materialized(task, 0) for task in tasks]
        paths = RunPaths(part / f"s{at}.jsonl")
        paths.output.write_text(lines(rows))
        paths.materialized_inputs.write_text(lines(inputs))
        manifest = Manifest("digest", SEMANTICS, len(rows), len(rows), "0.1.0", started_at=0.0)
        shard = ShardOf(at, 2, 5, 5)
        replace(manifest, shard=shard).write(paths.manifest, ended_counts={"scored": len(rows)})
    return folder


def test_the_command_of_select_is_about_all_shards(shards: Path, tmp_path: Path) -> None:
    with viewing(shards, cache=tmp_path / "cache") as world:
        page = world.get("/api/r/RUN/select", low=0, high=1)
    words = shlex.split(page["command"])

    assert page["total"] == 5
    assert len(api.select(words[2], SelectionCriteria(band=RateBand(0, 1))).tasks) == 5


def test_reverify_names_the_shard_that_holds_the_row(shards: Path, tmp_path: Path) -> None:
    with viewing(shards, cache=tmp_path / "cache") as world:
        lines = world.get("/api/r/RUN/t/4/0/commands")["commands"]

    [command] = [line["value"] for line in lines if line["name"] == "reverify"]
    assert any(word.endswith("s1.jsonl") for word in shlex.split(command))


def test_a_run_of_shards_is_called_as_the_folder_of_all(shards: Path, tmp_path: Path) -> None:
    with viewing(shards, cache=tmp_path / "cache") as world:
        assert world.get("/api/r/RUN")["run"]["name"] == "run"


def test_the_page_counts_a_shard_that_left_no_files(shards: Path, tmp_path: Path) -> None:
    for file in shards.rglob("s1*.json*"):
        file.unlink()
    with viewing(shards, cache=tmp_path / "cache") as world:
        line, figures = world.get("/api/r/RUN")["run"], world.get("/api/r/RUN/figures")

    assert (line["state"], line["failed"], line["requested"]) == ("stopped", 0, 5)
    assert any("shard 1 of 2" in notice for notice in figures["figures"]["notices"])
    [coverage] = [f for f in figures["figures"]["key_figures"] if f["name"] == "Coverage"]
    assert "of 5" in coverage["note"]


# Two runs


def compared(tmp_path: Path) -> tuple[Path, Path]:
    a = [answered(task, 1.0) for task in range(3)]
    b = [answered(task, float(task)) for task in range(3)]
    first = write_run(tmp_path / "a", a, requested=3)
    second = write_run(tmp_path / "b", b, requested=3)
    inputs = second.with_name("rollouts_materialized_inputs.jsonl")
    rows = [json.loads(line) for line in inputs.read_text().splitlines()]
    rows[2]["responses_create_params"]["input"][0]["content"] = "another question"
    inputs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return first, second


def both(world: World) -> str:
    a, b = (place.id for place in world.catalog.places)
    return f"/api/c/{a}/{b}"


def test_the_table_has_the_tasks_that_are_compared(tmp_path: Path) -> None:
    with viewing(*compared(tmp_path), cache=tmp_path / "cache") as world:
        page = world.get(both(world), unmatched="true")
        table = world.get(f"{both(world)}/tasks", unmatched="true")
        anyway = world.get(f"{both(world)}/tasks", different_rows="true")

    assert page["tasks"] == table["total"] == 2
    assert anyway["total"] == 3


@pytest.mark.parametrize("sort", ["a.mean", "-b.mean", "task", "-delta", "a.n"])
def test_compared_tasks_are_sorted_by_every_field_of_a_task(tmp_path: Path, sort: str) -> None:
    with viewing(*compared(tmp_path), cache=tmp_path / "cache") as world:
        table = world.get(f"{both(world)}/tasks", sort=sort)

    assert len(table["tasks"]) == 2
    if sort == "-b.mean":
        assert [task["b"] for task in table["tasks"]] == [1.0, 0.0]


# Where it answers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "FE80::1", "Box.Example", "10.0.0.7"])
def test_the_address_that_is_printed_is_answered(host: str) -> None:
    access = Access("t", allowed_hosts(Door(host=host)))

    assert access.refusal("GET", "/", [("host", f"{shown_host(host)}:7717")]) is None
    assert access.refusal("GET", "/", [("host", "rebound.example:7717")]) is not None
    assert access.refusal("GET", "/", [("host", HOST)]) is None


@pytest.mark.parametrize(
    ("standing", "tone"),
    [
        (Standing.DONE, "good"),
        (Standing.RUNNING, "open"),
        (Standing.NOT_SUBMITTED, "open"),
        (Standing.CANCELLED, "bad"),
        (Standing.NEVER_STARTS, "bad"),
        (Standing.UNKNOWN, "bad"),
    ],
)
def test_a_shard_that_nothing_more_happens_to_is_not_shown_as_open(
    standing: Standing, tone: str
) -> None:
    assert tone_of(standing) == tone


# What helps


def test_the_overview_advises_what_the_diagnosis_advises(tmp_path: Path) -> None:
    failing = failure(1, "the judge answered 429", _ng_failure_class="judge_error")
    rows = [answered(0, 1.0)]
    output = write_run(tmp_path / "a", rows, requested=2, failures=[failing])
    with viewing(output, cache=tmp_path / "cache") as world:
        findings = world.get("/api/r/RUN/figures")["figures"]["findings"]

    [counts] = api.diagnose(str(output)).counts.values()
    assert "--max-attempts" in counts.what_helps
    assert [finding for finding in findings if counts.what_helps in finding["text"]]
