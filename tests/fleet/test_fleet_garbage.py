"""A process that runs a fleet collects garbage rarely, and as before when it is done."""

import asyncio
import gc
import mmap
import weakref

import pytest

from palestra.fleet import rare_collections
from palestra.fleet.garbage import GROWN_BYTES, resident_bytes


class Cycle:
    """Refers to itself: only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_collections_are_rare_while_the_body_runs_and_as_before_after_it() -> None:
    before = gc.get_threshold()

    async def main() -> tuple[int, int, int]:
        async with rare_collections():
            return gc.get_threshold()

    during = asyncio.run(main())
    assert all(rare > often for rare, often in zip(during, before, strict=True))
    assert gc.get_threshold() == before


@pytest.mark.slow
@pytest.mark.parametrize(("grows_by", "freed"), [(GROWN_BYTES + 1, True), (1, False)])
def test_a_process_that_grows_looks_for_garbage(grows_by: int, *, freed: bool) -> None:
    sizes = iter([0, grows_by])
    looked = asyncio.Event()

    def resident() -> int:
        size = next(sizes, None)
        if size is None or size == grows_by:
            looked.set()
        return size or 0

    async def main() -> bool:
        async with rare_collections(resident=resident, look_every_s=0.01):
            cycle = weakref.ref(Cycle())
            async with asyncio.timeout(10):
                await looked.wait()
            return cycle() is None

    assert asyncio.run(main()) is freed


def test_the_size_of_a_process_is_that_of_its_memory() -> None:
    before = resident_bytes()
    with mmap.mmap(-1, 64 * 2**20) as fresh:  # what was freed before would be used again
        for page in range(0, len(fresh), mmap.PAGESIZE):
            fresh[page] = 1

        assert resident_bytes() - before > len(fresh) / 2
