"""Measure the local model's speed on this machine, through the same model server as a run.

python -m palestra.responses_api_models.local_model.measure --threads 1 2 --at-once 1 8 16
"""

import argparse
import asyncio
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from palestra.responses_api_models.local_model.app import LocalModel, LocalModelConfig
from palestra.schema import Response, ResponseCreateParams
from palestra.server import Session
from palestra.transport import HttpClient, ServerClient

REPEATS = 4

_TEXT = (
    "Read the list and answer with one number, without any explanation. The list: "
    "apples, pears, plums, {n} oranges, grapes, cherries, figs, dates, lemons, limes, and nuts. "
    "A shop sells every kind for {p} cents a piece and gives one for free to whoever buys ten. "
    "How many cents do {n} oranges cost? Show only the final number, as digits, with no unit."
)


@dataclass(frozen=True, slots=True)
class Speed:
    """The seconds of one batch, and its tokens as counted by the engine."""

    seconds: float
    read: int
    cached: int
    written: int


def prompts(tasks: int) -> list[str]:
    """Return `tasks` prompts of about 100 tokens, each repeated `REPEATS` times in a row, as in a
    run.
    """
    texts = [_TEXT.format(n=task + 2, p=task * 7 % 30 + 1) for task in range(tasks)]
    return [text for text in texts for _ in range(REPEATS)]


async def batch(model: LocalModel, texts: list[str], *, at_once: int, tokens: int) -> Speed:
    """Send all `texts` to the model, `at_once` at a time, and return the speed."""
    pending = iter(texts)
    answers: list[Response] = []

    async def worker() -> None:
        for text in pending:
            params = ResponseCreateParams(input=text, max_output_tokens=tokens, temperature=1.0)
            answers.append(await model.responses(params, Session("measure")))

    started = time.monotonic()
    async with asyncio.TaskGroup() as workers:
        for _ in range(at_once):
            workers.create_task(worker())
    seconds = time.monotonic() - started
    usages = [answer.usage for answer in answers if answer.usage is not None]
    return Speed(
        seconds,
        read=sum(usage.input_tokens for usage in usages),
        cached=sum(usage.input_tokens_details.cached_tokens or 0 for usage in usages),
        written=sum(usage.output_tokens for usage in usages),
    )


@contextmanager
def children_cpu() -> Iterator[list[float]]:
    """Yield a list, and append the CPU seconds of the child processes that ended during the `with`
    block.
    """
    spent: list[float] = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield spent
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


async def measure(threads: int, at_once: int, *, slots: int, tasks: int, tokens: int) -> str:
    """Return one line of the table. Each call starts a new engine, so that no cache is reused."""
    http = HttpClient()
    config = LocalModelConfig(name="measured", threads=threads, slots=slots)
    model = LocalModel(config=config, server_client=ServerClient({}, http))
    with children_cpu() as spent:
        started = time.monotonic()
        await model.start()
        ready_s = time.monotonic() - started
        try:
            speed = await batch(model, prompts(tasks), at_once=at_once, tokens=tokens)
        finally:
            await model.stop()
            await http.aclose()
    return (
        f"| {threads} | {slots} | {at_once} | {ready_s:.1f} | {tasks * REPEATS} | {speed.seconds:.1f} "
        f"| {speed.written / speed.seconds:.0f} | {speed.read / speed.seconds:.0f} "
        f"| {100 * speed.cached / max(1, speed.read):.0f}% | {spent[0]:.0f} "
        f"| {os.getloadavg()[0]:.1f} |\n"
    )


def main() -> None:
    """Print a table, one line per combination."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--slots", type=int, nargs="+", default=[8])
    parser.add_argument("--tasks", type=int, default=8, help=f"each is asked {REPEATS} times")
    parser.add_argument("--tokens", type=int, default=32, help="most output tokens of an answer")
    options = parser.parse_args()
    sys.stdout.write(
        "| threads | slots | at once | ready s | requests | s | written tok/s | read tok/s "
        "| from cache | CPU s | load |\n|" + "---|" * 11 + "\n"
    )
    for threads in options.threads:
        for slots in options.slots:
            for at_once in options.at_once:
                line = measure(
                    threads, at_once, slots=slots, tasks=options.tasks, tokens=options.tokens
                )
                sys.stdout.write(asyncio.run(line))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
