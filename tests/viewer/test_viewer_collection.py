"""A real collection in the viewer, while it goes on."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_rows_of_a_real_collection_are_shown_and_a_killed_viewer_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(ENVIRONMENT)
    environment = {"PALESTRA_RUN_DIR": str(tmp_path / "run-dir")}
    output = RunPaths(tmp_path / "runs" / "a" / "rollouts.jsonl").output
    with scripted_endpoint(*["1"] * 40) as endpoint:
        may_answer = threading.Semaphore(3)
        answer = endpoint.answer

        def answer_when_allowed(request: Any) -> Any:
            may_answer.acquire(timeout=WAIT_S)
            return answer(request)

        endpoint.answer = answer_when_allowed  # type: ignore[method-assign]
        command = [sys.executable, "-m", "palestra", "eval", "sums.py", "--output", str(output)]
        command += ["--model", f"vllm:{endpoint.url}", "--concurrency", "1"]
        env = {**os.environ, **environment, "PALESTRA_CACHE_DIR": str(tmp_path / "cache")}
        log = (tmp_path / "log").open("wb")
        with log, subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log) as run:
            try:
                wait_until(lambda: rows_in(output) >= 1)
                cache = tmp_path / "cache"
                with viewing(output, cache=cache, environment=environment) as viewer:
                    wait_until(lambda: rows_shown(viewer) >= 1)
                    may_answer.release(3)
                    wait_until(lambda: rows_in(output) >= 4)
                    assert wait_until(lambda: rows_shown(viewer) >= 4) < SHOWN_S
                    [line] = viewer.ask("/api/runs")["runs"]
                    assert (line["state"], line["requested"]) == ("running", 40)
                    viewer.process.kill()
                    viewer.process.wait()
                may_answer.release(40)
                with viewing(output, cache=cache, environment=environment) as viewer:
                    wait_until(lambda: rows_shown(viewer) == 40)
                assert run.wait(WAIT_S) == 0, (tmp_path / "log").read_text()
            finally:
                run.kill()
