"""So many inside, the others in their order, and no place is ever lost."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from palestra.transport.h1.pool import ExchangeSlots


def test_places_are_given_in_the_order_of_asking() -> None:
    async def scenario() -> list[int]:
        room = ExchangeSlots(1)
        assert room.try_enter()
        order: list[int] = []

        async def visit(number: int) -> None:
            await room.enter()
            order.append(number)
            room.leave()

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(visit(number))
            await asyncio.sleep(0)
            assert not room.try_enter()
            room.leave()
        return order

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4]


@given(
    places=st.integers(1, 3),
    visits=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
)
def test_whoever_gives_up_takes_no_place_with_him(
    places: int, visits: list[tuple[int, bool]]
) -> None:
    async def scenario() -> None:
        room = ExchangeSlots(places)
        inside = 0

        async def visit(turns: int) -> None:
            nonlocal inside
            await room.enter()
            inside += 1
            assert inside <= places
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                inside -= 1
                room.leave()

        tasks = [asyncio.create_task(visit(turns)) for turns, _ in visits]
        await asyncio.sleep(0)
        for task, (turns, gives_up) in zip(tasks, visits, strict=True):
            if gives_up:
                await asyncio.sleep(0)
                task.cancel(str(turns))
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(room.try_enter() for _ in range(places))
        assert not room.try_enter()

    asyncio.run(scenario())
