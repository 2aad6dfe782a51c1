"""The report as a file: the same bytes for the same run, bounded, closed in itself."""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest

from listed_runs import COLLECTORS, write_unfinished
from packers import zstd
from palestra.analysis import load_run, write_report
from palestra.analysis.report.write import ENDING_BYTES
from palestra.cli.profiling_commands import profile_files
from palestra.errors import InputDataError
from palestra.rollouts import Manifest
from profiled_runs import Run, failed, lines, materialized, scored

INPUTS = [materialized(task, rollout) for task in range(6) for rollout in range(4)]
ROLLOUTS = [
    scored(t, r, float(r < t), tokens=10 * t + r, agent_ref={"name": f"agent_{t % 2}"})
    for t in range(6)
    for r in range(4)
    if (t, r) != (5, 3)
]


def report(folder: Path, rollouts: list[dict[str, Any]] = ROLLOUTS, **options: Any) -> bytes:
    run = Run.write(folder, rollouts, inputs=options.pop("inputs", INPUTS))
    path = folder / "rollouts_report.html"
    write_report(run.load(allow_partial=True), path, **options)
    return path.read_bytes()


def blocks(page: bytes) -> dict[str, Any]:
    """The data blocks of a page, by id."""
    found = re.findall(
        rb'<script type="application/json" id="([^"]+)">(.*?)</script>', page, re.DOTALL
    )
    return {name.decode(): json.loads(text) for name, text in found}


def test_the_order_of_rows_never_changes_a_byte(tmp_path: Path) -> None:
    shuffled, inputs = list(ROLLOUTS), list(INPUTS)
    Random(5).shuffle(shuffled)
    Random(6).shuffle(inputs)

    assert report(tmp_path, shuffled, inputs=inputs) == report(tmp_path)


def test_a_profile_writes_the_report_beside_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = Run.write(tmp_path, [scored(0, 0, 1.0)]).paths
    profile = profile_files(
        str(paths.materialized_inputs), str(paths.output), allow_partial=False, group_by=None
    )

    assert list(profile.rollouts) == [paths.output]
    assert paths.report == tmp_path / "rollouts_report.html"
    assert paths.report.read_bytes().startswith(b"<!doctype html>")
    assert str(paths.report) in capsys.readouterr().out


@pytest.mark.parametrize(("collector", "resume"), COLLECTORS.items())
def test_advice_is_for_the_program_that_collected_the_run(
    tmp_path: Path, collector: str, resume: str
) -> None:
    output = write_unfinished(tmp_path / "a", collector)
    path = tmp_path / "report.html"
    write_report(load_run(None, output, allow_partial=True), path)
    page = path.read_bytes()
    [rollout] = blocks(page)["rollouts-1"]["rollouts"]
    text = page.decode()

    assert rollout["failure"]["hint"].startswith(f"{resume} with")
    assert rollout["failure"]["remedy"].startswith(f"{resume} with a higher")
    assert f"<b>What helps: </b>{resume} with" in text
    assert f"the command that collected the run, with {resume}, runs 1" in text
    assert ("--repeats 4" in text) is collector.startswith("palestra")


def test_a_run_that_is_refused_has_advice_for_the_program_that_collected_it(
    tmp_path: Path,
) -> None:
    output = write_unfinished(tmp_path / "a", "ng_collect_rollouts +config_paths=[c.yaml]")

    with pytest.raises(InputDataError) as refusal:
        load_run(None, output)

    assert "with +resume_from_cache=true, runs 1" in refusal.value.hint


def test_every_task_is_in_the_table_and_has_its_transcripts(tmp_path: Path) -> None:
    found = blocks(report(tmp_path))

    assert found["table-data"]["task"] == [str(task) for task in range(6)]
    assert found["table-data"]["groups"] == ["agent_0", "agent_1"]
    chosen = [(rollout["index"], rollout["why"]) for rollout in found["rollouts-2"]["rollouts"]]
    assert chosen == [(0, "best"), (3, "worst"), (2, "median"), (1, "")]
    assert found["rollouts-2"]["prompt"] == [["user", "", "question 2"]]
    assert found["rollouts-2"]["rollouts"][0]["said"] == [
        ["other", "message", '{"text": "' + "a" * 50 + '"}']
    ]


def test_the_file_stays_within_its_bound_and_says_what_it_left_out(tmp_path: Path) -> None:
    whole = report(tmp_path)
    bound = whole.index(b'id="rollouts-') + ENDING_BYTES + 2_000
    bounded = report(tmp_path, most_bytes=bound)
    embedded = sum(name.startswith("rollouts-") for name in blocks(bounded))

    assert len(bounded) <= bound
    assert 0 < embedded < 6
    assert f"Transcripts of {embedded} of 6 tasks are in this file".encode() in bounded
    assert b"Transcripts of all 6 tasks are in this file" in whole


def test_a_response_is_cut_however_long_it_is(tmp_path: Path) -> None:
    response = {"output": [{"role": "assistant", "content": "x" * 3_000_000}]}
    rows = [scored(0, 0, 1.0) | {"response": response}]

    assert len(report(tmp_path, rows)) < len(report(tmp_path)) + 10_000


def test_the_policy_names_the_only_style_and_the_only_script(tmp_path: Path) -> None:
    page = report(tmp_path)
    (policy,) = re.findall(rb'Content-Security-Policy" content="([^"]+)"', page)
    (style,) = re.findall(rb"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)

    for text in (style, script):
        assert b64encode(sha256(text).digest()) in policy
    assert policy.startswith(b"default-src &#x27;none&#x27;;")
    assert b"unsafe" not in policy


class Attributes(HTMLParser):
    """Collects what could fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"src", "srcset", "style", "action"} or name.startswith("on"):
                self.found.add((tag, name))
            if name == "href" and not (value or "").startswith("#"):
                self.found.add((tag, f"{name}={value}"))


def test_nothing_in_the_page_can_fetch_or_run_anything_else(tmp_path: Path) -> None:
    parser = Attributes()
    parser.feed(report(tmp_path).decode())

    assert parser.found == set()


def test_names_and_notices_of_a_run_are_escaped(tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    rows = [scored(f"{name}{at}", 0, 1.0, agent_ref={"name": name + str(at)}) for at in range(2)]
    inputs = [materialized(row["_ng_task_index"], 0) for row in rows]
    page = report(tmp_path, rows, inputs=inputs)

    assert b"<img" not in page
    assert b"&lt;img src=x onerror=alert(1)&gt;" in page


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_compressed_files_give_the_same_tables_and_transcripts(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    plain = blocks(report(tmp_path))
    run = Run.write(tmp_path, ROLLOUTS, inputs=INPUTS)
    packed = []
    for path in (run.paths.materialized_inputs, run.paths.output):
        packed.append(path.with_name(path.name + ".packed"))
        packed[-1].write_bytes(pack(path.read_bytes()))
    write_report(load_run(*packed, allow_partial=True), tmp_path / "packed.html")

    assert blocks((tmp_path / "packed.html").read_bytes()) == plain


def test_rollouts_that_changed_meanwhile_leave_the_old_report(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    frame = run.load()
    run.paths.report.write_text("old")
    run.paths.output.write_text(json.dumps(scored(8, 0, 1.0)) + "\n")

    with pytest.raises(InputDataError, match="changed while it was being profiled"):
        write_report(frame, run.paths.report)

    assert run.paths.report.read_text() == "old"


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    response = {"output": [{"role": "assistant", "content": "caf?"}]}
    run = Run.write(tmp_path, [scored(0, 0, 1.0) | {"response": response}])
    run.paths.output.write_bytes(run.paths.output.read_bytes().replace(b"caf?", b"caf\xe9"))
    write_report(run.load(), run.paths.report)

    found = blocks(run.paths.report.read_bytes())["rollouts-0"]["rollouts"][0]
    assert found["said"] == [["assistant", "", "caf\ufffd"]]


def test_shards_are_one_report(tmp_path: Path) -> None:
    whole = blocks(report(tmp_path))
    shards = [tmp_path / f"part{number}.jsonl" for number in range(2)]
    for number, path in enumerate(shards):
        path.write_text(lines(ROLLOUTS[number::2]))
    inputs = tmp_path / "rollouts_materialized_inputs.jsonl"
    write_report(load_run(inputs, shards, allow_partial=True), tmp_path / "shards.html")

    assert blocks((tmp_path / "shards.html").read_bytes()) == whole


@pytest.mark.parametrize("rewards", [[0.0], [-3.5, -3.5], [2.0, 1.0, 0.25], [1e9, -1e9]])
def test_rewards_of_all_kinds_are_drawn(tmp_path: Path, rewards: list[float]) -> None:
    rows = [scored(0, at, reward) for at, reward in enumerate(rewards)]
    run = Run.write(tmp_path, rows)
    write_report(run.load(), run.paths.report)

    page = run.paths.report.read_text()
    assert "NaN" not in page
    assert "nan" not in re.findall(r'<svg class="chart".*?</svg>', page, re.DOTALL)[0]


FAILED_ROW = failed(0, 1, "verifier_error") | {
    "_ng_failure_layer": "verifier/runtime",
    "_ng_failure_terminal": True,
    "cause": "verifier.raises",
    "message": "shelf/verify raised ValueError: four <is> not liked",
    "hint": "the model's answer is kept: palestra reverify --with-failures verifies it without the "
    "model",
    "hops": [{"server": "agent", "url": "in-process/run", "status": 500, "body": "oh"}],
    "traceback": "shelf.py:6 in verify",
    "response": {"output": [{"role": "assistant", "content": "It is 4."}]},
}


def test_a_failed_rollout_is_shown_with_its_reason_its_remedy_and_the_kept_answer(
    tmp_path: Path,
) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=INPUTS[:2], failures=[FAILED_ROW])
    write_report(run.load(allow_partial=True), run.paths.report)
    page = run.paths.report.read_bytes()
    rollout = blocks(page)["rollouts-0"]["rollouts"][0]
    failure = rollout["failure"]

    assert (rollout["index"], rollout["why"]) == (1, "failed")
    assert (failure["class"], failure["layer"]) == ("verifier_error", "verifier/runtime")
    assert failure["cause"] == "verifier.raises"
    assert failure["message"] == "shelf/verify raised ValueError: four <is> not liked"
    assert failure["remedy"].startswith("once the verifier (or judge)")
    assert "is fixed, palestra reverify" in failure["remedy"]
    assert failure["hops"] == [["agent", "500", "oh"]]
    assert failure["traceback"] == "shelf.py:6 in verify"
    assert rollout["said"] == [["assistant", "", "It is 4."]]
    assert b"four &lt;is&gt; not liked" in page


def test_a_failure_has_the_layer_that_the_doctor_gives_it(tmp_path: Path) -> None:
    row = failed(0, 1, "judge_error") | {
        "_ng_failure_layer": "verifier/runtime",
        "message": "judge_model answered 429 (slow down)",
    }
    run = Run.write(
        tmp_path,
        [scored(0, 0, 1.0)],
        inputs=[materialized(0, 0), materialized(0, 1)],
        failures=[row],
    )
    write_report(run.load(allow_partial=True), run.paths.report)
    page = run.paths.report.read_text()

    assert "throughput/resources" in page
    assert "throughput.rate-limited" in page
    assert "verifier/runtime" not in page


def test_an_answer_that_only_an_earlier_attempt_kept_is_shown(tmp_path: Path) -> None:
    last = failed(0, 1, "timeout", attempt=2) | {"_ng_failure_terminal": True}
    failures = [FAILED_ROW | {"attempt": 1, "_ng_failure_terminal": False}, last]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=INPUTS[:2], failures=failures)
    write_report(run.load(allow_partial=True), run.paths.report)
    rollout = blocks(run.paths.report.read_bytes())["rollouts-0"]["rollouts"][0]

    assert rollout["failure"]["class"] == "timeout"
    assert rollout["said"] == [["assistant", "", "It is 4."]]


def test_a_run_without_a_score_has_a_report_of_its_failures(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [], inputs=INPUTS[:2], failures=[FAILED_ROW])
    write_report(run.load(allow_partial=True, allow_unscored=True), run.paths.report)
    found = blocks(run.paths.report.read_bytes())

    assert found["table-data"]["task"] == ["0"]
    assert found["table-data"]["missing"] == [2]
    assert [r["why"] for r in found["rollouts-0"]["rollouts"]] == ["failed"]


def test_failures_of_one_kind_are_one_entry_with_their_number(tmp_path: Path) -> None:
    failures = [
        FAILED_ROW | {"_ng_rollout_index": at, "message": f"no answer after {at} s"}
        for at in (1, 2, 3)
    ]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=INPUTS[:4], failures=failures)
    write_report(run.load(allow_partial=True), run.paths.report)
    page = run.paths.report.read_text()

    assert page.count("<h3>verifier_error ") == 1
    assert "3 rollouts" in page
    assert "scores 3 by the kept answers" in page


def test_failures_that_differ_in_a_quoted_value_are_one_entry(tmp_path: Path) -> None:
    failures = [
        FAILED_ROW | {"_ng_rollout_index": at, "message": f"verify: invalid number: {text!r}"}
        for at, text in enumerate(("ten", "about 'six'", "none"), start=1)
    ]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=INPUTS[:4], failures=failures)
    write_report(run.load(allow_partial=True), run.paths.report)

    assert run.paths.report.read_text().count("<h3>verifier_error ") == 1


def test_a_large_run_shows_the_extremes_and_each_failure_of_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palestra.analysis.report.write.ALL_ROLLOUTS", 4)
    rows = [scored(0, at, at / 8) for at in range(6)]
    inputs = [materialized(0, at) for at in range(8)]
    failures = [FAILED_ROW | {"_ng_rollout_index": at} for at in (6, 7)]
    run = Run.write(tmp_path, rows, inputs=inputs, failures=failures)
    write_report(run.load(allow_partial=True), run.paths.report)
    page = run.paths.report.read_bytes()
    shown = blocks(page)["rollouts-0"]["rollouts"]

    assert [(r["index"], r["why"]) for r in shown] == [
        (6, "failed"),
        (7, "failed"),
        (5, "best"),
        (0, "worst"),
        (2, "median"),
    ]
    assert b"of each its best, worst and median rollout, and every failed one" in page


def test_the_title_and_the_head_say_which_run_it_is(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    model = {"type": "responses_api_models", "name": "policy_model"}
    servers = {
        "shelf": {
            "type": "resources_servers",
            "implementation": "environment_file",
            "settings": {"path": "/work/shelf.py", "settings": {"difficulty": 5}},
        },
        "shelf_agent": {
            "type": "responses_api_agents",
            "implementation": "simple_agent",
            "settings": {
                "resources_server": {"type": "resources_servers", "name": "shelf"},
                "model_server": model,
            },
        },
        "policy_model": {
            "type": "responses_api_models",
            "implementation": "vllm_model",
            "settings": {"model": "Qwen/Qwen3-4B"},
        },
    }
    semantics = {
        "servers": servers,
        "agent_name": "shelf_agent",
        "responses_create_params": {"temperature": 0.7},
        "num_repeats": 8,
        "code": {"shelf": "0123456789abcdef"},
    }
    Manifest(
        "rows", semantics, 1, 1, "0.1.0", command="palestra eval shelf.py", started_at=1.8e9
    ).write(run.paths.manifest)
    write_report(run.load(), run.paths.report)
    page = run.paths.report.read_text()

    assert "<title>shelf · Qwen/Qwen3-4B · 2027-01-15 08:00</title>" in page
    for name, value in (
        ("temperature", "0.7"),
        ("repeats", "8"),
        ("difficulty", "5"),
        ("verifier", "code 0123456789ab"),
        ("Palestra", "0.1.0"),
    ):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in page
    assert "palestra eval shelf.py" in page


def test_the_tools_that_were_offered_are_listed_once(tmp_path: Path) -> None:
    tools = [{"type": "function", "name": "take", "description": "Take it.", "parameters": {}}]
    rows = [scored(0, at, 1.0) for at in range(2)]
    for row in rows:
        row["response"] |= {"tools": tools}
    found = blocks(report(tmp_path, rows, inputs=INPUTS[:2]))

    assert found["tools"] == [[["take", "Take it.", "{}"]]]
    assert [r["tools"] for r in found["rollouts-0"]["rollouts"]] == [0, 0]


def test_the_parts_of_a_reward_have_a_table(tmp_path: Path) -> None:
    rows = [scored(0, at, 1.0, reward_components={"state": at, "polite": 0.1}) for at in range(2)]
    page = report(tmp_path, rows, inputs=INPUTS[:2])

    assert b'<th scope="row">polite</th>' in page
    assert b"0.500" in page


def test_two_rollouts_of_five_tasks_carry_no_conclusion(tmp_path: Path) -> None:
    rows = [scored(t, r, float(r), tokens=10 + r) for t in range(5) for r in range(2)]
    inputs = [materialized(t, r) for t in range(5) for r in range(2)]
    page = report(tmp_path, rows, inputs=inputs).decode()

    for conclusion in ("correlate", "Longer answers", "often can", "Most learnable"):
        assert conclusion not in page


def test_many_rollouts_of_many_tasks_carry_conclusions(tmp_path: Path) -> None:
    rows = [scored(t, r, float(r % 2), tokens=10 + r % 2) for t in range(20) for r in range(8)]
    inputs = [materialized(t, r) for t in range(20) for r in range(8)]
    page = report(tmp_path, rows, inputs=inputs).decode()

    for conclusion in ("correlate", "Longer answers win", "often can, but not reliably"):
        assert conclusion in page


def test_failures_are_shown_by_class(tmp_path: Path) -> None:
    run = Run.write(
        tmp_path, [scored(0, 0, 1.0)], inputs=INPUTS[:4], failures=[failed(0, 1, "timeout")]
    )
    write_report(run.load(allow_partial=True), run.paths.report)

    page = run.paths.report.read_text()
    assert "timeout" in page
    assert "no trace" in page
