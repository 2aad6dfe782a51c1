"""Events for machines: what is told, and what happens when nobody takes it."""

import asyncio
import contextlib
import itertools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import ScriptedAgent, always, prepared, settings, task, write_rows

from palestra.errors import ConfigError, InfraError
from palestra.rollouts import EventFile, RolloutEvents, end_events, open_for_events, run
from palestra.schema import RolloutKey
from palestra.settings import SettingProblem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one task."""
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    return tmp_path


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


AN_HOUR_S = 3600.0


def collected(folder: Path, agent: ScriptedAgent) -> list[dict[str, Any]]:
    """The events of a collection, numbered by their `at`, whose rollouts end an hour late."""
    path, problems = folder / "events.jsonl", list[str]()
    numbers = itertools.count(1.0)
    fd = open_for_events(str(path))
    with EventFile(fd, on_problem=problems.append, clock=numbers.__next__) as events:
        ready, given = prepared(folder), settings(folder)
        observer = RolloutEvents(events, clock=lambda: time.monotonic() + AN_HOUR_S)
        asyncio.run(run(ready, given, agent.client, observers=[observer]))
    assert problems == []
    return events_of(path)


def test_a_scored_rollout_is_told_from_start_to_end(folder: Path) -> None:
    started, ended = collected(folder, always(0.5))

    assert (started["event"], started["task"], started["rollout"]) == ("rollout_started", 0, 0)
    assert (ended["event"], ended["outcome"], ended["reward"]) == ("rollout_ended", "scored", 0.5)
    assert (ended["attempts"], ended["agent"]) == (1, "agent")
    assert AN_HOUR_S <= ended["elapsed_s"] < 2 * AN_HOUR_S
    assert (started["at"], ended["at"]) == (1.0, 2.0)


def test_each_failed_attempt_is_told_with_its_cause(folder: Path) -> None:
    def script(_key: RolloutKey, attempt: int) -> float:
        if attempt < 3:
            raise InfraError("connection reset")
        return 1.0

    events = collected(folder, ScriptedAgent(script))

    assert [event["event"] for event in events] == [
        *("rollout_started", "attempt_failed", "attempt_failed", "rollout_ended")
    ]
    failed = events[1]
    assert (failed["class"], failed["layer"], failed["attempt"]) == ("infra_error", "infra", 1)
    assert (failed["message"], failed["terminal"]) == ("connection reset", False)
    assert failed["hops"][0]["server"] == "agent"
    assert events[-1]["attempts"] == 3


def test_a_rollout_that_failed_ends_without_a_reward(folder: Path) -> None:
    ended = collected(folder, always(InfraError("gone")))[-1]

    assert (ended["outcome"], ended["reward"], ended["attempts"]) == ("infra_error", None, 3)


def test_events_are_added_to_those_of_earlier_runs(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for number in (1, 2):
        with EventFile(open_for_events(str(path)), on_problem=pytest.fail) as events:
            events.emit("progress", number=number)

    assert [event["number"] for event in events_of(path)] == [1, 2]


def test_events_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with (
        os.fdopen(reading) as reader,
        EventFile(os.dup(writing), on_problem=pytest.fail) as events,
    ):
        events.emit("progress")
        assert json.loads(reader.readline())["event"] == "progress"
    os.close(writing)


def test_a_full_disk_is_one_warning_and_nothing_more() -> None:
    problems: list[SettingProblem] = []
    warned = threading.Event()

    def on_problem(problem: SettingProblem) -> None:
        problems.append(problem)
        warned.set()

    with EventFile(open_for_events("/dev/full"), on_problem=on_problem) as events:
        events.emit("progress")
        assert warned.wait(10)
        events.emit("progress")

    texts = [problem.text(["--json-events", "/dev/full"]) for problem in problems]
    assert texts == ["--json-events: No space left on device; no further events are written"]


def test_a_reader_who_went_away_is_one_warning(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    problems: list[SettingProblem] = []
    with EventFile(writing, on_problem=problems.append) as events:
        events.emit("progress")

    texts = [problem.text(["+json_events=-"]) for problem in problems]
    assert texts == ["json_events: Broken pipe; no further events are written"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no/such/folder/events.jsonl", "No such file or directory"),
        ("/", "Is a directory"),
        ("/dev/fd/9999", "Bad file descriptor"),
    ],
)
def test_what_cannot_be_written_is_said_at_the_start(target: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot write to '{target}': {reason}"):
        open_for_events(target)


def test_a_pipe_that_nobody_reads_is_no_reason_to_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no process reads that pipe"):
        open_for_events(str(tmp_path / "pipe"))


def test_the_last_event_of_a_killed_process_is_told_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event":"run_started"}\n{"event":"rollout_st')

    end_events(str(path), code=1, message="killed", since=0.0)

    torn, last = path.read_text().splitlines()[1:]
    assert torn == '{"event":"rollout_st'
    assert (json.loads(last)["event"], json.loads(last)["exit"]) == ("run_ended", 1)


@pytest.mark.parametrize(("since", "exits"), [(4.0, [0]), (6.0, [0, 1])])
def test_an_end_that_this_process_has_written_is_told_once(
    tmp_path: Path, since: float, exits: list[int]
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event":"run_ended","at":5.0,"exit":0}\n')

    end_events(str(path), code=1, message="killed", since=since)

    assert [json.loads(line)["exit"] for line in path.read_text().splitlines()] == exits


@pytest.mark.slow
def test_the_last_event_does_not_wait_for_a_reader_who_has_stopped() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)

    with pytest.raises(TimeoutError):
        end_events(f"/dev/fd/{writing}", code=1, message="killed" * 4096, since=0.0)

    os.close(reading)
    os.close(writing)
