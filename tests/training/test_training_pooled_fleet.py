"""One fleet of a pool: what it was told, and what is submitted together."""

import asyncio

import pytest
from simulated_source import SimulatedSource
from training_world import request

from palestra.errors import InfraError
from palestra.training import Completed, Health
from palestra.training.fleets import PooledFleet

pytestmark = pytest.mark.anyio


class Service(SimulatedSource):
    """A service that notes what it is told, and refuses while `is_down`."""

    def __init__(self) -> None:
        super().__init__(lambda item: (1.0, 1.0))
        self.orders: list[str] = []
        self.is_down = False
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def health(self) -> Health:
        self.asked.set()
        await self.go_on.wait()
        return Health(True, "", 0, 0, 0, False, "", self.weight_version)

    async def hold_calls(self) -> None:
        self._refuse()
        self.orders.append("hold")

    async def set_weight_version(self, version: int) -> None:
        self._refuse()
        self.orders.append(f"weights {version}")
        self.weight_version = version

    def _refuse(self) -> None:
        if self.is_down:
            raise InfraError("it is down")


async def opened(service: Service) -> PooledFleet:
    fleet = PooledFleet("a", lambda: service)
    await fleet.open(None)
    return fleet


async def test_a_hold_that_failed_is_sent_before_the_fleet_is_used_again() -> None:
    service = Service()
    fleet = await opened(service)
    service.is_down = True
    await fleet.hold()
    lost = not fleet.is_usable
    service.is_down = False
    await fleet.look(None)

    assert lost
    assert service.orders == ["hold"]
    assert fleet.is_usable


async def test_a_fleet_that_cannot_be_told_to_hold_is_not_used() -> None:
    service = Service()
    fleet = await opened(service)
    service.is_down = True
    await fleet.hold()
    await fleet.look(None)

    assert fleet.reason == "it is down"


async def test_weights_release_held_calls() -> None:
    service = Service()
    fleet = await opened(service)
    await fleet.set_weights(1)
    await fleet.hold()
    await fleet.look(1)
    await fleet.set_weights(1)

    assert service.orders == ["weights 1", "hold", "weights 1"]


async def test_a_service_that_was_started_anew_gets_its_weights_again() -> None:
    service = Service()
    fleet = await opened(service)
    await fleet.set_weights(1)
    service.weight_version = None
    await fleet.look(1)

    assert service.orders == ["weights 1", "weights 1"]


async def test_older_weights_are_never_sent_after_newer_ones() -> None:
    service = Service()
    fleet = await opened(service)
    service.asked.clear()
    service.go_on.clear()
    looking = asyncio.create_task(fleet.look(1))
    await service.asked.wait()
    setting = asyncio.create_task(fleet.set_weights(2))
    await asyncio.sleep(0)
    service.go_on.set()
    await asyncio.gather(looking, setting)

    assert service.orders == ["weights 2"]
    assert fleet.is_usable


async def test_rollouts_of_two_batches_are_not_submitted_together() -> None:
    class Counting(Service):
        def __init__(self) -> None:
            super().__init__()
            self.sizes: list[int] = []

        def submit(self, requests, **options):  # type: ignore[no-untyped-def]
            items = list(requests)
            self.sizes.append(len(items))
            return super().submit(items, **options)

    service = Counting()
    fleet = await opened(service)
    outcomes = await asyncio.gather(
        *(fleet.run(request(task), run) for run in ("train", "evaluate") for task in range(3))
    )

    assert all(isinstance(outcome, Completed) for outcome in outcomes)
    assert service.sizes == [3, 3]
