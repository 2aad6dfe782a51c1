"""Faults that really break something, each with the layer and cause that must be named.

A fault is a generator: it breaks a world and yields how the command ended; then it does what the
diagnosis says, and yields how the command ends now. Without a second yield, its remedy is nothing
that a test can do (buying credit, a longer time limit).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from seeded_world import (
    Asked,
    Deed,
    Done,
    Plan,
    World,
    completion,
    fine,
    json_reply,
    task,
)

Steps = Iterator[Done]


@dataclass(frozen=True)
class Fault:
    """`shows`: what the evidence has to quote. `subject`: what is diagnosed."""

    name: str
    cause: str
    steps: Callable[[World], Steps]
    shows: str
    subject: str = "run.log"

    @property
    def stem(self) -> str:
        """The layer's short name."""
        return self.cause.partition(".")[0]


def seeded(
    cause: str, shows: str, subject: str = "run.log"
) -> Callable[[Callable[[World], Steps]], Fault]:
    """Make a fault of the function that breaks and mends."""
    return lambda steps: Fault(steps.__name__, cause, steps, shows, subject)


def faults_of(*modules: ModuleType) -> list[Fault]:
    """All faults of these modules, in their order."""
    return [held for module in modules for held in vars(module).values() if isinstance(held, Fault)]


def refuses(status: int, sentence: str, *, model: str = "") -> Plan:
    """Every request (of `model`) is answered with an error."""

    def plan(asked: Asked) -> Deed:
        if model and asked.body["model"] != model:
            return fine(asked)
        return json_reply({"error": {"message": sentence, "type": "error"}}, status)

    return plan


def always(deed: Deed, *, model: str = "tiny") -> Plan:
    """The same for every request of a model."""
    return lambda asked: deed if asked.body["model"] == model else fine(asked)


def judged(text: str, reason: str = "stop") -> Plan:
    """The judge says this."""
    said = completion(text)
    said["choices"][0]["finish_reason"] = reason
    return always(json_reply(said), model="judge")


def mended(world: World, *overrides: str, **given: Any) -> Done:
    """The endpoint is well again, and the run is started anew."""
    world.upstream.plan = fine
    return world.collect(*overrides, **{"overwrite": True, **given})


def tried_again(world: World, *overrides: str, **given: Any) -> Done:
    """`--resume` with more attempts."""
    world.upstream.plan = fine
    return world.collect(*overrides, resume_from_cache=True, max_attempts=2, **given)


def many_tasks(world: World, count: int = 150) -> None:
    world.write("tasks.jsonl", [task(number=n) for n in range(count)])
