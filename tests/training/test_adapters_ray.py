"""The Ray actor on a real Ray of this machine, broken in the ways in which runs break."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from outcome_samples import FIRST, completed
from ray_rollouts import RESULT

from palestra.errors import ConfigError, RunFailed
from palestra.training import IncompleteRollouts, Key, RolloutRequest
from palestra.training.adapters import ray as adapter
from palestra.training.adapters.ray import Landed
from ray_programs import ray_folder, run_with_ray, started_with

HERE = Path(__file__).parent
PROJECT = HERE / "ray_project"
MIB = 1 << 20
TOP = Path("/sys/fs/cgroup")
AGENT_MIB = 400
WITHIN_S = 10
"""The contract's. On a machine that does nothing else it takes hundredths of a second."""


@pytest.fixture(scope="module")
def folder() -> Iterator[str]:
    with ray_folder() as made:
        yield made


@pytest.fixture(scope="module")
def small_group() -> Iterator[Path | None]:
    """A control group with little memory; None where none can be made."""
    for top, name in ((TOP / "memory", "memory.limit_in_bytes"), (TOP, "memory.max")):
        group = top / f"palestra-ray-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / name).write_text(str(AGENT_MIB * MIB))
        except OSError:
            group.rmdir()
            continue
        yield group
        with suppress(OSError):
            group.rmdir()
        return
    yield None


@pytest.fixture(scope="module")
def found(folder: str, small_group: Path | None) -> dict[str, Any]:
    """What happened on the cluster; skips where Ray does not start."""
    group = [] if small_group is None else [str(small_group)]
    run_with_ray(
        HERE / "ray_rollouts.py", folder, *group, folder=folder, timeout_s=190, cwd=PROJECT
    )
    happened: dict[str, Any] = json.loads((Path(folder) / RESULT).read_text())
    return happened


def check_incomplete(told: dict[str, Any]) -> None:
    assert told["type"] == "IncompleteRollouts"
    assert (told["requested"], told["received"]) == (6, 4)
    assert told["missing"] == ["4:0", "5:0"]
    assert told["took_s"] < WITHIN_S
    assert told["hint"]
    assert told["agent gone"]


pytestmark = pytest.mark.timeout(200)


@pytest.mark.slow
def test_the_actor_streams_every_row_with_its_outcome_and_timing(found: dict[str, Any]) -> None:
    assert found["streamed"]["rows"] == list(range(6))
    assert found["streamed"]["rewards"] == [0.5] * 6
    assert found["streamed"]["timed"]
    assert found["streamed"]["healthy"]


@pytest.mark.slow
def test_leaving_a_stream_early_cancels_the_rest_and_stopping_ends_the_fleet(
    found: dict[str, Any],
) -> None:
    assert found["streamed"]["left"] == 0
    assert found["streamed"]["agent gone"]


@pytest.mark.slow
def test_an_agent_that_is_killed_ends_the_batch_with_all_that_is_known(
    found: dict[str, Any],
) -> None:
    told = found["agent killed"]

    check_incomplete(told)
    assert told["signal"] == "SIGKILL"
    assert "waiting_agent" in told["sentence"]
    assert "in_flight" in told["hint"]


@pytest.mark.slow
def test_an_actor_that_is_killed_is_missed_in_the_same_words_and_its_fleet_ends(
    found: dict[str, Any],
) -> None:
    check_incomplete(found["actor killed"])
    assert "the rollout actor is gone" in found["actor killed"]["sentence"]


@pytest.mark.slow
def test_an_agent_that_the_kernel_ends_for_memory_is_said_to_have_run_out_of_it(
    found: dict[str, Any],
) -> None:
    if "memory" not in found:
        pytest.skip("no control group with a memory limit can be made here")
    told = found["memory"]

    check_incomplete(told)
    assert told["signal"] == "SIGKILL"
    assert told["memory"]
    assert "out of memory" in told["sentence"]


@pytest.mark.slow
def test_a_fleet_that_cannot_start_says_why_to_the_driver(found: dict[str, Any]) -> None:
    assert found["refused"]["type"] == "ConfigError"
    assert "configs/nothing.yaml" in found["refused"]["message"]


@pytest.mark.slow
def test_nothing_is_left_running(found: dict[str, Any], folder: str) -> None:
    assert found
    assert started_with(folder) == []


def test_rows_are_named_by_their_indices_or_their_place() -> None:
    given = RolloutRequest(row={}, task_id="mine", rollout_index=3)
    row = {"_ng_task_index": 7, "_ng_rollout_index": 2}

    found = adapter.requests_of([{}, row, given])

    assert [str(request.key) for request in found] == ["0:0", "7:2", "mine:3"]


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "find_spec", lambda _: None)

    with pytest.raises(ConfigError) as refused:
        adapter.start_actor(list)  # type: ignore[arg-type]

    assert "palestra[ray]" in refused.value.hint


def test_an_actor_that_was_not_started_says_so() -> None:
    actor = adapter.RolloutActor(list)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match="not started"):
        actor._running()


class RayError(Exception):
    """Ray's, where Ray is not asked."""


def driven(monkeypatch: pytest.MonkeyPatch, *stream: Landed | Exception) -> Iterator[Landed]:
    """The driver's side of a stream that has these."""

    def got(item: Landed | Exception) -> Landed:
        if isinstance(item, Exception):
            raise item
        return item

    kinds = SimpleNamespace(RayError=RayError, RayTaskError=type("RayTaskError", (RayError,), {}))
    ray = SimpleNamespace(get=got, cancel=lambda _: None, exceptions=kinds)
    monkeypatch.setattr(adapter, "_ray", lambda: ray)
    run = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda _: list(stream)))
    rows = [{"_ng_task_index": index} for index in range(3)]
    return adapter.rollouts(SimpleNamespace(run_rollouts=run), rows)


def landed(task: int) -> Landed:
    return Landed(task, completed(FIRST, task=task), None)


def test_a_stream_that_ends_too_early_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = driven(monkeypatch, landed(0), landed(2))

    with pytest.raises(IncompleteRollouts, match="stream ended before all rollouts") as found:
        list(stream)

    assert (found.value.requested, found.value.received) == (3, 2)
    assert found.value.missing == (Key(1, 0),)


@pytest.mark.parametrize("again", [0, 9])
def test_what_was_not_asked_for_or_comes_twice_is_refused(
    monkeypatch: pytest.MonkeyPatch, again: int
) -> None:
    stream = driven(monkeypatch, landed(0), landed(again))

    with pytest.raises(RunFailed, match=f"rollout {again}:0 twice"):
        list(stream)


def test_only_what_ray_knows_of_memory_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    died = RayError("the actor died: (1) killed by the OOM killer due to high memory usage …")

    with pytest.raises(IncompleteRollouts) as found:
        list(driven(monkeypatch, landed(0), died))

    assert not found.value.cause.out_of_memory
    assert "most likely out of memory" in found.value.cause.sentence
    assert "lower in_flight" in found.value.hint


def test_what_lands_survives_its_journey() -> None:
    import pickle

    landed = adapter.Landed(0, completed(FIRST), completed(FIRST).timings)

    assert pickle.loads(pickle.dumps(landed)) == landed
