"""`python -m benchmarks.model_server [--seconds N]`: CPU of the server's process per request.

Each request is 3 KB of a task with a tool, answered by 2.7 KB; 64 are in flight. Contenders take
turns, in chunks, in front of one fake endpoint. What the load itself costs is not counted.
"""

import argparse
import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import orjson
import uvloop

from benchmarks import machine
from benchmarks.http_client.exchange import BODY, HEADERS
from benchmarks.processes import helper
from benchmarks.rollout_overhead.payloads import CREATE_PARAMS
from benchmarks.samples import p10, summary, table
from palestra.transport import HttpClient, HttpRequest

PACKAGE = "benchmarks.model_server"
IN_FLIGHT = 64
CHUNK = 400
RESPONSES_BODY = orjson.dumps(CREATE_PARAMS)


@dataclass(slots=True)
class Contender:
    """One row of the table: where its process is, and CPU us per request."""

    title: str
    pid: int
    url: str
    body: bytes
    values: list[float] = field(default_factory=list)


async def chunk(http: HttpClient, contender: Contender) -> float:
    """CPU us per request of one chunk. Raises SystemExit when an answer is not 200."""
    left = iter(range(CHUNK))

    async def worker() -> None:
        for _ in left:
            request = HttpRequest(
                "POST", contender.url, HEADERS, contender.body, timeout_s=60, repeatable=True
            )
            reply = await http.send(request)
            if reply.status != 200:
                raise SystemExit(f"{contender.title}: {reply.status} {reply.body[:500]!r}")

    before = machine.cpu_ns(contender.pid)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(IN_FLIGHT):
            tasks.create_task(worker())
    return (machine.cpu_ns(contender.pid) - before) / 1e3 / CHUNK


async def measure(contenders: list[Contender], seconds: float) -> None:
    """Chunk by chunk, in turn, after a warm-up."""
    http = HttpClient()
    try:
        for contender in contenders * 3:
            await chunk(http, contender)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for contender in contenders:
                contender.values.append(await chunk(http, contender))
    finally:
        await http.aclose()


def report(contenders: list[Contender]) -> str:
    """The table, ratios by p10."""
    floor = p10(contenders[0].values)
    rows = [
        (
            each.title,
            *(f"{value:.0f}" for value in summary(each.values)),
            f"{p10(each.values) / floor:.2f}",
            str(len(each.values)),
        )
        for each in contenders
    ]
    return table(("CPU us per request", "p10", "median", "mean", "x proxy", "chunks"), rows)


def main() -> None:
    """Start everything, measure, print."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="how long to measure")
    seconds = parser.parse_args().seconds
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with ExitStack() as stack:
        upstream = stack.enter_context(helper("benchmarks.rollout_overhead.fake_upstream")).greeting
        proxy = stack.enter_context(helper(f"{PACKAGE}.proxy", upstream))
        ours = stack.enter_context(helper(f"{PACKAGE}.ours", upstream))
        chat = "/chat/completions"
        contenders = [
            Contender("bare aiohttp proxy", proxy.pid, proxy.greeting + chat, BODY),
            Contender(
                "vllm_model, /v1/responses", ours.pid, ours.greeting + "/responses", RESPONSES_BODY
            ),
            Contender("vllm_model, /v1/chat/completions", ours.pid, ours.greeting + chat, BODY),
        ]
        uvloop.run(measure(contenders, seconds))
    print(f"load average after:  {machine.load()}")
    print()
    print(report(contenders))


if __name__ == "__main__":
    main()
