"""What `diagnose` makes of files: which run is meant, causes before consequences, the unknown."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra import api
from palestra.causes import Severity, SignatureTable
from palestra.doctor import Diagnosis, diagnose, text_of
from palestra.engine import Accounting, Job
from palestra.errors import BadInput, Layer
from palestra.rollouts import Progress, announced
from palestra.schema import RolloutKey

TABLE = SignatureTable.load()


def told(folder: Path, given: str, **more: Any) -> Diagnosis:
    return diagnose(given, folder=folder, table=TABLE, **more)


def result(task: int, **fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": 0, "reward": 1.0, **fields}


def failure(task: int, message: str, **fields: Any) -> dict[str, Any]:
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "agent_ref": {"name": "agent"},
        "attempt": 1,
        "_ng_failure_terminal": True,
        "_ng_failure_class": "verifier_error",
        "_ng_failure_layer": "verifier/runtime",
        "message": message,
        "hops": [],
        **fields,
    }


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three tasks, of which one has failed."""
    write(tmp_path, "run_materialized_inputs.jsonl", [result(task) for task in range(3)])
    write(tmp_path, "run.jsonl", [result(0), result(1)])
    write(tmp_path, "run_failures.jsonl", [failure(2, "env/verify raised KeyError: 'x'")])
    held = {
        "format": 1,
        "input_digest": "",
        "semantics": {},
        "requested": 3,
        "tasks": 3,
        "palestra_version": "1",
    }
    (tmp_path / "run_manifest.json").write_text(json.dumps(held, indent=2))
    return tmp_path


@pytest.mark.parametrize(
    "given", ["run", "run.jsonl", "run_failures.jsonl", "run_manifest.json", "."]
)
def test_a_run_is_meant_by_any_of_its_names(run: Path, given: str) -> None:
    found = told(run, given)

    assert [f.cause for f in found.findings] == ["verifier.raises"]
    [counts] = found.counts.values()
    assert (counts.requested, counts.inputs, counts.scored, counts.failed) == (3, 3, 2, 1)


def test_a_log_leads_to_the_files_that_its_command_wrote(run: Path) -> None:
    (run / "some.log").write_text("3 rollouts of 3 tasks -> run.jsonl\n")

    assert [f.cause for f in told(run, "some.log").findings] == ["verifier.raises"]


def test_a_run_that_is_being_collected_is_no_error(run: Path) -> None:
    progress = Progress(Accounting(3))
    progress.in_flight[RolloutKey(2, 0)] = Job(key=RolloutKey(2, 0), agent="agent")
    (run / "run_failures.jsonl").unlink()
    with announced(run / "run.jsonl", progress):
        diagnosis = told(run, "run")

    [finding] = diagnosis.findings
    assert (finding.cause, finding.severity) == ("cache.running", Severity.NOTE)
    assert "1 of 3" in finding.symptom
    assert "1 in flight" in finding.symptom
    [counts] = diagnosis.counts.values()
    assert (counts.running, counts.missing, counts.what_helps) == (True, 1, "")


def test_a_row_that_is_being_written_is_not_torn(run: Path) -> None:
    with (run / "run.jsonl").open("a") as file:
        file.write('{"_ng_task_index": 2')
    with announced(run / "run.jsonl", Progress(Accounting(3))):
        causes = [finding.cause for finding in told(run, "run").findings]

    assert "cache.torn-journal" not in causes


def test_what_is_no_run_is_refused_with_what_would_be_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a run") as refused:
        told(tmp_path, "nothing")

    assert "tee run.log" in refused.value.hint


def reverify(run: Path, *, failed: int) -> None:
    """Write the files of a re-verification of all three rollouts."""
    write(run, "run_reverified_materialized_inputs.jsonl", [result(task) for task in range(3)])
    write(run, "run_reverified.jsonl", [result(task) for task in range(3 - failed)])
    again = [failure(2 - n, "env/verify raised KeyError: 'x'") for n in range(failed)]
    for row in again:
        del row["_ng_failure_terminal"]
    write(run, "run_reverified_failures.jsonl", again)
    written = {"format": 1, "made_from": {"rows": 3}, "result": {}}
    (run / "run_reverified_reverify.json").write_text(json.dumps(written))


def test_a_run_without_a_manifest_is_no_problem_once_all_is_scored(tmp_path: Path) -> None:
    write(tmp_path, "run_materialized_inputs.jsonl", [result(task) for task in range(2)])
    write(tmp_path, "run.jsonl", [result(0), result(1)])

    found = told(tmp_path, "run.jsonl")
    assert (found.findings, found.unknown) == ((), ())

    write(tmp_path, "run.jsonl", [result(0)])
    assert "run_manifest.json" in str(told(tmp_path, "run.jsonl").unknown)


def test_a_re_verified_copy_beside_a_run_needs_no_manifest(run: Path) -> None:
    before = told(run, str(run))
    reverify(run, failed=0)
    found = told(run, str(run))

    assert [f.cause for f in found.findings] == [f.cause for f in before.findings]
    assert found.unknown == before.unknown == ()


def test_rows_that_could_not_be_verified_again_are_failed_and_not_missing(run: Path) -> None:
    reverify(run, failed=1)
    found = told(run, "run_reverified.jsonl")

    [counts] = found.counts.values()
    assert (counts.requested, counts.scored, counts.failed, counts.missing) == (3, 2, 1, 0)
    assert [f.cause for f in found.findings] == ["verifier.raises"]
    assert "--resume" not in counts.what_helps


def test_a_run_that_went_well_has_nothing_wrong(run: Path) -> None:
    (run / "run_failures.jsonl").unlink()
    write(run, "run.jsonl", [result(task) for task in range(3)])

    found = told(run, "run")

    assert found.findings == ()
    assert len(found.looked_at) == 3


def test_an_attempt_that_was_made_good_is_a_warning(run: Path) -> None:
    write(run, "run.jsonl", [result(task) for task in range(3)])

    assert [f.severity for f in told(run, "run").findings] == [Severity.WARNING]


def test_the_cause_that_struck_most_rollouts_comes_first(run: Path) -> None:
    busy = "policy_model: http://h/v1/chat/completions answered 500: EngineCore encountered"
    write(
        run,
        "run_failures.jsonl",
        [failure(0, "env/verify raised X: y"), failure(1, busy), failure(2, busy)],
    )
    write(run, "run.jsonl", [])

    found = told(run, "run").findings

    assert [f.cause for f in found] == ["model.fails", "verifier.raises"]
    assert found[0].symptom.endswith("(2 rollouts)")


def test_a_nested_failure_is_one_line_with_its_row_and_the_innermost_body(run: Path) -> None:
    hops = [
        {"server": "agent", "url": "http://h:1/run", "status": 500, "body": ""},
        {"server": "env", "url": "http://h:2/verify", "status": 500, "body": ""},
        {"server": "judge", "url": "http://h:3/v1/responses", "status": 500, "body": ""},
        {
            "server": "judge",
            "url": "https://p/v1/responses",
            "status": 500,
            "body": '{"error": {"message": "the upstream\\nis down"}}',
        },
    ]
    said = "judge: https://p/v1/responses answered 500: the upstream is down"
    write(run, "run_failures.jsonl", [failure(2, said, hops=hops)])

    [found] = told(run, "run").findings

    assert found.symptom == f"agent/run > env/verify > judge/v1/responses: {said}"
    assert found.row is not None
    assert (found.row.task, found.row.agent) == (2, "agent")
    assert "\n" not in "".join(quote.text for quote in found.evidence)
    assert "{" not in "".join(quote.text for quote in found.evidence)


def test_what_fits_no_entry_stays_unknown_and_says_what_was_looked_at(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(
        'Traceback (most recent call last):\n  File "/a.py", line 1, in f\nFrobError: 7 frobs\n'
    )

    found = told(tmp_path, "x.log")

    assert found.findings == ()
    assert found.unknown[0].text == "FrobError: 7 frobs"
    assert found.looked_at == (f"{tmp_path}/x.log (3 lines)",)


def test_an_unknown_failure_keeps_the_layer_that_the_run_recorded(run: Path) -> None:
    write(run, "run_failures.jsonl", [failure(2, "the frobs are out")])

    [found] = told(run, "run").findings

    assert (found.layer, found.cause) == (Layer.VERIFIER, "verifier.unknown")
    assert "unknown" in found.likely_cause
    assert "run_failures.jsonl" in found.next_action


def test_what_follows_from_a_cause_is_its_consequence(run: Path) -> None:
    (run / "run.log").write_text("error: run.jsonl: No space left on device after 80 bytes\n")
    (run / "run_failures.jsonl").unlink()

    found = told(run, ".")

    assert [f.cause for f in found.findings] == ["infra.disk-full"]
    assert found.consequences[0].startswith("cache.unfinished: 1 of 3")


def test_a_relayed_failure_is_heard_only_when_nothing_else_speaks(tmp_path: Path) -> None:
    relay = "22:00:00 ERROR Internal Server Error\n"
    (tmp_path / "a.log").write_text(relay + "22:00:01 ERROR Too many open files\n")

    assert [f.cause for f in told(tmp_path, "a.log").findings] == ["infra.too-few-descriptors"]


def test_a_failing_row_is_quoted_where_it_does_not_fit(run: Path) -> None:
    problems = [{"pointer": "/answer", "expected": "Field required"}]
    said = "env/verify rejects the body: /answer: Field required"
    write(run, "run_failures.jsonl", [failure(2, said, problems=problems)])

    [found] = told(run, "run").findings

    places = {(q.line, q.pointer): q.text for q in found.evidence}
    assert places[3, "/answer"] == "Field required; the row has no such field"


def test_an_edited_input_file_is_told_with_both_times(run: Path) -> None:
    write(run, "run_materialized_inputs.jsonl", [result(t, question=f"q{t}") for t in range(3)])
    write(run, "tasks.jsonl", [{"question": "q0"}, {"question": "other"}, {"question": "q2"}])
    write(run, "run_failures.jsonl", [])

    found = told(run, "run", sources=(run / "tasks.jsonl",))
    [stale] = [f for f in found.findings if f.cause == "cache.stale-inputs"]

    assert '"q1", and in tasks.jsonl now: "other"' in stale.evidence[0].text
    assert [q.text.split(" ")[0] for q in stale.evidence[1:3]] == ["modified", "written"]


def test_an_edited_row_is_quoted_from_the_input_file_that_has_it(run: Path) -> None:
    write(run, "run_materialized_inputs.jsonl", [result(t, question=f"q{t}") for t in range(3)])
    write(run, "tasks1.jsonl", [{"question": "q0"}, {"question": "q1"}])
    write(run, "tasks2.jsonl", [{"question": "other"}])

    found = api.diagnose(str(run / "run"), inputs=[run / "tasks*.jsonl"])
    [stale] = [f for f in found.findings if f.cause == "cache.stale-inputs"]

    assert '"q2", and in tasks2.jsonl now: "other"' in stale.evidence[0].text


def test_when_ray_does_not_start_its_own_log_is_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    logs = tmp_path / "ray" / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.err").write_text(
        "Check failed: Timed out waiting for file metrics_agent_port\n"
    )
    (tmp_path / "x.log").write_text("22:00:00 ERROR The current node timed out during startup\n")

    [found] = told(tmp_path, "x.log").findings

    assert found.cause == "infra.ray-no-start"
    assert any("metrics_agent_port" in quote.text for quote in found.evidence)


WARNED = "warning: 200 rollouts in flight need about 456 open files, and the limit is 60"
BLOCKED = "warning: env blocked the event loop for 3.0 s in /data/env.py:6 verify"


@pytest.mark.parametrize(
    ("line", "cause"),
    [(BLOCKED, "throughput.blocks-event-loop"), (WARNED, "infra.too-few-descriptors")],
)
def test_what_a_command_warns_of_is_a_warning_where_every_rollout_was_scored(
    run: Path, line: str, cause: str
) -> None:
    (run / "some.log").write_text(f"3 rollouts of 3 tasks -> run.jsonl\n{line}\n")
    failed = told(run, "some.log").findings
    write(run, "run.jsonl", [result(task) for task in range(3)])
    (run / "run_failures.jsonl").unlink()
    whole = told(run, "some.log").findings

    assert {f.cause: f.severity for f in failed} == {
        "verifier.raises": Severity.ERROR,
        cause: Severity.ERROR,
    }
    assert [(f.cause, f.severity) for f in whole] == [(cause, Severity.WARNING)]


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        ({}, "model.answers-cut"),
        ({"provider_message": "the context is full"}, "model.context-too-long"),
    ],
)
def test_a_full_context_and_a_small_limit_are_told_apart(
    run: Path, details: dict[str, str], cause: str
) -> None:
    cut = {"incomplete_details": {"reason": "max_output_tokens", **details}}
    write(run, "run.jsonl", [result(task, response=cut) for task in range(3)])
    (run / "run_failures.jsonl").unlink()

    [found] = told(run, "run").findings

    assert (found.cause, found.severity) == (cause, Severity.WARNING)
    assert found.symptom.startswith("3 of 3 ")


def test_a_failure_that_ended_the_run_explains_what_is_missing(run: Path) -> None:
    ended = failure(
        2,
        "judge_model: http://x/v1/chat/completions answered 401: Incorrect API key",
        _ng_failure_layer="model serving",
        _ng_failure_terminal=False,
        ended_run=True,
        hops=[{"server": "env", "url": "http://e/verify"}],
    )
    write(run, "run_failures.jsonl", [ended])

    found = told(run, "run")

    assert [f.cause for f in found.findings] == ["model.key-refused"]
    assert found.findings[0].row is not None
    assert found.findings[0].symptom.startswith("env/verify: judge_model")
    assert found.consequences[0].startswith("cache.unfinished")


def test_a_nested_failure_is_one_line_with_its_row_its_way_and_the_innermost_body(
    run: Path,
) -> None:
    calling = "Hit an exception in it calling an inner server: "
    body = json.dumps({"error": {"message": "CUDA out of memory"}}).encode()
    nested = calling + repr(json.dumps({"detail": calling + repr(body)}).encode())
    hops = [
        {"server": name, "url": f"http://{name}/{path}"}
        for name, path in (("agent", "run"), ("env", "verify"), ("judge", "v1/responses"))
    ]
    write(run, "run_failures.jsonl", [failure(2, nested, hops=hops)])

    [line, *_] = text_of(told(run, "run").findings[0]).plain.splitlines()

    assert line == (
        "error model serving (model.gpu-memory): task 2, rollout 0, attempt 1, agent agent: "
        "agent/run > env/verify > judge/v1/responses: CUDA out of memory"
    )


def whole(run: Path, rows: list[dict[str, Any]]) -> None:
    """A run of which every rollout was scored so."""
    (run / "run_failures.jsonl").unlink()
    write(run, "run_materialized_inputs.jsonl", rows)
    write(run, "run.jsonl", rows)
    held = json.loads((run / "run_manifest.json").read_text())
    (run / "run_manifest.json").write_text(json.dumps({**held, "requested": len(rows)}))


def answer(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"output": [{"type": "message", "content": content}]}


CUT = {**answer("I think"), "incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize(
    ("response", "causes"),
    [
        (answer("42"), ["verifier.one-reward"]),
        (answer(" "), ["model.empty-answers"]),
        (CUT, ["model.answers-cut"]),
        ({"output": [{"type": "function_call", "name": "submit"}]}, ["verifier.one-reward"]),
        ({"output": "of another tool"}, ["verifier.one-reward"]),
    ],
)
def test_rewards_that_are_all_alike_are_told_unless_the_answers_say_why(
    run: Path, response: dict[str, Any], causes: list[str]
) -> None:
    whole(run, [result(task, response=response) for task in range(12)])

    found = told(run, "run").findings

    assert [f.cause for f in found] == causes
    assert [f.severity for f in found] == [Severity.WARNING]


def test_rewards_that_differ_are_no_finding(run: Path) -> None:
    whole(run, [{**result(task), "reward": float(task % 2)} for task in range(12)])

    assert told(run, "run").findings == ()


def test_a_few_rewards_that_are_alike_are_no_finding(run: Path) -> None:
    whole(run, [result(task) for task in range(4)])

    assert told(run, "run").findings == ()


def test_tools_that_broke_in_scored_rollouts_are_told(run: Path) -> None:
    whole(run, [result(0, tool_failures=[{"tool": "look_up", "type": "KeyError"}]), result(1)])

    [found] = told(run, "run").findings

    assert found.cause == "verifier.tools-break"
    assert found.evidence[0].text == "look_up: KeyError"


def test_a_tool_that_broke_is_told_with_its_line(run: Path) -> None:
    failure = {"tool": "look_up", "type": "KeyError", "at": "app.py:7 in look_up"}
    whole(run, [result(0, tool_failures=[failure]), result(1)])

    [found] = told(run, "run").findings

    assert found.evidence[0].text == "look_up: KeyError at app.py:7 in look_up"


def test_rewards_outside_the_rules_of_the_environment_are_a_finding(run: Path) -> None:
    outside = result(0, outside_reward_rules=[0.0, 1.0]) | {"reward": 2.5}
    whole(run, [outside, result(1)])

    [found] = told(run, "run").findings

    assert found.cause == "verifier.reward-outside-rules"
    assert found.evidence[0].text == "reward 2.5, and the rules allow 0 to 1"


def test_weights_that_no_row_has_a_component_for_are_a_finding(run: Path) -> None:
    names = [["format", "style"], ["format"]]
    components = [{"layout": 1.0}, {"layout": 1.0, "style": 1.0}]
    whole(
        run,
        [
            result(task, unused_weights=unused, reward_components=values)
            for task, unused, values in zip(range(2), names, components, strict=True)
        ],
    )

    [found] = told(run, "run").findings

    assert (found.cause, found.severity) == ("verifier.unused-weights", Severity.WARNING)
    assert "'format', but" in found.symptom
    assert "it returned 'layout', 'style'" in found.symptom


def test_weights_that_some_row_has_a_component_for_are_no_finding(run: Path) -> None:
    rows = [result(0, unused_weights=["style"]), result(1, reward_components={"style": 1.0})]
    whole(run, rows)

    assert told(run, "run").findings == ()


def test_a_zero_for_the_expected_number_is_told(run: Path) -> None:
    zero = result(0, extracted_answer="14.0", expected_answer="14") | {"reward": 0.0}
    whole(run, [zero, result(1, extracted_answer="3", expected_answer="4")])

    [found] = told(run, "run").findings

    assert (found.cause, found.severity) == ("verifier.right-number-refused", Severity.WARNING)
    assert found.evidence[0].text == "reward 0 for 14.0, expected 14"


def test_materialized_inputs_that_are_gone_are_told(run: Path) -> None:
    (run / "run_materialized_inputs.jsonl").unlink()

    assert "cache.inputs-gone" in [f.cause for f in told(run, "run").findings]


def test_an_input_that_is_gone_is_told_among_what_was_looked_at(run: Path) -> None:
    held = json.loads((run / "run_manifest.json").read_text())
    (run / "run_manifest.json").write_text(json.dumps({**held, "inputs": ["/gone/tasks.jsonl"]}))

    assert "/gone/tasks.jsonl (does not exist any more)" in told(run, "run").looked_at


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tasks.jsonl", '{"responses_create_params": {"input": "x"}}\n', "holds no results"),
        ("empty.jsonl", "", "is empty"),
        ("rows.csv", "a,b\n1,2\n", "neither results nor a log"),
        ("page.html", "<html>", "neither results nor a log"),
    ],
)
def test_a_file_of_another_kind_is_not_called_well(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(BadInput, match=said):
        told(tmp_path, name)


def test_an_unknown_exception_beside_a_whole_run_is_shown_and_is_no_failure(run: Path) -> None:
    whole(run, [result(0)])
    (run / "run.log").write_text("1 rollouts of 1 tasks -> run.jsonl\nmy.OddError: 17\n")

    found = told(run, "run.log")

    assert (found.findings, found.whole) == ((), True)
    assert found.unknown[0].text == "my.OddError: 17"


def test_the_recorded_cause_is_surer_than_the_words_and_one_of_another_version_is_not(
    run: Path,
) -> None:
    said = "the endpoint answered 401 in words of its own"
    write(run, "run_failures.jsonl", [failure(2, said, cause="config.reasoning-parser")])
    assert [found.cause for found in told(run, "run").findings] == ["config.reasoning-parser"]

    write(run, "run_failures.jsonl", [failure(2, said, cause="model.of-tomorrow")])
    assert [found.cause for found in told(run, "run").findings] == ["model.key-refused"]
