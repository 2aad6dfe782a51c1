"""`python -m benchmarks.math_verification [--answers N] [--rounds N]`: answers per second.

One process that calls math-verify as its documentation shows, in a loop, against our environment's
`/verify` (workers, messages, rules of our own and all). Rounds take turns. The best round of each
is what it does when nothing else runs; the median holds the noise of the machine.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from statistics import median

from benchmarks import machine
from benchmarks.math_verification.answers import pairs
from benchmarks.processes import Helper, helper
from benchmarks.samples import table
from palestra.resources_servers.math_with_judge.app import (
    MathWithJudgeConfig,
    MathWithJudgeServer,
    MathWithJudgeVerifyRequest,
)
from palestra.sandbox.processors import usable_processors
from palestra.transport import HttpClient, ServerClient

IN_FLIGHT = 64
BUDGET = 0.8


async def ours(server: MathWithJudgeServer, count: int) -> tuple[float, int]:
    """Seconds for so many answers, and how many were right."""
    requests = [_request(expected, text) for expected, text in pairs(count)]
    pending = iter(requests)
    rewards: list[float] = []

    async def worker() -> None:
        for body in pending:
            graded = await server.verify(body)
            rewards.append(graded.reward)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as workers:
        for _ in range(IN_FLIGHT):
            workers.create_task(worker())
    return time.perf_counter() - started, int(sum(rewards))


def _request(expected: str, text: str) -> MathWithJudgeVerifyRequest:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "content": content}
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [message]}
    return MathWithJudgeVerifyRequest.model_validate(
        {
            "responses_create_params": {"input": []},
            "expected_answer": expected,
            "response": response,
        }
    )


async def measure(count: int, rounds: int) -> str:
    """The table."""
    server = MathWithJudgeServer(
        config=MathWithJudgeConfig(name="math"),
        server_client=ServerClient({}, HttpClient()),
    )
    try:
        with helper("benchmarks.math_verification.bare") as bare:
            # Uncounted: imports, forks, the parser's tables.
            await asyncio.gather(asyncio.to_thread(_bare, bare, count), ours(server, count))
            found = [
                (await asyncio.to_thread(_bare, bare, count), await ours(server, count))
                for _ in range(rounds)
            ]
    finally:
        await server.stop()
    return report(count, found)


def _bare(process: Helper, count: int) -> tuple[float, int]:
    seconds, right = process.ask(str(count)).split()
    return float(seconds), int(right)


def report(count: int, found: Sequence[tuple[tuple[float, int], tuple[float, int]]]) -> str:
    """Rates, and ours as a share of what all cores could do."""
    bare, mine = ([count / seconds for seconds, _ in side] for side in zip(*found, strict=True))
    (_, right_bare), (_, right_mine) = found[0]
    best = max(mine) / (usable_processors() * max(bare))
    middle = median(m / (usable_processors() * b) for b, m in zip(bare, mine, strict=True))
    header = ("answers per second", "best", "median", "right")
    rows = [
        ("math-verify, one process", f"{max(bare):.0f}", f"{median(bare):.0f}", str(right_bare)),
        (
            f"ours, {usable_processors()} cores",
            f"{max(mine):.0f}",
            f"{median(mine):.0f}",
            str(right_mine),
        ),
        ("ours / (cores x one process)", f"{best:.2f}", f"{middle:.2f}", ""),
        ("budget", f"{BUDGET:.2f}", f"{BUDGET:.2f}", ""),
    ]
    return table(header, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.math_verification", description=__doc__
    )
    parser.add_argument("--answers", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    found = asyncio.run(measure(given.answers, given.rounds))
    print(
        f"load average after:  {machine.load()}   ({given.answers} answers, {given.rounds} rounds)"
    )
    print()
    print(found)


if __name__ == "__main__":
    main()
