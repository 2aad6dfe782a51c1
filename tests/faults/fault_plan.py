"""What happens to each rollout of a fault-injection run, and how it must end.

The plan is a function of (seed, task, rollout) alone. The fake upstream, the environment, the
agent and the test each derive it, so that the test knows the right ending of every rollout.
`FAULTS_SEED` chooses another plan, `FAULTS_ONLY` (names of fates, with commas between) a part of
the fates, to look at one closely.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Literal

SEED = os.environ.get("FAULTS_SEED", "1")
Place = Literal["upstream", "environment", "agent"]


@dataclass(frozen=True)
class Fate:
    """One way for a rollout to go.

    `outcome` and `layer` are those of its last failed attempt; without a layer it is scored.
    `failures`: failed attempts in the failures file. `body`: the innermost hop has to hold the
    rollout's mark; `says` is what the message has to hold, `mark` included where `marked`.
    """

    name: str
    place: Place
    outcome: str = "scored"
    layer: str = ""
    failures: int = 0
    body: bool = False
    marked: bool = False
    says: str = ""
    weight: int = 1


def policy(name: str, *, body: bool = True, says: str = "") -> Fate:
    """The endpoint's answer is an error or no answer: tried again, and the same again."""
    return Fate(name, "upstream", "policy_error", "model serving", 2, body=body, says=says)


def infra(name: str, says: str) -> Fate:
    return Fate(name, "upstream", "infra_error", "infra", 2, says=says)


def slow(name: str, place: Place, says: str) -> Fate:
    return Fate(name, place, "timeout", "throughput/resources", 2, says=says)


def busy(name: str) -> Fate:
    """The endpoint says until the deadline that it is busy."""
    return Fate(name, "upstream", "timeout", "throughput/resources", 2, body=True)


def verifier(name: str, place: Place = "environment", *, says: str = "") -> Fate:
    """The environment's own code is broken: it would be broken again."""
    return Fate(name, place, "verifier_error", "verifier/runtime", 1, marked=not says, says=says)


def environment(name: str) -> Fate:
    return Fate(name, "environment", "environment_error", "verifier/runtime", 1, marked=True)


def agent(name: str) -> Fate:
    return Fate(name, "agent", "agent_error", "verifier/runtime", 1, marked=True)


def scored(name: str, place: Place, *, failures: int = 0, weight: int = 1) -> Fate:
    return Fate(name, place, failures=failures, weight=weight)


def rejected(name: str) -> Fate:
    """The endpoint will never take this row."""
    return Fate(name, "upstream", "data_error", "model serving", 1, body=True)


NO_REWARD = "which is not a reward"

FATES = (
    scored("fine", "environment", weight=12),
    scored("fine with a tool", "environment", weight=8),
    infra("upstream refuses", "Connect"),
    slow("upstream hangs", "upstream", "policy_model"),
    slow("upstream trickles", "upstream", "policy_model"),
    policy("upstream 500"),
    scored("upstream 500 for one attempt", "upstream", failures=1),
    scored("upstream 503 once", "upstream"),
    scored("upstream 429 once", "upstream"),
    busy("upstream 503 always"),
    busy("upstream 429 always"),
    policy("upstream html"),
    policy("upstream truncated json"),
    policy("upstream wrong shape"),
    policy("upstream no choices", body=False),
    policy("upstream empty", body=False, says="chat completion"),
    policy("upstream invalid utf-8"),
    policy("upstream deep json"),
    policy("upstream surrogate"),
    policy("upstream redirects", body=False, says="302"),
    scored("upstream cuts once", "upstream"),
    infra("upstream cuts", "connection broke"),
    infra("upstream resets", "connection broke"),
    infra("upstream bad status line", "not an answer of HTTP"),
    infra("upstream bad gzip", "not an answer of HTTP"),
    rejected("upstream rejects the tools"),
    Fate("upstream context overflow", "upstream", "data_error", "data/schema", 1, body=True),
    scored("tool raises", "environment"),
    scored("tool answers 500", "environment"),
    scored("tool answers nan", "environment"),
    scored("tool answers much", "environment"),
    scored("tool answers a surrogate", "environment"),
    slow("tool hangs", "environment", "look_up"),
    scored("tool hangs once", "environment", failures=1),
    environment("seed raises"),
    verifier("verify raises"),
    verifier("verify answers 500"),
    slow("verify hangs", "environment", "/verify"),
    verifier("verify nan", says=NO_REWARD),
    verifier("verify inf", says=NO_REWARD),
    verifier("verify none", says=NO_REWARD),
    verifier("verify text", says=NO_REWARD),
    verifier("verify without reward", says=NO_REWARD),
    verifier("verify nothing", says=NO_REWARD),
    verifier("verify enormous", says=NO_REWARD),
    scored("verify reports much", "environment"),
    verifier("verify reports an object", says="JSON"),
    verifier("verify exits"),
    verifier("verify raises the unprintable", says="Unprintable"),
    verifier("verify raises a surrogate"),
    verifier("verify raises a group"),
    verifier("verify cancels itself"),
    agent("agent raises"),
    agent("agent exits"),
    agent("agent cancels itself"),
    slow("agent hangs", "agent", "fault_agent"),
    verifier("agent answers nan", "agent", says="reward"),
)  # fmt: skip

NAMED = {fate.name: fate for fate in FATES}
_ONLY = [NAMED[name] for name in filter(None, os.environ.get("FAULTS_ONLY", "").split(","))]
_WEIGHTED = tuple(fate for fate in (_ONLY or FATES) for _ in range(fate.weight))


def _dice(task: int, rollout: int) -> int:
    digest = hashlib.sha256(f"{SEED}:{task}:{rollout}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def fate_of(task: int, rollout: int) -> Fate:
    """What happens to this rollout."""
    return _WEIGHTED[_dice(task, rollout) % len(_WEIGHTED)]


def reward_of(task: int, rollout: int) -> float:
    """The reward it gets when it is scored."""
    return _dice(task, rollout) // 1000 % 1000 / 1000


def mark_of(task: int, rollout: int) -> str:
    """What the innermost cause of its failure says, and nothing else does."""
    return f"[mark {task}:{rollout}]"


def prompt_of(task: int) -> str:
    return f"Task {task}: what is it?"


def task_in(prompt: str) -> int:
    """The task that a prompt belongs to. Raises ValueError when it belongs to none."""
    found = re.search(r"Task (\d+):", prompt)
    if found is None:
        raise ValueError(prompt)
    return int(found[1])


def answer_of(task: int, rollout: int) -> str:
    """What the model answers when it is let."""
    return f"answer {task}:{rollout}"
