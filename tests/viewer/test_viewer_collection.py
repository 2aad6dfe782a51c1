"""A real collection in the viewer, while it goes on."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from palestra.schema import RunPaths
from palestra.testing import scripted_endpoint
from viewed_runs import Viewer, viewing

ENVIRONMENT = """
from palestra import environment

@environment(
    data=[{"question": f"1+{at}", "total": 1 + at} for at in range(40)],
    prompt="Add the two numbers: {question}",
)
def verify(answer: str, total: int) -> float:
    return float(answer == str(total))
"""
SHOWN_S = 2.0
HELD_S = 3.0
"""A request that has waited so long is held back by the test."""
SAME = ("task", "rollout", "attempt", "agent", "phase", "awaiting")
WAIT_S = 60.0


def wait_until(is_reached: Callable[[], Any]) -> float:
    """Return the seconds until it is reached."""
    began = time.monotonic()
    while not is_reached():
        assert time.monotonic() - began < WAIT_S
        time.sleep(0.05)
    return time.monotonic() - began


def rows_in(output: Path) -> int:
    return output.read_bytes().count(b"\n") if output.exists() else 0


def rows_shown(viewer: Viewer) -> int:
    runs = viewer.ask("/api/runs")["runs"]
    pages = [viewer.ask(f"/api/r/{run['id']}/rollouts?q=outcome:scored") for run in runs]
    return sum(page["matches"] for page in pages)


@dataclass
class Collecting:
    """A collection whose model answers as often as it may. `environment`: finds it."""

    output: Path
    cache: Path
    process: "subprocess.Popen[bytes]"
    may_answer: threading.Semaphore
    environment: Mapping[str, str]

    def viewed(self) -> AbstractContextManager[Viewer]:
        return viewing(self.output, cache=self.cache, environment=self.environment)


@contextmanager
def collecting(folder: Path) -> Iterator[Collecting]:
    """A real collection of forty rows, three of which may end at once."""
    (folder / "sums.py").write_text(ENVIRONMENT)
    environment = {"PALESTRA_RUN_DIR": str(folder / "run-dir")}
    output = RunPaths(folder / "runs" / "a" / "rollouts.jsonl").output
    with scripted_endpoint(*["1"] * 40) as endpoint:
        may_answer = threading.Semaphore(3)
        answer = endpoint.answer

        def answer_when_allowed(request: Any) -> Any:
            may_answer.acquire(timeout=WAIT_S)
            return answer(request)

        endpoint.answer = answer_when_allowed  # type: ignore[method-assign]
        command = [sys.executable, "-m", "palestra", "eval", "sums.py", "--output", str(output)]
        command += ["--model", f"vllm:{endpoint.url}", "--concurrency", "1"]
        cache = folder / "cache"
        env = {**os.environ, **environment, "PALESTRA_CACHE_DIR": str(cache)}
        log = (folder / "log").open("wb")
        with log, subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log) as run:
            try:
                yield Collecting(output, cache, run, may_answer, environment)
            finally:
                may_answer.release(40)
                run.kill()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_rows_of_a_real_collection_are_shown_and_a_killed_viewer_goes_on(tmp_path: Path) -> None:
    with collecting(tmp_path) as run:
        wait_until(lambda: rows_in(run.output) >= 1)
        with run.viewed() as viewer:
            wait_until(lambda: rows_shown(viewer) >= 1)
            run.may_answer.release(3)
            wait_until(lambda: rows_in(run.output) >= 4)
            assert wait_until(lambda: rows_shown(viewer) >= 4) < SHOWN_S
            [line] = viewer.ask("/api/runs")["runs"]
            assert (line["state"], line["requested"]) == ("running", 40)
            viewer.process.kill()
            viewer.process.wait()
        run.may_answer.release(40)
        with run.viewed() as viewer:
            wait_until(lambda: rows_shown(viewer) == 40)
        assert run.process.wait(WAIT_S) == 0, (tmp_path / "log").read_text()


def asked(run: Collecting) -> Any:
    """What `palestra status --rollouts --json` prints of the collection."""
    command = [sys.executable, "-m", "palestra", "status", "--rollouts", "--json"]
    env = {**os.environ, **run.environment}
    done = subprocess.run(command, capture_output=True, check=True, timeout=WAIT_S, env=env)
    [collection] = json.loads(done.stdout)["collections"]
    return collection


def first(lines: Iterator[Any], is_wanted: Callable[[Any], Any]) -> Any:
    """The first line of a stream that is wanted."""
    deadline = time.monotonic() + WAIT_S
    for line in lines:
        if is_wanted(line):
            return line
        assert time.monotonic() < deadline, line
    raise AssertionError("the stream ended")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_live_streams_follow_a_real_collection_to_its_end(tmp_path: Path) -> None:
    with collecting(tmp_path) as run, ExitStack() as stack:
        wait_until(lambda: rows_in(run.output) >= 1)
        viewer = stack.enter_context(run.viewed())
        [listed] = viewer.ask("/api/runs")["runs"]
        lines = viewer.lines(f"/api/r/{listed['id']}/live")
        live = first(lines, lambda line: [j for j in line["oldest"] if j["awaiting_s"] > HELD_S])
        runs = first(viewer.lines("/api/live"), lambda line: line["runs"][0]["in_flight"])
        answer = asked(run)

        ended = [entry["scored"] for entry in (live["run"], runs["runs"][0], answer)]
        assert ended == [rows_in(run.output)] * 3
        assert live["base"]["rows"] == 40
        assert (live["run"]["state"], live["run"]["in_flight"]) == ("running", 1)
        [job], [in_flight] = live["oldest"], answer["in_flight"]
        assert {name: job[name] for name in SAME} == {name: in_flight[name] for name in SAME}
        [phase] = live["phases"]
        assert (phase["phase"], phase["awaiting"]) == (job["phase"], job["awaiting"])
        assert phase["count"] == 1

        run.may_answer.release(40)
        ended = first(lines, lambda line: line["run"]["state"] == "done")
        assert (ended["run"]["scored"], ended["oldest"], ended["phases"]) == (40, [], [])
