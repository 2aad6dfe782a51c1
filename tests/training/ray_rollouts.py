"""Rollouts on a real Ray on this machine: streamed, and then broken in every way.

Run as a program, in `ray_project` and in a session of its own, so that whoever started it can end all of Ray's
processes at once. Writes `result.json` into the folder, as Ray writes to standard output; or says
`no cluster: …` when Ray itself did not start.

python ray_rollouts.py FOLDER [CGROUP]
"""

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from palestra.training import ClientSettings, Completed, IncompleteRollouts
from palestra.training.adapters.ray import (
    Landed,
    open_fleet,
    rollouts,
    start_actor,
    stop_actor,
)

RESULT = "result.json"
ASKED, ANSWERED = 6, 4
"""Rows of a batch, and how many of them end by themselves."""
LIMIT_S = 30.0


def rows(folder: Path, name: str, *, does: str, group: str | None = None) -> list[dict[str, Any]]:
    """The first few answer; what the others do never ends."""
    common = {"responses_create_params": {"input": "-"}, "mark": str(folder / name)}
    return [
        {**common, "does": "answer" if index < ANSWERED else does, "group": group}
        for index in range(ASKED)
    ]


@contextmanager
def an_actor() -> Iterator[Any]:
    servers = partial(open_fleet, ["configs/waiting.yaml"])
    actor = start_actor(servers, ClientSettings(token_ids=False), num_cpus=0)
    try:
        yield actor
    finally:
        stop_actor(actor)


def wait_for(mark: Path) -> int:
    """The process of the agent, once it has begun a row that it will not end."""
    until = time.monotonic() + LIMIT_S
    while not mark.exists():
        if time.monotonic() > until:
            raise TimeoutError(mark)
        time.sleep(0.02)
    return int(mark.read_text())


def gone(pid: int) -> bool:
    """Whether a process ends before long."""
    until = time.monotonic() + LIMIT_S
    while Path(f"/proc/{pid}").exists() and "(zombie)" not in status(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "(zombie)"


def told(error: IncompleteRollouts, began: float) -> dict[str, Any]:
    """What the driver is told, after another journey through pickle."""
    took = time.monotonic() - began
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    return {
        "type": type(error).__name__,
        "requested": again.requested,
        "received": again.received,
        "missing": [str(key) for key in again.missing],
        "signal": again.cause.signal,
        "memory": again.cause.out_of_memory,
        "sentence": again.cause.sentence,
        "hint": again.hint,
        "took_s": took,
    }


def streamed(folder: Path) -> dict[str, Any]:
    """A batch that goes well, and what is left when it was stopped."""
    import ray

    with an_actor() as actor:
        landed = list(rollouts(actor, rows(folder, "unused", does="answer")))
        health = ray.get(actor.health.remote(), timeout=LIMIT_S)
        # Leaving a stream early cancels the rest.
        waiting = rollouts(actor, rows(folder, "left", does="wait"))
        next(waiting)
        agent = wait_for(folder / "left")
        waiting.close()
        until = time.monotonic() + LIMIT_S
        while ray.get(actor.health.remote()).in_flight and time.monotonic() < until:
            time.sleep(0.05)
        left = ray.get(actor.health.remote()).in_flight
    return {
        "rows": sorted(each.row for each in landed),
        "rewards": [each.outcome.reward for each in landed if isinstance(each.outcome, Completed)],
        "timed": all(each.timing is not None and each.timing.total_s > 0 for each in landed),
        "healthy": health.ok,
        "left": left,
        "agent gone": gone(agent),
    }


def broken(folder: Path, name: str, break_it: Callable[[Any, int], None], **given: Any) -> Any:
    """What the driver is told when something is killed in the midst of a batch."""
    with an_actor() as actor:
        asked = rows(folder, name, **{"does": "wait", **given})
        stream = rollouts(actor, asked)
        landed: list[Landed] = [next(stream) for _ in range(ANSWERED)]
        assert sorted(each.row for each in landed) == list(range(ANSWERED))
        agent = wait_for(folder / name)
        began = time.monotonic()
        break_it(actor, agent)
        try:
            rest = list(stream)
        except IncompleteRollouts as error:
            return {**told(error, began), "agent gone": gone(agent)}
        return {"type": "nothing raised", "rest": len(rest)}


def kill_agent(_: Any, agent: int) -> None:
    os.kill(agent, signal.SIGKILL)


def kill_actor(actor: Any, _: int) -> None:
    import ray

    pid = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=LIMIT_S)
    os.kill(pid, signal.SIGKILL)


def nothing(_: Any, __: int) -> None:
    """The agent takes memory until the kernel ends it."""


def refused() -> dict[str, Any]:
    """A fleet that cannot start."""
    try:
        start_actor(partial(open_fleet, ["configs/nothing.yaml"]), num_cpus=0)
    except Exception as error:
        return {"type": type(error).__name__, "message": str(error)}
    return {"type": "nothing raised"}


def main() -> None:
    import ray

    folder, group = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    try:
        ray.init(
            num_cpus=1,
            object_store_memory=80 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
        )
    except Exception as error:
        sys.exit(f"no cluster: {error}")
    found = {
        "streamed": streamed(folder),
        "agent killed": broken(folder, "killed", kill_agent),
        "actor killed": broken(folder, "actor", kill_actor),
        "refused": refused(),
    }
    if group is not None:
        found["memory"] = broken(folder, "memory", nothing, does="take memory", group=group)
    ray.shutdown()
    (folder / RESULT).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
