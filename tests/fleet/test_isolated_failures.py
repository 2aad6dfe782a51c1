"""What the end of a worker means to the call that it was working on."""

import asyncio
from typing import Any

import pytest
from played_worker import LIMIT_S, PlayedWorker

from palestra.errors import Outcome
from palestra.fleet.isolation.failures import failure_of
from palestra.fleet.isolation.link import Hung, WorkerGone
from palestra.fleet.isolation.wire import VALUE, order_frame
from palestra.fleet.isolation.worker_pool import WorkerPool
from palestra.sandbox import WorkerHandle
from palestra.server.authors_errors import AuthorsPlace

PLACE = AuthorsPlace("verify", "env.py", 3)


@pytest.mark.parametrize(
    ("path", "ran_s", "kind"),
    [
        ("/verify", 5.0, Outcome.VERIFIER_ERROR),
        ("/seed_session", 5.0, Outcome.ENVIRONMENT_ERROR),
        ("/verify", 0.3, Outcome.TIMEOUT),
        ("/seed_session", 0.3, Outcome.TIMEOUT),
    ],
)
def test_a_call_that_began_at_the_end_of_its_rollout_blames_no_code(
    path: str, ran_s: float, kind: Outcome
) -> None:
    assert failure_of("env", path, Hung(PLACE, ran_s)).outcome is kind


class OnlyWorker(PlayedWorker):
    """The machine has no process for another one."""

    has_forked = False

    async def fork(self) -> WorkerHandle:
        if self.has_forked:
            await asyncio.Event().wait()
        self.has_forked = True
        return await super().fork()


@pytest.mark.slow
def test_what_a_call_waited_for_a_worker_is_no_time_of_its_code() -> None:
    async def run() -> Any:
        worker: Any = OnlyWorker()
        pool = WorkerPool(worker)
        async with asyncio.timeout(LIMIT_S):
            running = asyncio.create_task(pool.call(order_frame, None))
            [number] = await worker.order()
            waiting = asyncio.create_task(pool.call(order_frame, 1.2))
            await asyncio.sleep(0.8)
            worker.say(VALUE, number, 1.0)
            await running
            with pytest.raises(WorkerGone) as gone:
                await waiting
            await pool.close()
        return gone.value.ending

    ending = asyncio.run(run())

    assert isinstance(ending, Hung)
    assert ending.ran_s < 0.5
    assert failure_of("env", "/verify", ending).outcome is Outcome.TIMEOUT
