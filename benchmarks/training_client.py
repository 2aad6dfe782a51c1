"""`python -m benchmarks.training_client [--seconds 20]`: a trainer's clients against a collection.

The same rollouts (two model calls, one tool call, everything in this process, a fake endpoint in
another) by `RolloutClient.gather` and by `Collector.collect` with its journal, in turns. The
client writes no file; it checks rows, watches, captures turns and makes outcomes.

Behind a service the CPU of both sides counts: the service and its client are in this process too, and
speak over a socket. `FleetPool` has one fleet, the same one.

First without token ids. Then with the ids and log probs of every token on the items, as a trainer
has them: here the benchmark puts them there itself, in both ways alike.
"""

import argparse
import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Self

from benchmarks import machine
from benchmarks.processes import helper
from benchmarks.rollout_overhead.chunks import IN_FLIGHT
from benchmarks.rollout_overhead.embedded import config, contender
from benchmarks.rollout_overhead.payloads import row
from benchmarks.samples import p10, summary, table
from palestra.fleet import EMBEDDED, Fleet, listen, rare_collections, serving
from palestra.responses_api_models.vllm_model.app import VLLMModel
from palestra.schema import FunctionCallOutput, Response, ResponseCreateParams
from palestra.server import Session
from palestra.training import (
    ClientSettings,
    Completed,
    FleetPool,
    RemoteRolloutClient,
    RolloutClient,
    RolloutRequest,
    RolloutSource,
)
from palestra.training.service import RolloutService

ROLLOUTS = 192
ASKING_NONE = "RolloutClient, token_ids=False"
PROMPT, CALL = list(range(486)), list(range(1000, 1180))
TOOL, ANSWER = list(range(2000, 2060)), list(range(3000, 3363))
"""What is read and sampled in a rollout of two turns: lengths as in the endpoint's answers."""
WARM_UP = 6

Chunk = Callable[[int], Awaitable[float]]


def gathering(client: RolloutSource) -> Chunk:
    """Ask for so many rollouts, and take all of them."""
    rows = [row(task) for task in range(ROLLOUTS)]

    async def gather(count: int) -> float:
        asked = [RolloutRequest(row=rows[task], task_id=task) for task in range(count)]
        async with client.submit(asked) as batch:
            found = await batch.gather()
        return sum(outcome.reward for outcome in found if isinstance(outcome, Completed))

    return gather


@contextlib.asynccontextmanager
async def behind_service(source: RolloutSource) -> AsyncIterator[RolloutSource]:
    """A client of a service over an entered client, in this process."""
    service, sock = RolloutService(source), listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    async with serving(service.app(), sock), service, RemoteRolloutClient(url) as client:
        yield client


class Entered:
    """A client that somebody else enters and leaves."""

    def __init__(self, client: RolloutClient) -> None:
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Nothing: its owner leaves it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@contextlib.contextmanager
def token_ids_on_items() -> Iterator[None]:
    """Have every model server of this process put tokens on what it answers."""
    answered = VLLMModel.responses

    @functools.wraps(answered)
    async def responses(self: VLLMModel, body: ResponseCreateParams, session: Session) -> Response:
        made = await answered(self, body, session)
        first = not any(isinstance(item, FunctionCallOutput) for item in body.input)
        carrier = made.output[-1]
        carrier.prompt_token_ids = list(PROMPT if first else PROMPT + CALL + TOOL)
        carrier.generation_token_ids = list(CALL if first else ANSWER)
        carrier.generation_log_probs = [-0.5] * len(carrier.generation_token_ids)
        return made

    VLLMModel.responses = responses  # type: ignore[method-assign]  # as if the endpoint had them
    try:
        yield
    finally:
        VLLMModel.responses = answered  # type: ignore[method-assign]  # what it was


async def measure(url: str, seconds: float, clients: Mapping[str, bool]) -> dict[str, list[float]]:
    """CPU ms per rollout of each chunk, by way. `clients`: whether each asks for token ids."""
    async with contextlib.AsyncExitStack() as stack:
        direct = await stack.enter_async_context(contender(url))
        ways: dict[str, Chunk] = {"Collector.collect": direct.ways["collect"]}
        for title, token_ids in clients.items():
            settings = ClientSettings(in_flight=IN_FLIGHT, token_ids=token_ids)
            fleet = Fleet(config(url), default_placement=EMBEDDED)
            await stack.enter_async_context(rare_collections())
            client = await stack.enter_async_context(RolloutClient(fleet, settings))
            ways[title] = gathering(client)
            remote = await stack.enter_async_context(behind_service(client))
            ways[f"{title}, behind a service"] = gathering(remote)
            alone = FleetPool({"alone": lambda client=client: Entered(client)})
            ways[f"{title}, in a FleetPool"] = gathering(await stack.enter_async_context(alone))
        values: dict[str, list[float]] = {title: [] for title in ways}
        for chunk in ways.values():
            for _ in range(WARM_UP):
                await chunk(ROLLOUTS)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for title, chunk in ways.items():
                before = time.process_time_ns()
                await chunk(ROLLOUTS)
                values[title].append((time.process_time_ns() - before) / 1e6 / ROLLOUTS)
    return values


def report(values: dict[str, list[float]]) -> str:
    """The table, ratios by p10: against the collection, and against the client."""
    base = p10(values["Collector.collect"])
    client = p10(next(found for title, found in values.items() if title.startswith("Rollout")))
    rows = []
    for title, found in values.items():
        low, middle, mean = summary(found)
        ratios = (f"{low / base:.3f}", f"{low / client:.3f}")
        rows.append((title, f"{low:.4f}", f"{middle:.4f}", f"{mean:.4f}", *ratios, str(len(found))))
    header = ("CPU ms per rollout", "p10", "median", "mean", "x collect", "x client", "chunks")
    return table(header, rows)


def main() -> None:
    """Start everything, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_client")
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure each half")
    seconds = parser.parse_args().seconds
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with helper("benchmarks.rollout_overhead.fake_upstream") as upstream:
        url = upstream.greeting
        bare = asyncio.run(measure(url, seconds, {ASKING_NONE: False}))
        with token_ids_on_items():
            with_ids = asyncio.run(measure(url, seconds, {"RolloutClient": True}))
    print(f"load average after:  {machine.load()}")
    print(f"without token ids:\n{report(bare)}\n")
    print(f"with token ids, {len(PROMPT + CALL + TOOL + ANSWER)} a rollout:\n{report(with_ids)}")


if __name__ == "__main__":
    main()
