"""One process of a run is killed or stopped: the run ends in time by itself and says why."""

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue

import pytest
from faults_world import EXTRA_S, Done, Running, World, ended_at_last, long_run, tasks
from victims import (
    AGENT,
    ENVIRONMENT,
    MODEL,
    UPSTREAM,
    UpstreamProcess,
    in_processes,
    listener_among,
    upstream,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

TRIALS = long_run("FAULTS_BOUNDS", 32)
AT_ONCE = 4
"""Trials beside each other, each with a fleet: they wait more than they compute."""
ROLLOUTS, LONGEST_S = 40, 2.0
"""All in flight at once; the last one is answered after LONGEST_S."""
TIMEOUT_S, ATTEMPTS = 3.0, 2
BOUNDS = [
    *("--rollout-timeout", str(TIMEOUT_S), "--max-attempts", str(ATTEMPTS)),
    *("--progress", "none"),
]
AGAIN = ["--resume", "--max-attempts", "9"]
SERVERS = (AGENT, ENVIRONMENT, MODEL)
WAYS = [
    (victim, number)
    for victim in (UPSTREAM, *SERVERS)
    for number in (signal.SIGKILL, signal.SIGSTOP)
]


@dataclass(frozen=True)
class Trial:
    """What is done to which process, and what came of it."""

    number: int
    victim: str
    signal: signal.Signals
    moment_s: float
    """After the rollouts began."""
    code: int = 0
    took_s: float = 0.0
    """From the signal to the end."""
    text: str = ""

    @classmethod
    def make(cls, number: int) -> "Trial":
        victim, what = WAYS[number % len(WAYS)]
        moment_s = random.Random(f"bounds {number}").uniform(0, LONGEST_S * 0.8)
        return cls(number, victim, what, moment_s)

    @property
    def ends_fleet(self) -> bool:
        """Whether no other trial can use the fleet afterwards."""
        return self.signal is signal.SIGKILL and self.victim != UPSTREAM

    def __str__(self) -> str:
        return (
            f"{self.signal.name} to {self.victim} after {self.moment_s:.2f} s -> "
            f"exit code {self.code}, {self.took_s:.1f} s later:\n{self.text}"
        )


@dataclass
class Shared:
    """A fleet that runs beside its trials, with an endpoint of its own."""

    world: World
    endpoint: UpstreamProcess
    running: Running
    ports: dict[str, int]

    def pid_of(self, victim: str) -> int:
        if victim == UPSTREAM:
            return self.endpoint.process.pid
        return listener_among(self.running.children(), self.ports[victim])

    def command(self, number: int, *arguments: str) -> list[str]:
        """A collection that uses this fleet."""
        return [
            *("collect", "++head_server.port=0", "--agent", AGENT, "--input", "tasks.jsonl"),
            *("--output", f"run{number}.jsonl", *arguments),
        ]


@contextmanager
def shared_fleet(folder: Path) -> Iterator[Shared]:
    """`palestra run` with every server in a process."""
    with upstream(LONGEST_S, ROLLOUTS) as endpoint:
        world = World.make(folder, base_url=endpoint.base_url, steadily=True)
        world.write_rows("tasks.jsonl", tasks(ROLLOUTS))
        overrides, ports = in_processes()
        configs = ["--config", "configs/steady.yaml", *world.policy(), *overrides]
        with ended_at_last(world.start("run", *configs, log="fleet")) as running:
            running.until("servers ready")
            yield Shared(world, endpoint, running, ports)
            running.process.terminate()
            running.ended(timeout_s=10)


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Queue[Shared]]":
    """Fleets to take for one trial and to give back."""
    with ExitStack() as stack:
        made: Queue[Shared] = Queue()
        for number in range(AT_ONCE):
            folder = tmp_path_factory.mktemp("shared") / f"fleet{number}"
            made.put(stack.enter_context(shared_fleet(folder)))
        yield made


def test_a_run_of_which_a_process_is_gone_ends_in_time_and_says_why(
    fleets: "Queue[Shared]", tmp_path: Path
) -> None:
    def problem_of(number: int) -> str:
        trial = Trial.make(number)
        try:
            alone(tmp_path, trial) if trial.ends_fleet else beside(fleets, trial)
        except AssertionError as problem:
            return f"trial {number}: {problem}"
        return ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(filter(None, pool.map(problem_of, range(TRIALS))))
    assert not found, f"{len(found)} of {TRIALS}\n" + "\n\n".join(found[:5])


def beside(fleets: "Queue[Shared]", trial: Trial) -> None:
    """One trial with a shared fleet."""
    fleet = fleets.get(timeout=600)
    victim = fleet.pid_of(trial.victim)
    try:
        running = fleet.world.start(
            *fleet.command(trial.number, *BOUNDS), log=f"trial{trial.number}"
        )
        with ended_at_last(running):
            running.until(f"{ROLLOUTS} rollouts of")
            ended = disturbed(running, victim, trial)
        check(fleet.world, ended, f"run{trial.number}")
        back(fleet, trial, victim)
        check_resumed(fleet.world.run(*fleet.command(trial.number, *AGAIN)), ended)
    finally:
        back(fleet, trial, victim)
        fleets.put(fleet)


def back(fleet: Shared, trial: Trial, victim: int) -> None:
    """Whatever was done to `victim` is over."""
    if trial.victim != UPSTREAM:
        os.kill(victim, signal.SIGCONT)
    fleet.endpoint.back()


def alone(folder: Path, trial: Trial) -> None:
    """One trial with the servers in processes of the command."""
    with upstream(LONGEST_S, ROLLOUTS) as endpoint:
        folder = folder / f"trial{trial.number}"
        world = World.make(folder, base_url=endpoint.base_url, steadily=True)
        world.write_rows("tasks.jsonl", tasks(ROLLOUTS))
        overrides, ports = in_processes()
        with ended_at_last(world.start(*world.steady(*BOUNDS, *overrides))) as running:
            running.until(f"{ROLLOUTS} rollouts of")
            victim = listener_among(running.children(), ports[trial.victim])
            ended = disturbed(running, victim, trial)
        check(world, ended, "run")
        check_resumed(world.run(*world.steady(*AGAIN)), ended)


def disturbed(running: Running, victim: int, trial: Trial) -> Trial:
    """Send the signal at its moment and wait for the end."""
    time.sleep(trial.moment_s)  # the moment is the point
    os.kill(victim, trial.signal)
    started = time.monotonic()
    code = running.ended(timeout_s=ATTEMPTS * TIMEOUT_S + EXTRA_S)
    return replace(trial, code=code, took_s=time.monotonic() - started, text=running.text())


def check(world: World, ended: Trial, stem: str) -> None:
    """It failed, what it wrote adds up, and it says which process and what of it."""
    scored = len(world.rows(f"{stem}.jsonl"))
    failures = world.rows(f"{stem}_failures.jsonl")
    final = sum(row["_ng_failure_terminal"] for row in failures)
    assert ended.code == 1, ended
    assert "Traceback" not in ended.text, ended
    # A run that ended before anything was recorded leaves no files and nothing to account for.
    if (world.folder / f"{stem}_manifest.json").exists():
        [line] = [line for line in ended.text.splitlines() if line.startswith("requested ")]
        assert line.startswith(f"requested {ROLLOUTS} = scored {scored}"), ended
        assert f" + failed {final}" in line, ended
    if ended.ends_fleet:
        assert f"server {ended.victim} ended with signal SIGKILL" in ended.text, ended
        return
    told = [f"{row['message']} {[hop['server'] for hop in row['hops']]}" for row in failures]
    check_cause(ended, told)


def check_cause(ended: Trial, told: list[str]) -> None:
    """What the failures say of the process that did not answer any more."""
    name = MODEL if ended.victim == UPSTREAM else ended.victim
    what = r"[Cc]onnect" if ended.signal is signal.SIGKILL else r"within \d|for \d+\.\d s"
    for text in told:
        assert re.search(what, text), f"{ended}\n{text}"
    # On a busy machine the one or other answer of an inner server comes too late to be heard.
    named = sum(name in text for text in told)
    assert named > len(told) / 2, f"{ended}\n{named} of {len(told)}, such as {told[:3]}"


def check_resumed(resumed: Done, ended: Trial) -> None:
    assert resumed.code == 0, f"{ended}\nresumed: {resumed.said}"
    assert f"requested {ROLLOUTS} = scored {ROLLOUTS} + failed 0" in resumed.out
