"""The index of a run: what it holds, what it meets, and where it is."""

import gzip
import json
import os
import stat
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
import pytest
from indexed_runs import content, fresh, indexed, keys

from packers import zstd
from palestra.analysis import profile_tasks
from palestra.errors import InputDataError
from palestra.schema import MAX_ROW_BYTES
from palestra.viewer.index import (
    FieldKind,
    RunChanged,
    RunPart,
    SplitRow,
    forget,
    open_index,
    read_row,
)
from palestra.viewer.index.bounds import IndexBounds, size_of
from palestra.viewer.index.opening import run_digest
from profiled_runs import Run, failed, materialized, scored

FILES = Path("/proc/self/fd")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "run"
    folder.mkdir()
    rows = [scored(t, r, float(r), tokens=10 * t + r) for t in range(3) for r in range(2)]
    inputs = [materialized(t, r, family=f"f{t % 2}") for t in range(4) for r in range(2)]
    failures = [failed(3, 0, "timeout"), failed(3, 0, "judge_error", 2)]
    return Run.write(folder, rows, inputs=inputs, failures=failures)


def test_every_requested_rollout_has_an_outcome(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        table = snapshot.rollouts
        counts = {facet.value: facet.count for facet in table.facet(table.select(""), "outcome")}

    assert counts == {"scored": 6, "judge_error": 1, "not ended": 1}


def test_a_frame_from_the_index_is_the_loaded_run(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path, group_by="family") as snapshot:
        frame = snapshot.frame()

    loaded = run.load(allow_partial=True, group_by="family")
    assert frame.unscored == loaded.unscored
    assert frame.completeness == loaded.completeness
    assert frame.rollouts.columns.whole == loaded.rollouts.columns.whole
    assert list(frame.rollouts.columns.values) == list(loaded.rollouts.columns.values)
    assert frame.families is not None
    assert loaded.families is not None
    assert frame.families.names == loaded.families.names
    assert list(profile_tasks(frame)) == list(profile_tasks(loaded))


def test_the_columns_of_tasks_are_those_of_the_profile(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        tasks = snapshot.tasks
        rows = tasks.page(
            tasks.select("scored>0"), fields=["mean", "pass_rate", "learnability"]
        ).rows

    profiled = list(profile_tasks(run.load(allow_partial=True)))
    assert [row["pass_rate"] for row in rows] == [task["pass_rate"] for task in profiled]
    assert [row["learnability"] for row in rows] == [task["learnability"] for task in profiled]
    assert [row["mean"] for row in rows] == [task["mean/reward"] for task in profiled]


def test_rows_are_read_by_their_place(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        row = snapshot.find(2, 1)
        assert row is not None
        place = snapshot.place(row, RunPart.RESULT)
        assert place is not None
        attempts = snapshot.attempts(snapshot.find(3, 0) or 0)

    assert json.loads(read_row(place))["_ng_task_index"] == 2
    assert read_row(place, start=1, length=10) == read_row(place)[1:11]
    assert [json.loads(read_row(attempt))["attempt"] for attempt in attempts] == [1, 2]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def rewrite(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes())


@pytest.mark.parametrize("change", [cut, rewrite, Path.unlink])
def test_a_row_of_a_changed_file_is_not_shown(
    run: Run, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        place = snapshot.place(5, RunPart.RESULT)
        assert place is not None
        change(run.paths.output)

        with pytest.raises(RunChanged):
            read_row(place)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{torn", "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[" * 100_000 + b"]" * 100_000, "not JSON"),
        (b"17", "not a JSON object"),
    ],
)
def test_a_line_that_is_no_row_is_listed(
    run: Run, tmp_path: Path, line: bytes, reason: str
) -> None:
    run.paths.output.write_bytes(line + b"\n\n" + run.paths.output.read_bytes())

    with indexed(run.paths.output, tmp_path) as snapshot:
        [problem] = snapshot.problems
        assert (problem.path, problem.line) == (run.paths.output, 1)
        assert reason in problem.reason
        assert len(snapshot.rollouts) == 8


def test_a_prompt_that_is_not_utf_8_is_shown_as_far_as_it_is(run: Run, tmp_path: Path) -> None:
    inputs = run.paths.materialized_inputs
    inputs.write_bytes(inputs.read_bytes().replace(b"question", b"q\xffn"))

    with indexed(run.paths.output, tmp_path) as snapshot:
        [row] = snapshot.tasks.page(np.array([0]), count=1, fields=("prompt",)).rows
        assert row["prompt"].startswith("q\ufffdn")


@pytest.mark.slow
def test_a_line_longer_than_a_row_may_be_is_passed_over(run: Run, tmp_path: Path) -> None:
    rows = run.paths.output.read_bytes()
    run.paths.output.write_bytes(b" " * (MAX_ROW_BYTES + 1) + b"\n" + rows)

    with indexed(run.paths.output, tmp_path) as snapshot:
        [problem] = snapshot.problems
        assert f"{MAX_ROW_BYTES:,}" in problem.reason
        assert len(snapshot.rollouts) == 8


def test_what_follows_the_last_line_break_waits(run: Run, tmp_path: Path) -> None:
    row = json.dumps(scored(3, 1, 1.0))
    with open_index([run.paths.output], cache=tmp_path) as index:
        index.refresh(inf)
        with run.paths.output.open("a") as file:
            file.write(row)
        index.refresh(inf)
        assert keys(index, "task:3 outcome:scored") == []
        with run.paths.output.open("a") as file:
            file.write("\n")
        index.refresh(inf)
        assert keys(index, "task:3 outcome:scored") == [(3, 1)]


def test_rows_of_other_tools_are_shown_by_line(tmp_path: Path) -> None:
    output = tmp_path / "other.jsonl"
    output.write_text('{"reward": 1, "note": "a"}\n{"score": NaN, "text": "\\ud800"}\n')

    with indexed(output, tmp_path / "cache") as snapshot:
        table = snapshot.rollouts
        page = table.page(table.select(""), fields=["task", "line", "outcome", "note"])

    assert [list(row.values()) for row in page.rows] == [
        [None, 1, "scored", "a"],
        [None, 2, "no reward", None],
    ]
    assert len(snapshot.notices) == 2


def test_a_key_that_occurs_twice_is_marked_and_has_no_frame(run: Run, tmp_path: Path) -> None:
    with run.paths.output.open("a") as file:
        file.write(json.dumps(scored(0, 0, 7.0)) + "\n")

    with indexed(run.paths.output, tmp_path) as snapshot:
        assert keys(snapshot, "duplicate:true") == [(0, 0)]
        assert keys(snapshot, "reward:7") == []
        with pytest.raises(InputDataError):
            snapshot.frame()


def test_rollouts_whose_inputs_are_an_empty_file_have_no_frame(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=[])
    with indexed(run.paths.output, tmp_path / "cache") as snapshot:
        with pytest.raises(InputDataError, match="no materialized"):
            snapshot.frame()
        assert len(snapshot.rollouts) == 1


def test_more_fields_than_the_index_takes_are_told(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    rows = [scored(t, 0, 1.0, **{f"n{t}": 1, f"t{t}": "x"}) for t in range(300)]
    output.write_text("".join(json.dumps(row) + "\n" for row in rows))

    with indexed(output, tmp_path / "cache") as snapshot:
        assert len(snapshot.rollouts.fields) < 450
        assert any("more fields" in notice for notice in snapshot.notices)


def packed(path: Path, suffix: str) -> Path:
    data = path.read_bytes()
    compressed = gzip.compress(data) if suffix == ".gz" else zstd.compress(data)
    target = path.with_name(path.name + suffix)
    target.write_bytes(compressed)
    path.unlink()
    return target


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_are_indexed_and_read_like_plain_ones(
    run: Run, tmp_path: Path, suffix: str
) -> None:
    plain = fresh(run.paths.output, tmp_path / "plain")
    rows = run.paths.output.read_bytes().splitlines()
    output = packed(run.paths.output, suffix)

    with indexed(output, tmp_path / "packed") as snapshot:
        assert content(snapshot)["rollouts"] == plain["rollouts"]
        place = snapshot.place(5, RunPart.RESULT)
        assert place is not None
        assert place.frames is not None
        assert read_row(place) == rows[-1]


def test_a_damaged_packed_file_is_a_problem_and_what_was_read_stays(
    run: Run, tmp_path: Path
) -> None:
    output = packed(run.paths.output, ".gz")
    output.write_bytes(output.read_bytes()[:-9])

    with indexed(output, tmp_path) as snapshot:
        assert [problem.path for problem in snapshot.problems] == [output]
        assert len(snapshot.rollouts) == 8


# Where it is


def test_nothing_is_written_beside_the_run_and_the_cache_is_private(
    run: Run, tmp_path: Path
) -> None:
    before = sorted(run.paths.output.parent.iterdir())
    with indexed(run.paths.output, tmp_path / "cache"):
        pass

    assert sorted(run.paths.output.parent.iterdir()) == before
    [folder] = (tmp_path / "cache" / "view").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_an_index_goes_on_where_it_ended(run: Run, tmp_path: Path) -> None:
    with open_index([run.paths.output], cache=tmp_path) as index:
        version = index.refresh(inf).version
    with open_index([run.paths.output], cache=tmp_path) as index:
        assert index.refresh(inf).version == version
        assert index.progress.rebuilt == ""


@pytest.mark.parametrize("name", ["results.task", "texts.heap", "commit.json", "results.offset"])
def test_a_damaged_index_is_built_anew(run: Run, tmp_path: Path, name: str) -> None:
    expected = fresh(run.paths.output, tmp_path)
    [file] = tmp_path.rglob(name)
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")

    with open_index([run.paths.output], cache=tmp_path) as index:
        assert content(index.refresh(inf)) == expected
        assert index.progress.rebuilt


def test_a_second_viewer_follows_and_takes_over(run: Run, tmp_path: Path) -> None:
    first = open_index([run.paths.output], cache=tmp_path)
    first.refresh(inf)
    with open_index([run.paths.output], cache=tmp_path) as second:
        second.refresh(inf)
        assert (second.progress.is_writer, len(keys(second))) == (False, 8)
        first.close()
        with run.paths.output.open("a") as file:
            file.write(json.dumps(scored(3, 1, 1.0)) + "\n")
        second.refresh(inf)
        assert second.progress.is_writer
        assert (3, 1) in keys(second, "outcome:scored")


def test_without_a_cache_the_index_is_in_memory(run: Run, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with open_index([run.paths.output], cache=blocked) as index:
        assert len(index.refresh(inf).rollouts) == 8
        assert index.progress.in_memory


def test_an_index_that_outgrows_the_bounds_goes_on_in_memory(run: Run, tmp_path: Path) -> None:
    with open_index(
        [run.paths.output], cache=tmp_path, bounds=IndexBounds(indexes_bytes=200)
    ) as index:
        assert not index.progress.in_memory
        index.refresh(inf)

        assert len(index.refresh(inf).rollouts) == 8
        assert "200 bytes" in index.progress.in_memory
        assert list(tmp_path.rglob("results.*")) == []


def test_a_disk_that_is_nearly_full_gets_no_index(run: Run, tmp_path: Path) -> None:
    with open_index(
        [run.paths.output], cache=tmp_path, bounds=IndexBounds(free_share=1.0)
    ) as index:
        assert len(index.refresh(inf).rollouts) == 8
        assert "free" in index.progress.in_memory


def test_an_index_in_memory_ends_at_its_bound(run: Run, tmp_path: Path) -> None:
    bounds = IndexBounds(free_share=1.0, memory_bytes=100)
    with open_index([run.paths.output], cache=tmp_path, bounds=bounds) as index:
        index.refresh(inf)

        assert "used up" in index.progress.in_memory


def test_the_index_that_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for number, name in enumerate("abc"):
        (tmp_path / name).mkdir()
        output = Run.write(tmp_path / name, [scored(0, 0, 1.0)]).paths.output
        with indexed(output, cache):
            pass
        folder = cache / "view" / run_digest([output])
        os.utime(folder, (number, number))
    size = size_of(folder)
    with open_index([output], cache=cache, bounds=IndexBounds(indexes_bytes=2 * size + size // 2)):
        kept = {path.name for path in (cache / "view").iterdir()}

    names = [run_digest([tmp_path / name / "rollouts.jsonl"]) for name in "bc"]
    assert kept == set(names)


def test_an_index_can_be_forgotten(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path, group_by="family"):
        pass

    assert forget([run.paths.output], cache=tmp_path) > 0
    assert list((tmp_path / "view").iterdir()) == []


def test_a_removed_run_keeps_its_table(run: Run, tmp_path: Path) -> None:
    with open_index([run.paths.output], cache=tmp_path) as index:
        before = index.refresh(inf)
        for path in run.paths.all():
            path.unlink(missing_ok=True)

        assert index.refresh(inf) is before


# Tables


def test_a_whole_number_in_a_small_range_has_a_bin_each(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        table = snapshot.rollouts
        histogram = table.histogram(table.select(""), "attempts")

    assert list(zip(histogram.edges, histogram.counts, strict=False)) == [
        (-0.5, 1),
        (0.5, 6),
        (1.5, 1),
    ]
    assert table.fields["attempts"].kind is FieldKind.NUMBER


def test_the_bins_of_a_long_tail_grow(tmp_path: Path) -> None:
    lengths = [*range(100, 200), 50_000]
    rows = [scored(task, 0, 1.0, tokens=tokens) for task, tokens in enumerate(lengths)]
    run = Run.write(tmp_path, rows)
    with indexed(run.paths.output, tmp_path) as snapshot:
        table = snapshot.rollouts
        histogram = table.histogram(table.select(""), "tokens.out")

    widths = np.diff(histogram.edges)
    assert (np.diff(widths) > 0).all()
    assert sum(histogram.counts) == len(lengths)
    assert np.count_nonzero(histogram.counts) > 2


def test_a_sort_puts_rows_without_the_field_last_both_ways(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        up = keys(snapshot, "task:2..3 sort:tokens.out")
        down = keys(snapshot, "task:2..3 sort:-tokens.out")

    assert up == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert down == [(2, 1), (2, 0), (3, 0), (3, 1)]


def test_a_rollout_without_a_reward_has_none(run: Run, tmp_path: Path) -> None:
    with indexed(run.paths.output, tmp_path) as snapshot:
        numbers = snapshot.rollouts.numbers("reward")

    assert np.isnan(numbers).sum() == 2


def test_an_outline_of_what_is_no_object_is_an_error() -> None:
    with pytest.raises(InputDataError):
        SplitRow(b"[1]")


@pytest.mark.skipif(not FILES.exists(), reason="counts the open files in /proc")
def test_a_small_run_keeps_no_file_open_while_it_is_looked_at(run: Run, tmp_path: Path) -> None:
    before = set(FILES.iterdir())

    with indexed(run.paths.output, tmp_path) as snapshot:
        snapshot.rollouts.page(snapshot.rollouts.select(""), count=10, fields=[])
        during = set(FILES.iterdir())

    assert len(during - before) <= 1  # the lock of the index's writer
