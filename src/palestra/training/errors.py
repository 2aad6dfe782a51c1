"""What ends a batch. All of them survive pickling, for they cross from actors to trainers.

RunFailed, RuntimeError
└── BatchFailed               what was asked for will not all come back
    ├── IncompleteRollouts    fewer rollouts than were asked for
    ├── InvalidLogprobs       log probs that are none: NaN, above 0, too few
    ├── NoTokenIds            token ids were asked for, and no rollout has any
    └── TokenDiscontinuity    a turn whose prompt does not start with the ids so far
"""

from typing import Any, Final

import msgspec

from palestra.errors import Layer, RunFailed
from palestra.training.outcomes import Completed, Outcome
from palestra.training.requests import Key

SHOWN_KEYS = 20
"""How many missing keys a message spells out; `missing` has all of them."""
SHOWN_LINES = 10
SHOWN_FRAMES = 20
LOWER_IN_TRAINER: Final = (
    "num_prompts_per_step * num_generations_per_prompt in the trainer (num_prompts_per_step first)"
)
"""What decides how many rollouts a trainer asks for at once, by the names in its configuration."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why rollouts do not come back. What is not known is empty."""

    sentence: str
    """What happened, as far as it is known: `agent reasoning (process 4711) was killed by …`."""
    process: str = ""
    """The instance whose process ended."""
    pid: int | None = None
    signal: str = ""
    """`SIGKILL`, when a signal ended it."""
    exit_code: int | None = None
    out_of_memory: bool = False
    """Whether the counters of its cgroup, or what it printed, say that memory ran out."""
    setting: str = ""
    """What to lower, and to what or from what; or what to look at."""
    stack: tuple[str, ...] = ()
    """What a process that is stuck executes."""
    waiting: tuple[Key, ...] = ()
    """The rollouts that were in flight, and so wait for it."""


class BatchFailed(RunFailed, RuntimeError):
    """What was asked for will not all come back. Trainers catch it as the RuntimeError that it is."""

    outcomes: tuple[Outcome, ...] = ()
    """Of rollouts that have ended, those that the trainer was not handed before, in the order of
    the requests. What the batch's end cancelled is among them."""

    @property
    def completed(self) -> list[Completed]:
        """Those of `outcomes` with a reward."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Completed)]

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class: what it is made of is more than its message.
        return type(self).__new__, (type(self), self.message), vars(self)


class IncompleteRollouts(BatchFailed):
    """Fewer rollouts came back than were asked for. Training on what came would hide that."""

    layer = Layer.INFRA

    requested: int
    received: int
    """Rollouts with a reward that had come back."""
    missing: tuple[Key, ...]
    """All others, in the order of their requests."""
    cause: Cause  # type: ignore[assignment]  # it tells a trainer more than the doctor's name
    failures: dict[str, int]
    """How the missing ones ended, by class."""
    log_tails: dict[str, tuple[str, ...]]
    """The last lines of each process that ended."""
    least: int | None
    """How many had to come back by `min_fraction`, where that is why it is raised."""

    def __init__(
        self,
        *,
        requested: int,
        received: int,
        missing: tuple[Key, ...],
        cause: Cause,
        failures: dict[str, int] | None = None,
        log_tails: dict[str, tuple[str, ...]] | None = None,
        least: int | None = None,
    ) -> None:
        self.requested = requested
        self.received = received
        self.missing = missing
        self.cause = cause
        self.failures = failures or {}
        self.log_tails = log_tails or {}
        self.least = least
        super().__init__(_message(self))
        # In the message, not in a note: what trainers log is the message alone.
        self.hint = cause.setting


class NoTokenIds(BatchFailed):
    """Token ids were asked for, and no rollout of the batch has any: there is nothing to train on."""

    layer = Layer.MODEL

    def __init__(self, completed: int, reason: str) -> None:
        super().__init__(
            f"none of the {completed} completed rollouts has token ids ({reason})",
            hint="return_token_id_information: true in the settings of a vllm_model has its "
            "endpoint return them; token_ids=False in ClientSettings does without them",
        )


class InvalidLogprobs(BatchFailed):
    """Log probs that are none: a NaN or an infinity, above 0, more or fewer than the ids."""

    layer = Layer.MODEL

    key: Key
    turn: int
    """From 0."""
    position: int | None
    """In the turn's generated ids; None when only the lengths differ."""
    value: str
    """What stood there."""

    def __init__(
        self, key: Key, *, turn: int, position: int | None, value: str, message: str
    ) -> None:
        self.key, self.turn, self.position, self.value = key, turn, position, value
        super().__init__(
            message,
            hint="on_invalid_logprobs=mask trains without such rollouts; nan_retries asks again",
        )


class TokenDiscontinuity(BatchFailed):
    """A turn's prompt does not start with the ids of the turns before it."""

    layer = Layer.MODEL

    key: Key
    turn: int
    """From 0."""
    position: int
    """The first that differs, counted from the start of the prompt."""
    expected: tuple[int, ...]
    """The ids so far around that position, a few."""
    found: tuple[int, ...]
    """The prompt's, around the same position."""

    def __init__(
        self,
        key: Key,
        *,
        turn: int,
        position: int,
        expected: tuple[int, ...],
        found: tuple[int, ...],
        message: str,
    ) -> None:
        self.key, self.turn, self.position = key, turn, position
        self.expected, self.found = expected, found
        super().__init__(
            message,
            hint="on_discontinuity=split trains on what hangs together, =mask leaves it out; see "
            "docs/token-ids.md for endpoints that keep a rollout on policy",
        )


def _message(error: IncompleteRollouts) -> str:
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(error.failures.items()))
    cause = error.cause
    lines = [
        # Word for word: logs and trainers are searched for this sentence.
        f"NeMo Gym returned only {error.received} rollouts but {error.requested} were requested. "
        f"{len(error.missing)} are missing" + (f" ({kinds})" if kinds else ""),
    ]
    if error.least is not None:
        lines.append(f"min_fraction in ClientSettings asks for at least {error.least}")
    lines.append(f"cause: {cause.sentence}")
    if cause.setting:
        lines.append(f"hint: {cause.setting}")
    if cause.waiting:
        lines.append(f"{len(cause.waiting)} rollouts wait for it: {_keys(cause.waiting)}")
    if cause.stack:
        lines.append(f"what {cause.process} executes:")
        lines += [f"  | {line}" for line in cause.stack[:SHOWN_FRAMES]]
    lines.append(f"missing: {_keys(error.missing)}")
    for process, tail in error.log_tails.items():
        if not tail:
            lines.append(f"{process} printed nothing")
            continue
        lines.append(f"the last lines of {process}:")
        lines += [f"  | {line}" for line in tail[-SHOWN_LINES:]]
    return "\n".join(lines)


def _keys(keys: tuple[Key, ...]) -> str:
    addition = f" and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else ""
    return ", ".join(map(str, keys[:SHOWN_KEYS])) + addition
