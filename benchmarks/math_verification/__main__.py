"""`python -m benchmarks.math_verification [--answers N] [--rounds N]`: answers per second.

One process that calls math-verify as its documentation shows, in a loop, against our environment's
`/verify` (workers, messages, rules of our own and all). Rounds take turns; medians.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

from benchmarks import machine
from benchmarks.math_verification.answers import pairs
from benchmarks.samples import table
from palestra.resources_servers.math_with_judge.app import (
    MathWithJudgeConfig,
    MathWithJudgeServer,
    MathWithJudgeVerifyRequest,
)
from palestra.sandbox.workers.local import cores
from palestra.transport import AiohttpTransport, ServerClient

IN_FLIGHT = 64
BUDGET = 0.8

BARE = """
import sys, time
from math_verify import parse, verify
from benchmarks.math_verification.answers import pairs
def grade(expected, text):
    return verify(parse("\\\\boxed{" + expected + "}"), parse(text))
warm = int(sys.argv[1])
for expected, text in pairs(warm):
    grade(expected, text)
for line in sys.stdin:
    started = time.perf_counter()
    right = sum(grade(expected, text) for expected, text in pairs(int(line)))
    print(time.perf_counter() - started, right, flush=True)
"""


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
        server_client=ServerClient({}, AiohttpTransport()),
    )
    bare = subprocess.Popen(  # noqa: ASYNC220  # before anything is measured
        [sys.executable, "-c", BARE, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        await ours(server, count)  # forks, and fills the parser's tables
        found = [
            (await asyncio.to_thread(_bare, bare, count), await ours(server, count))
            for _ in range(rounds)
        ]
    finally:
        bare.communicate()
        await server.stop()
    return report(count, found)


def _bare(process: "subprocess.Popen[str]", count: int) -> tuple[float, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    seconds, right = process.stdout.readline().split()
    return float(seconds), int(right)


def report(count: int, found: Sequence[tuple[tuple[float, int], tuple[float, int]]]) -> str:
    """Rates, and ours as a share of what all cores could do."""
    one, all_ours = (
        median(count / side[0] for side in column) for column in zip(*found, strict=True)
    )
    share = median(bare[0] / (cores() * mine[0]) for bare, mine in found)
    (_, right_bare), (_, right_ours) = found[0]
    rows = [
        ("math-verify, one process", f"{one:.0f}", str(right_bare), ""),
        (f"ours, {cores()} cores", f"{all_ours:.0f}", str(right_ours), f"{share:.2f}"),
        ("budget", "", "", f"{BUDGET:.2f}"),
    ]
    return table(("answers per second", "median", "right", "of cores x one process"), rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.math_verification", description=__doc__
    )
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
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
