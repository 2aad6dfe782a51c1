"""A viewer over a run that grows: killed and started again, and beside another viewer."""

import json
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from listed_runs import answered, write_run
from palestra.engine import Accounting
from palestra.errors import ConfigError
from palestra.rollouts import Progress, announced
from palestra.viewer.serving import Door, listening_socket, redirect_file, ssh_lines
from viewed_runs import Viewer, viewing

WAIT_S = 30.0
REQUESTED = 40


def append(output: Path, tasks: range) -> None:
    with output.open("a") as file:
        file.writelines(json.dumps(answered(task, task % 2)) + "\n" for task in tasks)


def rows_of(viewer: Viewer) -> Callable[[], int]:
    [run] = viewer.ask("/api/runs")["runs"]
    return lambda: len(
        viewer.ask(f"/api/r/{run['id']}/rollouts?q=outcome:scored&limit=500")["rows"]
    )


def wait_until(value: Callable[[], Any], expected: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while (last := value()) != expected:
        assert time.monotonic() < deadline, last
        time.sleep(0.1)


@contextmanager
def live(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The output of a run that a collection of this process announces."""
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(folder / "run-dir"))
    output = write_run(folder / "a", [answered(0, 1)], requested=REQUESTED)
    with announced(output, Progress(Accounting(REQUESTED))):
        yield output


@pytest.mark.slow
def test_a_viewer_that_was_killed_goes_on_with_a_live_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    with live(tmp_path, monkeypatch) as output:
        with viewing(output, cache=cache) as viewer:
            wait_until(rows_of(viewer), 1)
            append(output, range(1, 20))
            viewer.process.kill()
        append(output, range(20, 30))
        with viewing(output, cache=cache) as viewer:
            wait_until(rows_of(viewer), 30)
            [run] = viewer.ask("/api/runs")["runs"]
            append(output, range(30, 31))
            wait_until(rows_of(viewer), 31)

    assert (run["state"], run["requested"]) == ("running", REQUESTED)


@pytest.mark.slow
def test_two_viewers_show_one_run_and_one_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    with live(tmp_path, monkeypatch) as output, viewing(output, cache=cache) as first:
        wait_until(rows_of(first), 1)
        with viewing(output, cache=cache) as second:
            append(output, range(1, 10))
            wait_until(rows_of(first), 10)
            wait_until(rows_of(second), 10)
            first.process.kill()
            first.process.wait()
            append(output, range(10, 12))
            wait_until(rows_of(second), 12)


@pytest.mark.slow
def test_ctrl_c_ends_a_viewer_without_an_error(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1)
    with viewing(output, cache=tmp_path / "cache") as viewer:
        viewer.ask("/api/session")

    assert viewer.process.returncode == 0


def test_nothing_is_written_beside_a_run(tmp_path: Path) -> None:
    from viewer_world import viewing as viewing_here

    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1)
    before = sorted(output.parent.iterdir())
    with viewing_here(output, cache=tmp_path / "cache") as world:
        world.get("/api/r/RUN/figures")

    assert sorted(output.parent.iterdir()) == before


def test_the_file_that_redirects_is_for_this_user_only(tmp_path: Path) -> None:
    path = redirect_file(tmp_path, "http://127.0.0.1:7717/#token=a&b")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "#token=a&amp;b" in path.read_text()


def test_a_port_that_is_taken_is_an_error() -> None:
    with listening_socket(Door(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            listening_socket(Door(port=port))


def test_under_ssh_the_tunnel_is_named() -> None:
    environ = {"SSH_CONNECTION": "10.0.0.9 5000 10.0.0.1 22", "USER": "ada"}

    [line] = ssh_lines(7717, environ)
    assert line.endswith("ssh -N -L 7717:127.0.0.1:7717 ada@10.0.0.1")
    assert list(ssh_lines(7717, {})) == []
