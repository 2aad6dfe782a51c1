"""What the pages say is what the commands say, and what the files hold."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from viewer_world import TOKEN, World, viewing

from listed_runs import COLLECTORS, answered, failure, write_run, write_unfinished
from palestra import api
from palestra.analysis import RateBand, SelectionCriteria, TaskVerdict
from palestra.engine import Accounting, Job
from palestra.records import rollout_record
from palestra.rollouts import Progress, announced
from palestra.schema import RolloutKey, RunPaths
from palestra.viewer import Catalog, Viewer, find_places
from palestra.viewer.access import Access
from palestra.viewer.app import make_app
from palestra.viewer.export import export
from palestra.viewer.pages.differences import differences
from palestra.viewer.requests import row_of
from profiled_runs import Run, materialized, scored


@pytest.fixture(autouse=True)
def _no_run_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run-dir"))


def repeated(folder: Path, *rewards: tuple[float, ...]) -> Path:
    """A run of one task for each tuple, with one rollout for each reward."""
    rows = [
        answered(task, reward, tokens=10 + task) | {"_ng_rollout_index": rollout}
        for task, group in enumerate(rewards)
        for rollout, reward in enumerate(group)
    ]
    inputs = [
        materialized(task, rollout)
        for task, group in enumerate(rewards)
        for rollout, _ in enumerate(group)
    ]
    folder.mkdir(parents=True)
    return Run.write(folder, rows, inputs=inputs).paths.output


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return repeated(tmp_path / "a", (1, 1, 1, 1), (0, 1, 0, 1), (0, 0, 0, 0), (0, 0, 0, 1))


@pytest.fixture
def world(tmp_path: Path, output: Path) -> Iterator[World]:
    with viewing(output.parent, cache=tmp_path / "cache") as world:
        yield world


# The commands


def test_the_figures_are_those_of_profile(world: World, output: Path) -> None:
    profile = api.profile(output)
    figures = world.get("/api/r/RUN/figures")["figures"]

    mean = profile.mean_reward
    assert mean is not None
    assert figures["key_figures"][0]["value"] == f"{mean.value:.3f}"
    assert figures["groups"][0]["mean_reward"] == {
        "value": mean.value,
        "low": mean.low,
        "high": mean.high,
    }
    assert [s["count"] for s in figures["solved"]] == [1, 2, 1]


def test_the_sentences_and_bars_are_those_of_the_report(world: World, output: Path) -> None:
    api.profile(output)
    report = RunPaths(output).report.read_text()
    figures = world.get("/api/r/RUN/figures")["figures"]

    texts = [t for f in figures["findings"] for t in (f["head"], f["text"])]
    texts += [f["value"] for f in figures["key_figures"]]
    assert [text for text in texts if text not in report] == []


def test_each_bar_leads_to_what_it_counts(world: World) -> None:
    figures = world.get("/api/r/RUN/figures")["figures"]
    bars = [*figures["pass_rates"], *figures["rewards"]]

    counted = [
        world.get(f"/api/r/RUN/{bar['of']}", q=bar["query"])["matches"]
        for bar in bars
        if bar["count"]
    ]
    assert counted == [bar["count"] for bar in bars if bar["count"]]


def test_select_chooses_what_the_command_chooses(world: World, output: Path) -> None:
    chosen = api.select(str(output), SelectionCriteria(RateBand(0.3, 0.7), min_rollouts=2))
    page = world.get("/api/r/RUN/select", low=0.3, high=0.7, min_rollouts=2)

    kept = [task["task"] for task in page["tasks"] if task["verdict"] == "kept"]
    assert kept == [chosen.tasks[at].task for at in chosen.kept] == [1]
    assert f"{output} --band 0.3..0.7 --min-rollouts 2" in page["command"]


def test_select_counts_borderline_tasks_as_the_command_does(world: World, output: Path) -> None:
    chosen = api.select(str(output), SelectionCriteria(RateBand(0.25, 0.7)))
    page = world.get("/api/r/RUN/select", low=0.25, high=0.7)

    kept, *_ = page["verdicts"]
    unsure = chosen.borderline(TaskVerdict.KEPT)
    assert (kept["borderline"], kept["more_rollouts"]) == (unsure.count, unsure.more_rollouts)
    assert kept["on_edge"] == unsure.on_edge == 1


def test_select_counts_the_failures_that_it_leaves_out(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=[materialized(0, 0), materialized(0, 1)])
    with viewing(run.paths.output, cache=tmp_path / "cache") as world:
        page = world.get("/api/r/RUN/select")

    assert page["failures"] == [{"name": "never ended", "count": 1}]


def test_select_says_when_its_command_needs_overwrite(world: World, output: Path) -> None:
    before = world.get("/api/r/RUN/select")
    file = output.with_name("rollouts_selected.jsonl")
    file.write_text("{}\n")
    after = world.get("/api/r/RUN/select")

    assert str(file) in before["command"]
    assert before["command_note"].startswith("Run a second time it needs --overwrite")
    assert after["command_note"].startswith(f"{file.name} exists already: add --overwrite")


def test_select_lists_the_kept_tasks_first(world: World) -> None:
    page = world.get("/api/r/RUN/select", low=0.2, high=0.7)

    assert [task["task"] for task in page["tasks"]] == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("reward", "answer"), [(1, "B is better"), (0.5, "no significant"), (0, "B is worse")]
)
def test_a_comparison_answers_whether_b_is_better(
    tmp_path: Path, reward: float, answer: str
) -> None:
    a = repeated(tmp_path / "a", *[(0.5, 0.5)] * 30)
    b = repeated(tmp_path / "b", *[(reward, reward)] * 30)
    with viewing(a, b, cache=tmp_path / "cache") as world:
        first, second = (place.id for place in world.catalog.places)
        page = world.get(f"/api/c/{first}/{second}")

    assert page["verdict"].startswith(answer)


def test_a_comparison_is_that_of_the_command(tmp_path: Path, output: Path) -> None:
    other = repeated(tmp_path / "b", (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0))
    expected = api.compare(output, other)
    with viewing(output, other, cache=tmp_path / "cache") as world:
        a, b = (place.id for place in world.catalog.places)
        page = world.get(f"/api/c/{a}/{b}")
        tasks = world.get(f"/api/c/{a}/{b}/tasks")["tasks"]

    assert (page["tasks"], page["better"], page["worse"]) == (4, expected.better, expected.worse)
    difference = expected.reward.difference
    assert page["metrics"][0]["difference"] == {
        "value": difference.value,
        "low": difference.low,
        "high": difference.high,
    }
    assert [task["task"] for task in tasks][:1] == [expected.regressions[0].task]
    assert tasks[0]["a_rewards"] == [1.0, 0.0, 0.0, 0.0]


def test_the_list_is_that_of_runs(world: World, output: Path) -> None:
    entry = api.run_entry(output)
    line = world.get("/api/r/RUN")["run"]

    assert (line["scored"], line["requested"]) == (entry.scored, entry.requested)
    assert line["mean_reward"]["value"] == entry.mean_reward


def listed(world: World) -> Any:
    """The line of the only run in the list, when its files were read."""
    deadline = time.monotonic() + 20
    while (line := world.get("/api/runs")["runs"][0])["problem"] == "its files are being read":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return line


def test_a_run_without_a_manifest_is_listed_by_what_its_files_hold(
    world: World, output: Path
) -> None:
    line = listed(world)

    assert (line["scored"], line["requested"], line["problem"]) == (16, 16, "")
    mean = api.profile(output).mean_reward
    assert mean is not None
    assert line["mean_reward"]["value"] == mean.value


def test_rows_without_inputs_are_counted_and_said_to_lack_them(tmp_path: Path) -> None:
    output = repeated(tmp_path / "a", (1, 0))
    RunPaths(output).materialized_inputs.unlink()
    with viewing(output, cache=tmp_path / "cache") as world:
        line = listed(world)

    assert (line["scored"], line["requested"], line["mean_reward"]["value"]) == (2, 2, 0.5)
    assert "inputs" in line["problem"]


def test_failures_are_grouped_and_explained_as_diagnose_does(tmp_path: Path) -> None:
    kept = {"response": {"output": []}}
    failures = [failure(1, "no number", **kept), failure(2, "no number"), failure(3, "another")]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=4, failures=failures)
    expected = api.diagnose(str(output))
    with viewing(output, cache=tmp_path / "cache") as world:
        tree = world.get("/api/r/RUN/failures")

    assert [f["cause"] for f in tree["findings"]] == [f.cause for f in expected.findings]
    messages = tree["nodes"][0]["nodes"][0]["nodes"][0]["nodes"]
    assert [(m["name"], m["attempts"]) for m in messages] == [("no number", 2), ("another", 1)]
    assert [(row["task"], row["kept"]) for row in messages[0]["rows"]] == [(1, True), (2, False)]


@pytest.mark.parametrize(("collector", "resume"), COLLECTORS.items())
def test_advice_is_for_the_program_that_collected_the_run(
    tmp_path: Path, collector: str, resume: str
) -> None:
    output = write_unfinished(tmp_path / "a", collector)
    with viewing(output, cache=tmp_path / "cache") as world:
        tree = world.get("/api/r/RUN/failures")
        attempts = world.get("/api/r/RUN/t/1/0/attempts")
        remarks = world.get("/api/r/RUN/figures")["figures"]["findings"]
        times = world.get("/api/r/RUN/t/0/0/times")["absent"]
    diagnosis = api.diagnose(str(output))

    actions = [attempts["next_action"], tree["nodes"][0]["nodes"][0]["nodes"][0]["next_action"]]
    assert all(action.startswith(f"{resume} with") for action in actions)
    assert f"{resume} with a higher" in " ".join(remark["text"] for remark in remarks)
    assert [f["next_action"] for f in tree["findings"]] == [
        finding.next_action for finding in diagnosis.findings
    ]
    assert ("--json-events" in times) is collector.startswith("palestra")


@pytest.mark.parametrize(("collector", "resume"), COLLECTORS.items())
def test_an_export_has_advice_for_the_program_that_collected_the_run(
    tmp_path: Path, collector: str, resume: str
) -> None:
    output = write_unfinished(tmp_path / "a", collector)
    page = tmp_path / "page.html"
    with viewing(output, cache=tmp_path / "cache") as world:
        run = world.catalog.run(world.run_id)
        rows = run.snapshot.rollouts.select("has:class")
        export(run, run.snapshot, rows, page, query="", mask=str)

    assert f"hint: {resume} with" in page.read_text()


def test_the_tree_has_the_layer_and_the_cause_of_the_diagnosis(tmp_path: Path) -> None:
    failures = [
        failure(1, "the judge answered 429", _ng_failure_class="judge_error"),
        failure(2, "took 5 s", _ng_failure_class="timeout", hint="raise the timeout"),
    ]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=3, failures=failures)
    with viewing(output, cache=tmp_path / "cache") as world:
        tree = world.get("/api/r/RUN/failures")
        attempts = world.get("/api/r/RUN/t/1/0/attempts")
        listed = world.get("/api/r/RUN/rollouts", q=tree["nodes"][0]["nodes"][0]["query"])
        facets = world.get("/api/r/RUN/facets")["facets"]
    [facet] = [facet for facet in facets if facet["field"] == "layer"]
    [record] = rollout_record([output], 1, 0).attempts

    judge, timeout = tree["nodes"]
    [layer] = judge["nodes"]
    [cause] = layer["nodes"]
    finding = next(f for f in tree["findings"] if f["task"] == 1)
    assert (layer["name"], cause["name"]) == (finding["layer"], finding["cause"])
    assert cause["next_action"] == finding["next_action"] == attempts["next_action"]
    assert attempts["attempts"][0]["layer"] == finding["layer"]
    assert layer["query"] == "class:judge_error layer:throughput/resources"
    assert listed["matches"] == 1
    assert finding["layer"] in {value["name"] for value in facet["values"]}
    assert (record.layer, finding["layer"]) == ("throughput/resources", "throughput/resources")
    assert timeout["nodes"][0]["nodes"][0]["next_action"] == "raise the timeout"


def test_a_run_is_named_by_its_folder_before_what_it_is(world: World) -> None:
    page = world.get("/api/r/RUN")

    assert page["title"].split(" · ")[0] == page["run"]["name"] == "a"


def test_a_run_without_the_field_to_group_by_says_which_it_has(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [answered(0, 1, topic="sums")], requested=1)
    write_run(tmp_path / "b", [answered(0, 1, tpic="sums")], requested=1)
    with viewing(tmp_path, cache=tmp_path / "cache", group_by="topic") as world:
        pages = [world.get(f"/api/r/{place.id}") for place in world.catalog.places]

    problems = {page["run"]["name"]: page["group_problem"] for page in pages}
    assert problems["a"] == ""
    assert "did you mean 'tpic'?; fields with a text: tpic" in problems["b"]


# One rollout of a live run


def test_a_run_that_stands_still_has_advice(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=3)
    progress = Progress(Accounting(3))
    progress.started -= 1_000
    progress.pace.attempt_ended(progress.started + 10, failed=False, is_last=True)
    with announced(output, progress), viewing(output, cache=tmp_path / "cache") as world:
        [run] = world.get("/api/runs")["runs"]

    assert run["health"] == "standing still"
    assert "--rollout-timeout" in run["health_advice"]


def test_a_rollout_in_flight_is_said_to_be_and_is_not_verified_again(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=3)
    progress = Progress(Accounting(3))
    flight = Job(key=RolloutKey(1, 0), agent="my_agent", attempt=1)
    flight.now("/verify", "judge /v1/responses")
    progress.in_flight[RolloutKey(1, 0)] = flight
    with announced(output, progress), viewing(output, cache=tmp_path / "cache") as world:
        reward = world.get("/api/r/RUN/t/1/0/reward")["absent"]
        times = world.get("/api/r/RUN/t/1/0/times")["absent"]
        waits = world.get("/api/r/RUN/t/2/0/times")["absent"]
        commands = world.get("/api/r/RUN/t/1/0/commands")["commands"]
        run = world.get("/api/runs")["runs"][0]
        findings = world.get("/api/r/RUN/failures")["findings"]

    assert all("in flight" in text and "judge /v1/responses" in text for text in (reward, times))
    assert "not started" in waits
    assert "reverify" not in {command["name"] for command in commands}
    assert (run["state"], run["health"]) == ("running", "starting")
    assert [finding["severity"] for finding in findings] == ["note"]


# One rollout


def test_calls_are_paired_with_their_results(world: World) -> None:
    items = world.get("/api/r/RUN/t/0/1/outline")["items"]

    kinds = [(item["kind"], item["name"], item["pair"]) for item in items]
    assert kinds == [("call", "add", 1), ("result", "", 0), ("assistant", "", None)]


def test_texts_come_in_ranges_that_are_the_whole(tmp_path: Path) -> None:
    text = "ä\\n\U0001f600" * 60_000
    output = write_run(tmp_path / "a", [answered(0, 1, text)], requested=1)
    pieces, start = [], 0
    with viewing(output, cache=tmp_path / "cache") as world:
        while True:
            piece = world.get("/api/r/RUN/t/0/0/item", at=2, start=start)
            pieces.append(piece["text"])
            if piece["end"] == piece["size"]:
                break
            start = piece["end"]

    assert "".join(pieces) == text
    assert len(pieces) > 5


def test_what_earned_the_reward_is_marked_where_it_stands(tmp_path: Path) -> None:
    evidence = {"right": [{"item": 2, "start": 6, "end": 7}, {"item": 9, "start": 0, "end": 1}]}
    row = answered(0, 1, "It is 4.", reward_components={"right": 1.0}, reward_evidence=evidence)
    output = write_run(tmp_path / "a", [row], requested=1)
    with viewing(output, cache=tmp_path / "cache") as world:
        panel = world.get("/api/r/RUN/t/0/0/reward")
        items = world.get("/api/r/RUN/t/0/0/outline")["items"]

    [component] = panel["components"]
    assert [piece["text"] for piece in component["evidence"]] == ["4"]
    assert len(panel["notes"]) == 1
    marks = [mark for item in items for mark in item["found"] if mark["kind"] == "earned by"]
    assert [(mark["start"], mark["end"], mark["field"]) for mark in marks] == [(6, 7, "right")]


def test_a_short_answer_is_marked_where_it_stands_last(tmp_path: Path) -> None:
    row = answered(0, 1, "Of 14, 140 and 1.4 it is 4, not -4 or 4.5.", extracted_answer="4")
    output = write_run(tmp_path / "a", [row], requested=1)
    with viewing(output, cache=tmp_path / "cache") as world:
        items = world.get("/api/r/RUN/t/0/0/outline")["items"]

    [mark] = [mark for item in items for mark in item["found"]]
    assert (mark["kind"], mark["field"]) == ("found here", "extracted_answer")
    assert (mark["start"], mark["end"]) == (25, 26)


def test_a_failed_rollout_has_one_next_action(tmp_path: Path) -> None:
    failures = [
        failure(1, "the judge answered 429", attempt=1, hint="wait"),
        failure(1, "no number", attempt=2, hint="return a number"),
        failure(1, "no number", attempt=3, hint="return a number"),
    ]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=2, failures=failures)
    with viewing(output, cache=tmp_path / "cache") as world:
        reply = world.get("/api/r/RUN/t/1/0/attempts")

    assert reply["next_action"] == "return a number"
    first, second, third = (attempt["hint"] for attempt in reply["attempts"])
    assert (second, third) == ("", "")
    assert "--concurrency" in first


def test_at_equal_rewards_the_best_and_the_worst_ended_by_themselves(tmp_path: Path) -> None:
    cut = {"incomplete_details": {"reason": "max_output_tokens"}}
    rows = [scored(0, at, reward, expected_answer="7") for at, reward in enumerate((0, 0, 1, 1))]
    for row in (rows[1], rows[2]):
        row["response"] |= cut
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Run.write(tmp_path / name, rows, inputs=[materialized(0, at) for at in range(4)])
    with viewing(tmp_path, cache=tmp_path / "cache") as world:
        a, b = (place.id for place in world.catalog.places)
        [task] = world.get(f"/api/c/{a}/{b}/tasks")["tasks"]
        group = world.get(f"/api/r/{a}/t/0")
        diff = world.get("/api/diff", a=f"{a}/0/3", b=f"{b}/0/0")

    assert task["a_rollouts"] == [member["rollout"] for member in group["members"]] == [3, 2, 1, 0]
    assert diff["expected"] == ["7"]


def test_a_judges_question_is_text_and_its_label_the_verdict(tmp_path: Path) -> None:
    asked = {"instructions": "Judge.", "input": [{"role": "user", "content": "Is 4 equal to 4?"}]}
    said = {"output": [{"role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}]}
    evaluation = {"responses_create_params": asked, "response": said, "verdict_label": "[[A=B]]"}
    output = write_run(
        tmp_path / "a", [answered(0, 1, judge_evaluations=[evaluation])], requested=1
    )
    with viewing(output, cache=tmp_path / "cache") as world:
        [shown] = world.get("/api/r/RUN/t/0/0/reward")["evaluations"]

    assert shown["question"] == "Judge.\n\nIs 4 equal to 4?"
    assert (shown["answer"], shown["verdict"], shown["fields"]) == ("Yes.", "[[A=B]]", [])


def test_failed_attempts_say_what_happened(tmp_path: Path) -> None:
    asked = {"judge_question": "Is 4 equal to four?"}
    failures = [
        failure(1, "no number", traceback="Traceback: here", elapsed_s=2.0, started_at=5.0, **asked)
    ]
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=2, failures=failures)
    with viewing(output, cache=tmp_path / "cache") as world:
        [attempt] = world.get("/api/r/RUN/t/1/0/attempts")["attempts"]
        times = world.get("/api/r/RUN/t/1/0/times")

    assert (attempt["message"], attempt["traceback"]) == ("no number", "Traceback: here")
    assert attempt["judge_question"] == "Is 4 equal to four?"
    assert [(span["start_s"], span["end_s"]) for span in times["spans"]] == [(0.0, 2.0)]


def test_times_come_from_the_events_where_they_are(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1)
    events = [
        {"event": "rollout_started", "at": 10.0, "task": 0, "rollout": 0},
        {"event": "rollout_ended", "at": 14.0, "task": 0, "rollout": 0, "outcome": "scored"},
    ]
    RunPaths(output).events.write_text("".join(json.dumps(event) + "\n" for event in events))
    with viewing(output, cache=tmp_path / "cache") as world:
        times = world.get("/api/r/RUN/t/0/0/times")

    assert [(span["name"], span["end_s"]) for span in times["spans"]] == [("rollout", 4.0)]


def test_rows_without_times_say_so(world: World) -> None:
    assert "--json-events" in world.get("/api/r/RUN/t/0/0/times")["absent"]


def test_token_ids_are_shown_with_log_probs_and_mask(tmp_path: Path) -> None:
    ids = {
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3, 4],
        "generation_log_probs": [-0.5, -1.5],
    }
    message = {"type": "message", "role": "assistant", "content": "hi", **ids}
    output = write_run(
        tmp_path / "a", [scored(0, 0, 1, response={"output": [message]})], requested=1
    )
    with viewing(output, cache=tmp_path / "cache") as world:
        [turn] = world.get("/api/r/RUN/t/0/0/tokens")["turns"]
        tokens = world.get("/api/r/RUN/t/0/0/tokens/0")

    assert (turn["prompt_ids"], turn["generation_ids"], turn["mean_log_prob"]) == (2, 2, -1.0)
    assert (tokens["ids"], tokens["mask"]) == ([1, 2, 3, 4], [0, 0, 1, 1])
    assert tokens["log_probs"] == [None, None, -0.5, -1.5]


def test_a_turn_says_whether_it_continues_the_ids_before_it(tmp_path: Path) -> None:
    prompts = [[1], [1, 2, 3], [1, 9, 3, 2, 4]]
    messages = [
        {
            "type": "message",
            "role": "assistant",
            "content": "hi",
            "prompt_token_ids": prompt,
            "generation_token_ids": [2],
            "generation_log_probs": [-0.5],
        }
        for prompt in prompts
    ]
    output = write_run(
        tmp_path / "a", [scored(0, 0, 1, response={"output": messages})], requested=1
    )
    with viewing(output, cache=tmp_path / "cache") as world:
        turns = world.get("/api/r/RUN/t/0/0/tokens")["turns"]

    assert [turn["ids_before"] for turn in turns] == [0, 2, 4]
    assert [turn["break_at"] for turn in turns] == [None, None, 1]


def test_a_row_that_cannot_be_checked_names_field_and_line(tmp_path: Path) -> None:
    ids = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    message = {"type": "message", "role": "assistant", "content": "hi", **ids}
    params = {"responses_create_params": {"input": "q"}}
    rows = [answered(0, 1), scored(1, 0, 1, response={"output": [message]}) | params]
    output = write_run(tmp_path / "a", rows, requested=2)
    with viewing(output, cache=tmp_path / "cache") as world:
        [finding] = world.get("/api/r/RUN/t/1/0/tokens")["findings"]

    assert f"{output.name} line 2" in finding
    assert "/response/id" in finding
    assert "pydantic" not in finding
    assert "\n" not in finding


def test_two_rollouts_are_aligned_and_their_words_compared(tmp_path: Path) -> None:
    rows = [answered(0, 1, "It is 4."), answered(1, 0, "It is 5.")]
    output = write_run(tmp_path / "a", rows, requested=2)
    with viewing(output, cache=tmp_path / "cache") as world:
        run = world.run_id
        diff = world.get("/api/diff", a=f"{run}/0/0", b=f"{run}/1/0")

    last = diff["items"][-1]
    assert [(p["op"], p["text"]) for p in last["pieces"]] == [
        ("=", "It is "),
        ("-", "4"),
        ("+", "5"),
        ("=", "."),
    ]


def test_a_difference_keeps_the_escapes_of_terminals_whole() -> None:
    pieces, _ = differences("\x1b[32mok\x1b[0m", "\x1b[31mok\x1b[0m")

    assert [piece.text for piece in pieces] == ["\x1b[32m", "\x1b[31m", "ok\x1b[0m"]


def test_the_group_counts_answers_and_names_the_first_difference(world: World) -> None:
    group = world.get("/api/r/RUN/t/1")

    assert [member["reward"] for member in group["members"]] == [1.0, 1.0, 0.0, 0.0]
    assert (group["solved"], group["scored"], group["pass_rate"]) == (2, 4, 0.5)
    assert group["difference"] is None


def test_a_group_counts_a_sum_that_falls_short_of_1_as_solved(tmp_path: Path) -> None:
    rows = [answered(0, 0.7 + 0.2 + 0.1, "four") | {"_ng_rollout_index": 0}]
    output = Run.write(tmp_path, rows).paths.output
    with viewing(output, cache=tmp_path / "cache") as world:
        group = world.get("/api/r/RUN/t/0")

    assert (group["solved"], group["pass_rate"]) == (1, 1.0)


def test_a_group_has_the_expected_answer_and_the_mean_reward_of_each_branch(tmp_path: Path) -> None:
    texts = ("four", "five", "five", "five")
    rows = [
        answered(0, reward, text) | {"_ng_rollout_index": at, "expected_answer": 4}
        for at, (reward, text) in enumerate(zip((1, 0, 0, 1), texts, strict=True))
    ]
    inputs = [materialized(0, at) for at in range(4)]
    output = Run.write(tmp_path, rows, inputs=inputs).paths.output
    with viewing(output, cache=tmp_path / "cache") as world:
        group = world.get("/api/r/RUN/t/0")

    assert group["expected"] == "4"
    variants = group["difference"]["variants"]
    assert [(v["count"], round(v["mean_reward"], 3)) for v in variants] == [(3, 0.333), (1, 1)]


def test_rollouts_that_say_different_things_are_named_by_their_texts(tmp_path: Path) -> None:
    rows = [
        answered(0, 1, text) | {"_ng_rollout_index": at} for at, text in enumerate(("four", "five"))
    ]
    inputs = [materialized(0, at) for at in range(3)]
    output = Run.write(tmp_path, rows, inputs=inputs).paths.output
    with viewing(output, cache=tmp_path / "cache") as world:
        difference = world.get("/api/r/RUN/t/0")["difference"]

    assert [variant["name"] for variant in difference["variants"]] == [
        "assistant: four",
        "assistant: five",
    ]


def test_the_row_is_shown_as_it_is_stored(world: World, output: Path) -> None:
    raw = world.get("/api/r/RUN/t/0/0/raw")
    download = world.ask(f"/api/r/{world.run_id}/t/0/0/download")

    line = output.read_bytes().splitlines()[0]
    assert raw["text"].encode() == line == download.body
    assert download.headers["content-disposition"].startswith("attachment")


def test_the_tree_opens_values_by_their_path(world: World) -> None:
    tree = world.get("/api/r/RUN/t/0/0/tree", path="/response/output/0")

    assert [entry["text"] for entry in tree["entries"] if entry["key"] == "name"] == ["add"]


def test_commands_are_ascii_and_end_no_quote(tmp_path: Path) -> None:
    row = answered(0, 1) | {"responses_create_params": {"input": "it's \u2028 ü'; rm -rf ~ #"}}
    output = write_run(tmp_path / "ü'; rm", [row], requested=1)
    with viewing(output, cache=tmp_path / "cache") as world:
        commands = world.get("/api/r/RUN/t/0/0/commands")["commands"]

    texts = {command["name"]: command["value"] for command in commands}
    assert all(text.isascii() and text.isprintable() for text in texts.values())
    assert "$'" in texts["reverify"]
    assert texts["reverify"].count("--only 0:0") == 1


def test_without_a_manifest_no_command_verifies_again(world: World) -> None:
    reply = world.get("/api/r/RUN/t/0/0/commands")

    assert "reverify" not in {command["name"] for command in reply["commands"]}
    assert "no manifest" in reply["missing"]


# Bad input


def test_a_wrong_query_says_where(world: World) -> None:
    answer = world.ask(f"/api/r/{world.run_id}/rollouts?q=task:1%20rewrd<1")

    assert answer.status == 400
    assert (answer.json["position"], answer.json["nearest"]) == (7, "reward")


@pytest.mark.parametrize(
    "path",
    ["/api/r/0123/about", "/api/r/RUN/t/99", "/api/r/RUN/t/0/99", "/api/r/RUN/t/0/-1", "/api/k/x"],
)
def test_what_is_not_there_is_not_found(world: World, path: str) -> None:
    assert world.ask(path.replace("RUN", world.run_id)).status == 404


def test_a_row_that_is_not_indexed_yet_is_waited_for(tmp_path: Path, output: Path) -> None:
    with Catalog(find_places([str(output)]), cache=tmp_path / "cache") as catalog:
        world = World(make_app(Viewer(catalog, indexing_s=20), Access(TOKEN)), catalog)

        assert world.get("/api/r/RUN/t/3/3")["rollout"] == 3
        assert world.ask(f"/api/r/{world.run_id}/t/3/99").status == 404


def test_a_row_that_is_indexed_while_it_is_looked_for_is_found(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(find_places([str(output)]), cache=tmp_path / "cache")
    world = World(make_app(Viewer(catalog, indexing_s=20), Access(TOKEN)), catalog)

    with closing(catalog.run(world.run_id)) as run:

        def looked_for(*names: Any) -> int | None:
            row = row_of(*names)
            run.wait()
            return row

        monkeypatch.setattr("palestra.viewer.requests.row_of", looked_for)

        assert world.get("/api/r/RUN/t/3/3")["rollout"] == 3


def test_a_row_that_is_not_indexed_in_time_is_said_to_be(tmp_path: Path, output: Path) -> None:
    catalog = Catalog(find_places([str(output)]), cache=tmp_path / "cache")
    # Nobody reads the files.
    world = World(make_app(Viewer(catalog, indexing_s=0), Access(TOKEN)), catalog)

    answer = world.ask(f"/api/r/{world.run_id}/t/3/3")
    assert (answer.status, answer.json["error"]) == (503, "StillIndexing")
    assert answer.json["indexed"] == world.get("/api/r/RUN")["base"]


def test_runs_that_are_not_read_to_the_end_are_not_compared(tmp_path: Path, output: Path) -> None:
    other = repeated(tmp_path / "b", (1, 0), (0, 0))
    places = find_places([str(output), str(other)])
    catalog = Catalog(places, cache=tmp_path / "cache")
    # Nobody reads the files.
    world = World(make_app(Viewer(catalog, indexing_s=0), Access(TOKEN)), catalog)
    a, b = (place.id for place in catalog.places)

    for path in (f"/api/c/{a}/{b}", f"/api/c/{a}/{b}/tasks", f"/api/r/{a}/select"):
        answer = world.ask(path)
        assert (answer.status, answer.json["error"]) == (503, "StillIndexing"), path


def test_the_query_of_a_finding_selects_the_rollouts_that_it_counts(tmp_path: Path) -> None:
    rows = [scored(task, 0, 1.0, tokens=640) for task in range(40)]
    rows += [scored(task, 0, 1.0, tokens=9) for task in range(40, 44)]
    run = Run.write(tmp_path, rows)
    with viewing(run.paths.output, cache=tmp_path / "cache") as world:
        findings = world.get("/api/r/RUN/figures")["figures"]["findings"]
        [query] = [finding["query"] for finding in findings if finding["query"]]

        table = world.get("/api/r/RUN/rollouts", q=query)
        assert {row["task"] for row in table["rows"]} == set(range(40, 44))


def test_a_reply_names_the_version_of_the_index_that_it_rests_on(world: World) -> None:
    answer = world.ask(f"/api/r/{world.run_id}/tasks")

    assert int(answer.headers["palestra-index-version"]) == answer.json["base"]["version"]


def test_figures_from_before_the_first_row_are_not_kept(tmp_path: Path, output: Path) -> None:
    catalog = Catalog(find_places([str(output)]), cache=tmp_path / "cache")
    world = World(make_app(Viewer(catalog), Access(TOKEN)), catalog)
    with closing(catalog.run(world.run_id)) as run:
        before = world.get("/api/r/RUN/figures")["absent"]
        run.refresh()
        after = world.get("/api/r/RUN/figures")["absent"]

    assert before
    assert "inputs" not in before
    assert after == ""


def test_a_run_that_was_replaced_is_reported_as_changed(world: World, output: Path) -> None:
    replacement = output.with_suffix(".new")
    replacement.write_text("{}\n")
    replacement.replace(output)

    answer = world.ask(f"/api/r/{world.run_id}/t/0/0/raw")
    assert (answer.status, answer.json["error"]) == (409, "RunChanged")


def test_nan_and_lone_surrogates_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    row = json.dumps(answered(0, 1, "half \ud800 of one", score=float("nan")))
    output = Run.write(folder, []).paths.output
    output.write_text(f"{row}\n")
    with viewing(output, cache=tmp_path / "cache") as world:
        item = world.get("/api/r/RUN/t/0/0/item", at=2, start=0)
        panel = world.get("/api/r/RUN/t/0/0/reward")

    assert item["text"] == "half \ud800 of one"
    assert {"name": "score", "value": "NaN"} in panel["fields"]


def test_rows_of_another_program_are_shown_by_line(tmp_path: Path) -> None:
    output = tmp_path / "other.jsonl"
    rows: list[dict[str, Any]] = [{"response": {"output": []}, "reward": 0.5}, {"reward": 1.0}]
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with viewing(output, cache=tmp_path / "cache") as world:
        table = world.get("/api/r/RUN/rollouts")
        raw = world.get("/api/r/RUN/t/-/-/raw", row=1)

    assert [row["task"] for row in table["rows"]] == [None, None]
    assert json.loads(raw["text"]) == rows[1]


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "![x](http://evil.example/a.png)",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "\u202ereward 1.0",
    "a" + "\u0301" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_leaves_as_json_only(tmp_path: Path, text: str) -> None:
    row = answered(0, 1, text, extracted_answer=text) | {text[:60]: text}
    output = write_run(tmp_path / "a", [row], requested=2, failures=[failure(1, text)])
    paths = ["", "/figures", "/rollouts", "/facets", "/t/0", "/t/0/0/outline", "/t/0/0/reward"]
    with viewing(output, cache=tmp_path / "cache") as world:
        answers = [world.ask(f"/api/r/{world.run_id}{path}") for path in paths]

    assert {answer.status for answer in answers} == {200}
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}
    assert json.dumps(text) in json.dumps([answer.json for answer in answers])


def test_an_image_elsewhere_is_text_and_an_svg_too(tmp_path: Path) -> None:
    png = "data:image/png;base64,iVBORw0KGgoAAAAA"
    svg = "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4="
    parts = [
        {"type": "input_image", "image_url": url} for url in ("http://evil.example/x.png", svg, png)
    ]
    row = answered(0, 1) | {
        "responses_create_params": {"input": [{"role": "user", "content": parts}]}
    }
    output = write_run(tmp_path / "a", [row], requested=1)
    with viewing(output, cache=tmp_path / "cache") as world:
        images = world.get("/api/r/RUN/t/0/0/item", at=0, start=0)["images"]
        shown = world.ask(f"/api/r/{world.run_id}/t/0/0/image?at=0&part=2")
        refused = world.ask(f"/api/r/{world.run_id}/t/0/0/image?at=0&part=1")

    assert [image["type"] for image in images] == ["", "", "image/png"]
    assert shown.headers["content-type"] == "image/png"
    assert refused.status == 400
