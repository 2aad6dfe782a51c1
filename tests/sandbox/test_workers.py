import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chores import called, wait_until_gone, with_workers

from palestra.errors import Outcome
from palestra.sandbox import (
    Crashed,
    Keeper,
    LocalWorkers,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    WorkersBroken,
    nurseries_kept,
)
from palestra.sandbox.workers.frames import BrokenFrame, receive_answer
from palestra.sandbox.workers.nursery import Nursery
from palestra.sandbox.workers.worker import Endurance, serve

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def pipe(folder: Path) -> Path:
    """Reading it waits until a worker has written and closed it."""
    path = folder / "pipe"
    os.mkfifo(path)
    return path


def test_a_call_returns_the_functions_value() -> None:
    assert called("operator:add", [1, "ä"], [None, 2.5]) == Returned([1, "ä", None, 2.5])


def test_a_file_in_the_working_directory_hides_no_module_of_python(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('the file of an author')")

    with contextlib.chdir(tmp_path):
        assert called("operator:add", 1, 2) == Returned(3)


def test_a_text_that_is_no_unicode_reaches_the_function() -> None:
    assert called("builtins:len", "\ud800x") == Returned(2)


def test_an_exception_is_told_with_its_class_message_and_place() -> None:
    outcome = called("math:sqrt", -1)

    assert isinstance(outcome, Raised)
    assert outcome.kind == "ValueError"
    assert "domain" in outcome.message
    assert "worker.py" in outcome.traceback


def test_what_is_no_ordinary_exception_is_the_functions_too() -> None:
    outcome = called("raise_base_exception")

    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.message) == ("KeyboardInterrupt", "from a library")


def test_a_value_that_cannot_be_sent_is_an_exception() -> None:
    outcome = called("builtins:object")

    assert isinstance(outcome, Raised)
    assert "cannot be sent" in outcome.message


def test_a_function_that_does_not_exist_is_an_exception() -> None:
    assert called("chores:nothing").kind == "AttributeError"


@pytest.mark.parametrize("forever", ["never_ends_in_native_code", "never_ends_in_a_regex"])
def test_native_code_that_never_ends_is_killed_at_the_limit(forever: str) -> None:
    assert called(forever, limit_s=0.2) == TimedOut(0.2)


def test_sleeping_counts_to_the_limit() -> None:
    assert called("time:sleep", 60, limit_s=0.2) == TimedOut(0.2)


@pytest.mark.slow
def test_more_memory_than_allowed_is_told() -> None:
    assert called("allocate", 300, memory_mib=200) == OutOfMemory(200)
    assert called("allocate", 100, memory_mib=200) == Returned(100 * 2**20)


def test_a_crash_names_its_signal() -> None:
    outcome = called("segfault")

    assert outcome == Crashed(signal.SIGSEGV)
    assert outcome.name == "SIGSEGV"


def test_after_a_crash_and_a_kill_the_next_call_has_a_worker() -> None:
    async def one_after_another(workers: LocalWorkers) -> list[Any]:
        return [
            await workers.call("chores:segfault", limit_s=5),
            await workers.call("time:sleep", 60, limit_s=0.1),
            await workers.call("chores:allocate", 10_000, limit_s=5),
            await workers.call("operator:neg", 1, limit_s=5),
        ]

    *_, last = with_workers(one_after_another, size=1)

    assert last == Returned(-1)


def test_a_worker_that_was_killed_from_outside_says_nothing_about_the_data() -> None:
    with pytest.raises(WorkersBroken, match="killed from outside") as broken:
        called("die_by", int(signal.SIGKILL))

    assert broken.value.outcome is Outcome.VERIFIER_ERROR
    assert broken.value.retriable


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU])
def test_a_worker_that_is_told_to_end_says_nothing_about_the_data(number: signal.Signals) -> None:
    with pytest.raises(WorkersBroken, match=f"ended from outside, by signal {number.name}"):
        called("die_by", int(number))


def test_a_worker_that_died_while_it_waited_is_replaced() -> None:
    async def killed_in_between(workers: LocalWorkers) -> Any:
        first = await workers.call("os:getpid", limit_s=5)
        assert isinstance(first, Returned)
        os.kill(first.value, signal.SIGKILL)
        wait_until_gone(first.value)
        return await workers.call("operator:neg", 1, limit_s=5)

    assert with_workers(killed_in_between, size=1) == Returned(-1)


def test_letting_go_of_a_worker_that_was_buried_a_moment_ago_does_nothing() -> None:
    control, other = socket.socketpair()
    with control, other:
        nursery = Nursery(control, serve, Endurance(memory_mib=1, calls=1, growth_mib=1))
        nursery._attend(os.getpid())


def test_a_fork_that_the_system_refuses_is_tried_again() -> None:
    assert called("operator:neg", 1, preload=["chores:refuse_two_forks"]) == Returned(-1)


@pytest.mark.slow
def test_a_system_that_goes_on_refusing_is_told_as_such() -> None:
    with pytest.raises(WorkersBroken, match="Resource temporarily unavailable"):
        called("operator:neg", 1, preload=["chores:refuse_every_fork"])


def test_a_nursery_that_died_is_replaced() -> None:
    async def killed_in_between(workers: LocalWorkers) -> Any:
        first = await workers.call("os:getppid", limit_s=5)
        assert isinstance(first, Returned)
        os.kill(first.value, signal.SIGKILL)
        wait_until_gone(first.value)
        return await workers.call("operator:neg", 1, limit_s=5)

    assert with_workers(killed_in_between, size=1) == Returned(-1)


@pytest.mark.slow
def test_forks_beside_each_other_replace_a_kept_nursery_that_died_once() -> None:
    async def forked(keeper: Keeper, count: int) -> list[int]:
        workers = await asyncio.gather(*(keeper.fork() for _ in range(count)))
        for worker in workers:
            worker.kill()
        return [worker.pid for worker in workers]

    async def run(folder: Path) -> list[int]:
        with nurseries_kept():
            first, second = (Keeper(memory_mib=256, sources=folder) for _ in range(2))
        await forked(first, 1)
        kept = first._nursery
        first.end()
        await forked(second, 1)
        assert kept is not None
        assert second._nursery is kept
        kept.process.send_signal(signal.SIGSTOP)
        forks = asyncio.create_task(forked(second, 3))
        await asyncio.sleep(0.1)
        kept.process.kill()
        try:
            return await forks
        finally:
            second._end()

    assert all(asyncio.run(run(Path(__file__))))


def test_what_cannot_be_preloaded_is_said_by_every_call() -> None:
    with pytest.raises(WorkersBroken, match="no such dictionary"):
        called("operator:neg", 1, preload=["chores:fail_to_preload"])


def test_preloading_is_done_once_and_before_the_fork() -> None:
    outcome = called("preloaded_by", preload=["chores:preload"])

    preloaded, parent = outcome.value
    assert preloaded == parent


def test_a_worker_is_replaced_after_its_calls() -> None:
    async def five(workers: LocalWorkers) -> list[Any]:
        return [await workers.call("os:getpid", limit_s=5) for _ in range(5)]

    pids = with_workers(five, size=1, calls=2)

    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]


def test_a_worker_that_has_grown_is_replaced() -> None:
    async def grow(workers: LocalWorkers) -> list[Any]:
        first = await workers.call("os:getpid", limit_s=5)
        await workers.call("chores:allocate", 64, limit_s=5)
        return [first, await workers.call("os:getpid", limit_s=5)]

    first, second = with_workers(grow, size=1, growth_mib=32)

    assert first != second


@pytest.mark.slow
def test_waiting_for_a_turn_does_not_count_to_the_limit() -> None:
    async def queue(workers: LocalWorkers) -> list[Any]:
        calls = [workers.call("time:sleep", 0.3, limit_s=0.6) for _ in range(4)]
        return list(await asyncio.gather(*calls))

    assert with_workers(queue, size=1) == [Returned(None)] * 4


def test_calls_are_served_in_the_order_they_came(tmp_path: Path) -> None:
    path = str(tmp_path / "order")

    async def in_order(workers: LocalWorkers) -> None:
        calls = (workers.call("chores:order_of_start", path, c, limit_s=5) for c in "abcdefgh")
        await asyncio.gather(*calls)

    with_workers(in_order, size=1)

    assert Path(path).read_text() == "abcdefgh"


def test_no_more_calls_run_at_once_than_there_are_places() -> None:
    async def many(workers: LocalWorkers) -> set[Any]:
        calls = (workers.call("os:getpid", limit_s=5) for _ in range(50))
        return {outcome.value for outcome in await asyncio.gather(*calls)}  # type: ignore[union-attr]

    assert len(with_workers(many, size=2)) <= 2


def test_a_cancelled_call_kills_its_worker(tmp_path: Path) -> None:
    path = pipe(tmp_path)

    async def cancel(workers: LocalWorkers) -> Any:
        call = asyncio.create_task(workers.call("chores:tell_and_sleep", str(path), limit_s=60))
        pid = int(await asyncio.to_thread(path.read_text))
        call.cancel()
        await asyncio.wait({call})
        wait_until_gone(pid)
        return await workers.call("operator:neg", 1, limit_s=5)

    assert with_workers(cancel, size=1) == Returned(-1)


def test_closing_ends_every_process() -> None:
    async def pids(workers: LocalWorkers) -> list[Any]:
        return [await workers.call(f"os:{get}", limit_s=5) for get in ("getpid", "getppid")]

    processes = with_workers(pids)

    for process in processes:
        wait_until_gone(process.value)


def test_a_call_that_waits_while_the_workers_are_closed_starts_nothing(tmp_path: Path) -> None:
    path = pipe(tmp_path)

    async def close(workers: LocalWorkers) -> list[Any]:
        first = asyncio.create_task(workers.call("chores:tell_and_sleep", str(path), limit_s=60))
        pid = int(await asyncio.to_thread(path.read_text))
        second = asyncio.create_task(workers.call("operator:neg", 1, limit_s=60))
        await asyncio.sleep(0)
        await workers.close()
        wait_until_gone(pid)
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        return [*outcomes, workers._keeper._nursery]

    first, second, nursery = with_workers(close, size=1)

    assert isinstance(first, WorkersBroken)
    assert isinstance(second, WorkersBroken)
    assert nursery is None


def test_workers_serve_one_event_loop_after_another() -> None:
    workers = LocalWorkers(size=1)

    async def pid() -> Any:
        return await workers.call("os:getpid", limit_s=5)

    first, second = asyncio.run(pid()), asyncio.run(pid())
    asyncio.run(workers.close())

    assert first == second


def test_workers_do_not_see_our_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLICY_API_KEY", "k")

    seen = called("environment").value

    assert "POLICY_API_KEY" not in seen
    assert seen["PYTHONHASHSEED"] == "0"


def test_a_message_that_is_none_is_refused() -> None:
    async def read(sent: bytes) -> Any:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(sent)
            return await receive_answer(ours)

    for sent in (b"\xff\xff\xff\xff", b"\0\0\0\1\x01"):
        with pytest.raises(BrokenFrame):
            asyncio.run(read(sent))


PARENT = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from palestra.sandbox import LocalWorkers
asyncio.run(LocalWorkers(size=1).call("chores:tell_and_sleep", {path!r}, limit_s=60))
"""


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    path = pipe(tmp_path)
    program = PARENT.format(path=str(path), tests=str(Path(__file__).parent))
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        pid = int(path.read_text())
        parent.kill()

    wait_until_gone(pid)


@pytest.mark.slow
def test_without_an_address_ray_is_never_imported() -> None:
    program = (
        "import asyncio, sys; from palestra.sandbox import open_workers\n"
        "async def main():\n"
        "    workers = open_workers(); await workers.call('math:sqrt', 4, limit_s=9)\n"
        "    await workers.close()\n"
        "asyncio.run(main()); print('ray' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    assert done.stdout == "False\n"
