"""`Health`: the current state of a client."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Health:
    """The current state of a client."""

    ok: bool
    """Whether rollouts that are submitted now can come back."""
    reason: str
    """Why `ok` is false; else empty."""
    in_flight: int
    queued: int
    waiting: int
    """The number of outcomes that nobody has taken yet."""
    paused: bool
    held_back: str
    """Why no other rollout starts now: `in_flight`, `max_waiting` (outcomes wait to be taken),
    `paused`, `bytes`, or `memory: …`; empty when no rollout waits to start."""
    weight_version: int | None
    servers: dict[str, str] = field(default_factory=dict)
    """The state of each instance, by name."""
    retrying: str = ""
    """The requests that rollouts in flight are retrying, and why: for example, an endpoint refuses
    connections. Servers in their own processes do not report this."""
    repeatable: bool = False
    """Whether every environment declares that a rollout which began may be started again."""
    last_failure: str = ""
    """The last attempt that failed, whether or not it was retried."""
