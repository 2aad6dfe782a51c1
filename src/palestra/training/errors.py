"""Errors that end a batch. All can be pickled, because actors send them to trainers.

RunFailed, RuntimeError
└── BatchFailed               not all requested rollouts will come back
    ├── IncompleteRollouts    fewer rollouts than requested
    ├── InvalidLogprobs       invalid log probs: NaN, above 0, too few
    ├── NotEnoughSpread       too few groups have rewards that differ
    ├── NoTokenIds            token ids were requested, and no rollout has any
    └── TokenDiscontinuity    a turn whose prompt does not start with the ids so far
"""

from typing import Any, Final

import msgspec

from palestra.errors import Layer, RunFailed
from palestra.training.outcomes import Completed, Outcome
from palestra.training.requests import Key

SHOWN_KEYS = 20
"""The largest number of missing keys that a message lists; `missing` has all of them."""
SHOWN_LINES = 10
SHOWN_FRAMES = 20
LOWER_IN_TRAINER: Final = (
    "num_prompts_per_step * num_generations_per_prompt in the trainer (num_prompts_per_step first)"
)
"""The trainer's settings that decide how many rollouts it requests at once, by their config names.
"""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why rollouts do not come back. Unknown fields are empty."""

    sentence: str
    """What happened, if known: `agent reasoning (process 4711) was killed by …`."""
    process: str = ""
    """The instance whose process ended."""
    pid: int | None = None
    signal: str = ""
    """The signal that ended the process, such as `SIGKILL`; else empty."""
    exit_code: int | None = None
    out_of_memory: bool = False
    """Whether the counters of the process's cgroup, or its output, show that memory ran out."""
    setting: str = ""
    """Which setting to lower and its value, or where to look."""
    stack: tuple[str, ...] = ()
    """The stack of a process that is stuck."""
    waiting: tuple[Key, ...] = ()
    """The rollouts that were in flight, and so wait for the process."""


class BatchFailed(RunFailed, RuntimeError):
    """Error: not all requested rollouts will come back. A RuntimeError, so that trainers can catch
    it.
    """

    outcomes: tuple[Outcome, ...] = ()
    """The outcomes that the trainer has not received, in the order of the requests. They include
    rollouts that were cancelled when the batch ended."""

    @property
    def completed(self) -> list[Completed]:
        """The outcomes in `outcomes` that have a reward."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Completed)]

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class: what it is made of is more than its message.
        return type(self).__new__, (type(self), self.message), vars(self)


class IncompleteRollouts(BatchFailed):
    """Error: fewer rollouts came back than were requested. Training on the rest would hide this."""

    layer = Layer.INFRA

    requested: int
    received: int
    """The number of rollouts that came back with a reward."""
    missing: tuple[Key, ...]
    """The keys of all other rollouts, in the order of their requests."""
    cause: Cause  # type: ignore[assignment]  # it tells a trainer more than the doctor's name
    failures: dict[str, int]
    """How the missing rollouts ended: a count for each failure class."""
    log_tails: dict[str, tuple[str, ...]]
    """The last output lines of each process that ended, by name."""
    least: int | None
    """The number of rollouts that `min_fraction` requires, if too few is why this was raised; else
    None."""

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
    """Error: token ids were requested, but no rollout of the batch has any, so nothing can be
    trained on.
    """

    layer = Layer.MODEL

    def __init__(self, completed: int, reason: str) -> None:
        super().__init__(
            f"none of the {completed} completed rollouts has token ids ({reason})",
            hint="return_token_id_information: true in the settings of a vllm_model requests "
            "token ids; token_ids=False in ClientSettings trains without them",
        )


class NotEnoughSpread(BatchFailed):
    """Error: dynamic sampling ended with fewer groups than requested. All others have equal rewards
    or were dropped, and no more fresh groups may be run.
    """

    layer = Layer.DATA

    requested_groups: int
    returned_groups: int
    fresh_groups: int
    """The number of fresh groups that were run."""
    queue_ended: bool
    """Whether the queue of tasks has ended; else `max_fresh_groups` was reached."""

    def __init__(
        self, *, requested_groups: int, returned_groups: int, fresh_groups: int, queue_ended: bool
    ) -> None:
        self.requested_groups, self.returned_groups = requested_groups, returned_groups
        self.fresh_groups, self.queue_ended = fresh_groups, queue_ended
        reason = "the queue of tasks has ended" if queue_ended else "max_fresh_groups is reached"
        super().__init__(
            f"{returned_groups} of {requested_groups} groups have spread of reward after "
            f"{fresh_groups} fresh groups: {reason}",
            hint="choose tasks that the model solves sometimes (`palestra select`), or raise "
            "max_fresh_groups; the groups with spread were returned before this error",
        )


class InvalidLogprobs(BatchFailed):
    """Error: invalid log probs. One is NaN, infinite or above 0, or there are more or fewer than
    ids.
    """

    layer = Layer.MODEL

    key: Key
    turn: int
    """The index of the turn, from 0."""
    position: int | None
    """The index in the turn's generated ids; None when only the lengths differ."""
    value: str
    """A description of the invalid value."""

    def __init__(
        self, key: Key, *, turn: int, position: int | None, value: str, message: str
    ) -> None:
        self.key, self.turn, self.position, self.value = key, turn, position, value
        super().__init__(
            message,
            hint="on_invalid_logprobs=mask trains without such rollouts; nan_retries runs them "
            "again",
        )


class TokenDiscontinuity(BatchFailed):
    """Error: a turn's prompt does not start with the ids of the turns before it."""

    layer = Layer.MODEL

    key: Key
    turn: int
    """The index of the turn, from 0."""
    position: int
    """The index of the first id that differs, counted from the start of the prompt."""
    expected: tuple[int, ...]
    """A few of the ids so far, around `position`."""
    returned_ids: tuple[int, ...]
    """A few ids of the prompt, around `position`."""

    def __init__(
        self,
        key: Key,
        *,
        turn: int,
        position: int,
        expected: tuple[int, ...],
        returned_ids: tuple[int, ...],
        message: str,
    ) -> None:
        self.key, self.turn, self.position = key, turn, position
        self.expected, self.returned_ids = expected, returned_ids
        super().__init__(
            message,
            hint="on_discontinuity=split trains on the consistent parts, =mask leaves the "
            "rollout out; see docs/topics/token-ids.md for endpoints that keep a rollout on "
            "policy",
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
