"""Jobs, from the queue to their end: what starts when, what may follow, what ends all."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import pytest

from palestra.engine import ConcurrencyLimit, Engine, Job, JobRoom, JobStage
from palestra.errors import Outcome
from palestra.schema import RolloutKey
from palestra.transport import RetryCount

RUNS, WAITS = JobStage.RUNNING, JobStage.WAITING


class Numbers:
    """Work whose jobs are numbers; each gets `attempts` attempts. It is a `Work`."""

    def __init__(
        self,
        numbers: Iterator[int],
        run: Callable[[int], Awaitable[object]],
        *,
        room: Callable[[], int],
        attempts: int = 1,
        pause_s: float = 0.0,
    ) -> None:
        self._numbers = numbers
        self._run = run
        self._room = room
        self._attempts = attempts
        self._pause_s = pause_s
        self.results: list[tuple[int, object]] = []
        self.engine: Engine[Job, object] = Engine(self, overdue_s=0.1)

    def take(self, running: int, /) -> Job | None:
        number = next(self._numbers, None) if running < self._room() else None
        return None if number is None else Job(key=RolloutKey(number, 0))

    async def attempt(self, job: Job, /) -> object:
        assert isinstance(job.key.task, int)
        return await self._run(job.key.task)

    def settle(self, job: Job, result: object, /) -> float | None:
        assert isinstance(job.key.task, int)
        self.results.append((job.key.task, result))
        return None if job.attempt >= self._attempts else self._pause_s

    def abandoned(self, job: Job, /) -> object:
        return "abandoned"

    def job_of(self, number: int) -> Job:
        """The job of one that was started and has not ended."""
        return self.engine.jobs[RolloutKey(number, 0)]

    async def reached(self, number: int, stage: JobStage) -> Job:
        """The job of `number`, once it is there."""
        while True:
            job = self.engine.jobs.get(RolloutKey(number, 0))
            if job is not None and job.state is stage:
                return job
            await asyncio.sleep(0)

    def all_run(self) -> None:
        async def main() -> None:
            async with asyncio.timeout(20):
                await self.engine.run(look_every_s=0.05)

        asyncio.run(main())


@pytest.mark.parametrize("state", [JobStage.ENDED, JobStage.ABANDONED])
def test_nothing_follows_a_job_that_is_over(state: JobStage) -> None:
    job = Job(key=RolloutKey(0, 0))
    job.begin(1.0)
    job.become(state)

    with pytest.raises(RuntimeError, match="cannot become RUNNING"):
        job.begin(2.0)


def test_a_spared_attempt_is_not_counted() -> None:
    job = Job(key=RolloutKey(0, 0))
    job.begin(1.0)
    job.become(JobStage.WAITING)
    job.spare()
    job.begin(2.0)

    assert (job.attempt, job.spared) == (1, 1)


def test_each_job_has_its_attempts_and_no_more_run_at_once_than_there_is_room_for() -> None:
    running: list[int] = []
    most = 0

    async def run(number: int) -> None:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(number)

    work = Numbers(iter(range(9)), run, room=lambda: 2, attempts=3)
    work.all_run()

    assert most == 2
    assert sorted(number for number, _ in work.results) == sorted([*range(9)] * 3)
    assert work.engine.jobs == {}


def test_a_job_is_made_only_when_it_can_run() -> None:
    made: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    async def main() -> None:
        work = Numbers(numbers(), lambda _number: asyncio.Event().wait(), room=lambda: 4)
        running = asyncio.create_task(work.engine.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(main())
    assert made == [0, 1, 2, 3]


def test_room_that_comes_back_is_filled() -> None:
    room = 1

    async def run(number: int) -> int:
        nonlocal room
        room = 3 if number == 0 else room
        if number == 0:
            work.engine.fill()
        await asyncio.sleep(0)
        return len(work.engine.jobs)

    work = Numbers(iter(range(6)), run, room=lambda: room)
    work.all_run()

    assert len(work.results) == 6
    assert max(count for _, count in work.results if isinstance(count, int)) == 3


def test_a_bug_in_one_attempt_ends_all() -> None:
    async def run(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError
        await asyncio.Event().wait()

    work = Numbers(iter(range(9)), run, room=lambda: 9)
    with pytest.RaisesGroup(ZeroDivisionError):
        work.all_run()
    assert work.results == []


def test_what_an_attempt_brings_as_all_end_is_recorded_and_nothing_follows_it() -> None:
    async def run(number: int) -> str:
        if number == 3:
            await asyncio.sleep(0)
            raise ZeroDivisionError
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "a result"
        return "it ended by itself"

    work = Numbers(iter(range(9)), run, room=lambda: 4, attempts=2)
    with pytest.RaisesGroup(ZeroDivisionError):
        work.all_run()
    assert sorted(work.results) == [(0, "a result"), (1, "a result"), (2, "a result")]
    assert work.engine.jobs == {}


def test_nothing_starts_any_more_once_all_end() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(9):
            taken.append(number)
            yield number

    room = 2
    all_run = asyncio.Event()

    async def run(number: int) -> None:
        nonlocal room
        if number == 1:
            all_run.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            room = 9
            work.engine.fill()

    work = Numbers(numbers(), run, room=lambda: room)

    async def main() -> None:
        running = asyncio.create_task(work.engine.run())
        await all_run.wait()
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(main())
    assert taken == [0, 1]


def test_an_attempt_that_goes_on_is_abandoned_and_what_it_brings_is_dropped() -> None:
    others_ended = asyncio.Event()
    first: asyncio.Task[object] | None = None

    async def run(_number: int) -> str:
        nonlocal first
        if first is None:
            first = asyncio.current_task()
            await others_ended.wait()
        return "a result"

    work = Numbers(iter(range(2)), run, room=lambda: 1, attempts=2)

    async def main() -> None:
        await work.engine.run(look_every_s=0.05)
        others_ended.set()
        assert first is not None
        await asyncio.wait_for(first, timeout=20)

    asyncio.run(main())
    assert work.results == [(0, "abandoned"), *[(0, "a result")], *[(1, "a result")] * 2]


@pytest.mark.parametrize("attempts", [1, 2], ids=["running", "waiting for another attempt"])
def test_a_job_that_is_stopped_has_no_result_and_leaves_its_place_to_others(attempts: int) -> None:
    async def run(number: int) -> str:
        if number == 0 and attempts == 1:
            await asyncio.Event().wait()
        return "a result"

    work = Numbers(iter(range(2)), run, room=lambda: 1, attempts=attempts, pause_s=60.0)

    async def main() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(work.engine.run(look_every_s=0.05))
            for number in range(2):
                job = await work.reached(number, RUNS if attempts == 1 else WAITS)
                work.engine.stop(job, within_s=60.0)
                if attempts == 1:
                    return

    asyncio.run(main())
    assert work.results == (
        [(1, "a result")] if attempts == 1 else [(0, "a result"), (1, "a result")]
    )
    assert work.engine.jobs == {}


def test_a_job_that_is_stopped_before_it_begins_never_runs() -> None:
    run_ones: list[int] = []

    async def run(number: int) -> None:
        run_ones.append(number)

    work = Numbers(iter(range(3)), run, room=lambda: 2)

    async def main() -> None:
        work.engine.fill()
        work.engine.stop(work.job_of(0), within_s=60.0)
        await work.engine.run(look_every_s=0.05)

    asyncio.run(main())
    assert sorted(run_ones) == [1, 2]


def test_a_stopped_attempt_that_goes_on_is_left_behind_and_its_place_is_given_away() -> None:
    released = asyncio.Event()

    async def run(number: int) -> str:
        while number == 0 and not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()
        return "a result"

    work = Numbers(iter(range(2)), run, room=lambda: 1)

    async def main() -> JobStage:
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(work.engine.run(look_every_s=0.05))
            job = await work.reached(0, RUNS)
            work.engine.stop(job, within_s=0.0)
        released.set()
        return job.state

    assert asyncio.run(main()) is JobStage.ABANDONED
    assert work.results == [(1, "a result")]


def test_an_attempt_that_stops_its_own_job_cancels_nothing() -> None:
    async def run(number: int) -> str:
        if number == 0:
            work.engine.stop(work.job_of(0), within_s=60.0)
        await asyncio.sleep(0)
        return "a result"

    work = Numbers(iter(range(3)), run, room=lambda: 1)
    work.all_run()

    assert work.results == [(1, "a result"), (2, "a result")]


def test_requests_sent_again_lower_the_limit_before_any_attempt_has_ended() -> None:
    retries = RetryCount()
    room = JobRoom(ConcurrencyLimit(100), retries, clock=lambda: 0.0)
    retries.retries += 16
    room.look(in_flight=16)
    room.look(in_flight=16)

    assert room.limit.limit == 11


def test_failures_that_are_not_of_the_load_leave_the_limit_alone() -> None:
    room = JobRoom(ConcurrencyLimit(100), RetryCount(), clock=lambda: 0.0)
    for _ in range(16):
        room.attempt_ended(Outcome.VERIFIER_ERROR, began=0.0, in_flight=16)

    assert room.limit.limit == 16


@pytest.mark.slow
def test_an_attempt_that_outlives_its_run_settles_nothing() -> None:
    ends = asyncio.Event()

    async def run(number: int) -> str:
        if number == 0:
            raise RuntimeError("the run ends")
        while not ends.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ends.wait()
        return "late"

    async def main() -> Numbers:
        work = Numbers(iter([1, 0]), run, room=lambda: 2)
        with pytest.raises(ExceptionGroup):
            await work.engine.run()
        ends.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return work

    assert asyncio.run(main()).results == []
