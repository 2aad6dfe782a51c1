"""CPU of a call to an author's plain function: in a worker process, and inside the server's.

Both ways verify the same answer through the same server objects, chunk by chunk in turns. What
the worker processes use counts too.
"""

import argparse
import asyncio
import contextlib
import os
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks import machine
from benchmarks.samples import p10, summary, table
from palestra.config import load_config
from palestra.fleet import EMBEDDED, Fleet, rare_collections
from palestra.schema import VerifyRequest, VerifyResponse, response_of
from palestra.system import children_of

CHUNK = 200
ANSWER = "The answer is 4. " * 20
FILE = """
from palestra import environment


@environment(data=[{"expected_answer": "4"}], prompt="2 + 2 = ?", isolated=ISOLATED)
def verify(answer: str, expected_answer: str) -> float:
    return float(expected_answer in answer)
"""
FOLDER = """
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Folder(ResourcesServer):
    isolated = ISOLATED

    def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, float("4" in body.response.final_text))
"""

Verify = Callable[[], Awaitable[VerifyResponse]]


@asynccontextmanager
async def verifying(name: str, source: str, *, isolated: bool) -> AsyncIterator[Verify]:
    """Calls of `/verify` of an environment with that source, in an embedded fleet."""
    text = textwrap.dedent(source).replace("ISOLATED", str(isolated))
    if source is FILE:
        path = Path.cwd() / f"{name}.py"
        block: dict[str, object] = {"environment_file": {"path": str(path)}}
    else:
        path = Path("resources_servers", name, "app.py")
        block = {name: {"domain": "other"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    extra = {name: {"resources_servers": block}}
    body = VerifyRequest.model_validate(
        {
            "responses_create_params": {"input": "2 + 2 = ?"},
            "response": response_of(ANSWER),
            "expected_answer": "4",
        }
    )
    config = load_config(config_paths=[], extra=extra, use_env_yaml=False)
    async with Fleet(config, default_placement=EMBEDDED) as fleet:
        yield lambda: fleet.client.peer(name).call("/verify", body, VerifyResponse)


def cpu_ns() -> int:
    """CPU of this process and of all that descend from it, in nanoseconds."""
    processes = [os.getpid()]
    for pid in processes:
        processes += children_of(pid)
    total = 0
    for pid in processes:
        with contextlib.suppress(OSError):  # it has ended
            total += machine.cpu_ns(pid)
    return total


async def cpu_ms_per_call(verify: Verify) -> float:
    """CPU of one call, over a chunk of calls one after the other."""
    before = cpu_ns()
    for _ in range(CHUNK):
        await verify()
    return (cpu_ns() - before) / CHUNK / 1e6


async def measured(seconds: float) -> dict[str, list[float]]:
    """Samples by way."""
    samples: dict[str, list[float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(rare_collections())
        ways: dict[str, Verify] = {}
        for kind, source in (("file", FILE), ("folder", FOLDER)):
            for place, isolated in (("inside", False), ("in a worker", True)):
                opened = verifying(f"{kind}_{isolated}".lower(), source, isolated=isolated)
                ways[f"{kind}, {place}"] = await stack.enter_async_context(opened)
        for verify in ways.values():
            await cpu_ms_per_call(verify)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for title, verify in ways.items():
                samples.setdefault(title, []).append(await cpu_ms_per_call(verify))
    return samples


def report(samples: dict[str, list[float]]) -> str:
    """Each way beside the same call inside the server's process."""
    lines = []
    for title, values in samples.items():
        inline = samples[title.split(",")[0] + ", inside"]
        figures = [f"{value:.3f}" for value in summary(values)]
        added = f"{p10(values) - p10(inline):.3f}"
        lines.append((title, f"{p10(values) / p10(inline):.2f}", added, *figures))
    return table(("way", "x inside (p10)", "more ms", "CPU ms p10", "median", "mean"), lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.author_calls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure")
    seconds = parser.parse_args().seconds
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        samples = asyncio.run(measured(seconds))
    print(report(samples))
    print(f"load average after: {machine.load()}")


if __name__ == "__main__":
    main()
