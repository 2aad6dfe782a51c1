"""One writer for each shard, and nobody takes over from somebody who may still write."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from palestra.cluster.lease import Holder, Lease, LeaseHeld, LeaseWatch
from palestra.cluster.records import write_object


def gone(_job: str) -> bool:
    return True


def running(_job: str) -> bool:
    return False


def lease(path: Path, me: Holder, is_gone: Callable[[str], bool] | None = running) -> Lease:
    return Lease(
        path,
        me,
        is_gone=is_gone,
        report=lambda _: None,
        wait_s=0.0,
        silent_after_s=0.05,
        stops_s=0.0,
        sleep=lambda _: None,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shard_lease.json"


ME = Holder.me("7", 0)
ELSEWHERE = replace(ME, job_id="6", host="another-node", boot="another-boot", number=1)


def dead_process() -> Holder:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(ME, job_id="6", pid=process.pid, born="1", number=1)


def test_the_first_who_comes_takes_it(path: Path) -> None:
    own = lease(path, ME)
    own.take()
    assert Holder.read(path) == replace(ME, number=1)
    own.release()


def test_a_process_that_is_alive_here_keeps_it_whatever_the_queue_says(path: Path) -> None:
    write_object(path, asdict(replace(ME, job_id="6", number=1)))
    with pytest.raises(LeaseHeld, match=f"job 6 .*process {os.getpid()}.*its process is alive"):
        lease(path, ME, gone).take()


def test_a_process_that_has_ended_here_is_taken_over_from(path: Path) -> None:
    write_object(path, asdict(dead_process()))
    own = lease(path, ME, running)
    own.take()
    assert Holder.read(path) == replace(ME, number=2)
    own.release()


def test_a_job_elsewhere_that_still_runs_keeps_it(path: Path) -> None:
    write_object(path, asdict(ELSEWHERE))
    with pytest.raises(LeaseHeld, match="its job has not ended"):
        lease(path, ME, running).take()


def test_a_job_elsewhere_that_is_gone_and_silent_is_taken_over_from(path: Path) -> None:
    write_object(path, asdict(ELSEWHERE))
    own = lease(path, ME, gone)
    own.take()
    assert Holder.read(path) == replace(ME, number=2)
    own.release()


def test_a_lost_node_that_goes_on_writing_keeps_it(path: Path) -> None:
    write_object(path, asdict(ELSEWHERE))
    beats = iter(range(1000))

    def beat(_seconds: float) -> None:
        os.utime(path, (0, next(beats)))

    own = lease(path, ME, gone)
    own._sleep = beat
    with pytest.raises(LeaseHeld, match="its process still writes"):
        own.take()


def test_without_a_queue_nobody_can_tell_of_another_machine(path: Path) -> None:
    write_object(path, asdict(replace(ELSEWHERE, job_id="")))
    with pytest.raises(LeaseHeld, match="another machine"):
        lease(path, ME, None).take()


def test_the_same_job_started_again_takes_over_from_its_earlier_start(path: Path) -> None:
    write_object(path, asdict(replace(ELSEWHERE, job_id="7", restart=0)))
    own = lease(path, replace(ME, restart=1), running)
    own.take()
    assert Holder.read(path) == replace(ME, restart=1, number=2)
    own.release()


def test_what_was_given_back_is_free_for_anybody(path: Path) -> None:
    first = lease(path, ME)
    first.take()
    first.release()
    second = lease(path, ME)
    second.take()
    second.release()
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]


def test_of_many_who_come_at_once_one_gets_it(path: Path) -> None:
    write_object(path, asdict(dead_process()))
    start, won = threading.Barrier(8), []

    def come() -> None:
        own = lease(path, ME)
        start.wait()
        try:
            own.take()
            won.append(own)
        except LeaseHeld:
            pass

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(won) == 1
    won[0].release()


def test_who_was_taken_over_from_learns_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palestra.cluster.lease.HEARTBEAT_S", 0.01)
    own = lease(path, ME)
    own.take()
    write_object(path, asdict(replace(ELSEWHERE, number=2)))
    assert own.lost.wait(10)
    own.release()
    assert json.loads(path.read_bytes())["job_id"] == "6"


def test_a_main_step_stops_writing_when_the_shard_is_anothers(path: Path) -> None:
    write_object(path, asdict(replace(ME, number=3)))
    watch = LeaseWatch(path, 3)
    assert watch.lost() == ""
    write_object(path, asdict(replace(ELSEWHERE, number=4)))
    assert "job 6 (start 0)" in watch.lost()


def test_a_main_step_stops_writing_when_it_hears_nothing_of_its_supervisor(path: Path) -> None:
    write_object(path, asdict(replace(ME, number=3)))
    now = [0.0]
    watch = LeaseWatch(path, 3, silent_after_s=10.0, clock=lambda: now[0])
    now[0] = 9.0
    os.utime(path, (0, 0))  # a heartbeat
    assert watch.lost() == ""
    now[0] = 18.0
    assert watch.lost() == ""
    now[0] = 20.0
    assert watch.lost() == "the supervisor has written nothing for 11 s"


def test_who_comes_after_a_step_that_may_go_on_gives_it_time(path: Path) -> None:
    first = lease(path, dead_process())
    first.take()
    first.release(stopped=False)
    slept: list[float] = []
    second = lease(path, ME)
    second._stops_s, second._sleep = 7.0, slept.append
    second.take()
    assert slept == [7.0]
    second.release()
