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
import zstandard

from palestra.analysis import load_run, write_report
from palestra.analysis.report.write import ENDING_BYTES
from palestra.cli.profiling_commands import profile_files
from palestra.errors import InputDataError
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
    files = profile_files(
        str(paths.materialized_inputs), str(paths.output), allow_partial=False, group_by=None
    )

    assert list(files) == [paths.output]
    assert paths.report == tmp_path / "rollouts_report.html"
    assert paths.report.read_bytes().startswith(b"<!doctype html>")
    assert str(paths.report) in capsys.readouterr().out


def test_every_task_is_in_the_table_and_has_its_transcripts(tmp_path: Path) -> None:
    found = blocks(report(tmp_path))

    assert found["table-data"]["task"] == [str(task) for task in range(6)]
    assert found["table-data"]["groups"] == ["agent_0", "agent_1"]
    assert [rollout["why"] for rollout in found["rollouts-2"]["rollouts"]] == ["best", "worst"]
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


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
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


def test_failures_are_shown_by_class(tmp_path: Path) -> None:
    run = Run.write(
        tmp_path, [scored(0, 0, 1.0)], inputs=INPUTS[:4], failures=[failed(0, 1, "timeout")]
    )
    write_report(run.load(allow_partial=True), run.paths.report)

    page = run.paths.report.read_text()
    assert "timeout" in page
    assert "no trace" in page
