"""Read the recorded rows of a run: its output and its failures file."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from palestra.errors import InputDataError, KnownCause, Outcome
from palestra.rollouts.results import ENDED_RUN, SPARED
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    RolloutKey,
    RunPaths,
    finite_reward,
    is_retriable,
    key_of,
    no_reward,
    read_jsonl,
)

REWARD = "reward"
AS_IT_WAS = "restore the original file, or start again with --overwrite"
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """The latest recorded failed attempt of a rollout. It decides whether another attempt follows."""

    number: int
    outcome: Outcome
    terminal: bool
    retriable: bool

    @classmethod
    def after(cls, before: "LastAttempt | None", row: JsonObject) -> "LastAttempt":
        """Return the last attempt after reading `row`, which follows the row of `before` in the
        file.
        """
        earlier = 0 if before is None else before.number
        number = row.get("attempt", earlier + 1)
        if before is not None and number < earlier:
            return before
        outcome = Outcome(row[FAILURE_CLASS])
        return cls(
            # What ended the run, or another rollout's code, was no fault of the rollout it met.
            number - (row.get(ENDED_RUN) is True or row.get(SPARED) is True),
            outcome,
            terminal=row.get(FAILURE_TERMINAL) is True,
            retriable=is_retriable(row.get(RETRIABLE), outcome),
        )

    def ended(self, max_attempts: int) -> bool:
        """Whether no further attempt follows when `max_attempts` are allowed.

        A rollout that ended because its attempts were used up continues when more are now allowed.
        Merging has no `max_attempts` and uses `terminal` instead.
        """
        if self.terminal and not self.retriable:
            return True
        return self.number >= max_attempts


def recorded_rows(path: Path, field_name: str) -> Iterator[JsonDict]:
    """Yield the complete rows of a run's file. Each must contain `field_name`. An incomplete last
    line is skipped.

    Raises InputDataError: a line is not a row of a run.
    """
    if not path.exists():
        return
    needed = {TASK_INDEX, ROLLOUT_INDEX, field_name}
    for line in read_jsonl(path):
        if not line.ended:
            return  # cut off by a kill, even where what is left happens to be JSON
        if problem := line.error or _problem(line.row, needed):
            raise InputDataError(
                f"{path} line {line.number} is not a row of a run: {problem}",
                hint=AS_IT_WAS,
                cause=KnownCause.BROKEN_JOURNAL,
            )
        yield line.row


def last_attempts(
    path: Path, key_in: Callable[[JsonDict], RolloutKey] = key_of
) -> dict[RolloutKey, LastAttempt]:
    """Return the last failed attempt of each rollout in a failures file. Raises the errors of
    `recorded_rows`.
    """
    attempts: dict[RolloutKey, LastAttempt] = {}
    for row in recorded_rows(path, FAILURE_CLASS):
        key = key_in(row)
        attempts[key] = LastAttempt.after(attempts.get(key), row)
    return attempts


def _problem(row: Any, needed: set[str]) -> str:
    """Return why `row` is not a valid row of a run; empty when it is valid."""
    if not isinstance(row, dict) or needed - row.keys():
        return f"it needs {', '.join(sorted(needed))}"
    for name in (TASK_INDEX, ROLLOUT_INDEX):
        if type(row[name]) is not int:
            return f"/{name} is {row[name]!r}, no whole number"
    if REWARD in needed and finite_reward(row[REWARD]) is None:
        return f"/{REWARD} is {no_reward(row[REWARD])}"
    kind = row.get(FAILURE_CLASS)
    if FAILURE_CLASS in needed and not (isinstance(kind, str) and kind in _OUTCOMES):
        return f"/{FAILURE_CLASS} is {kind!r}, no way for a rollout to end"
    return ""


class _Key(msgspec.Struct):
    task: int = msgspec.field(name=TASK_INDEX)
    rollout: int = msgspec.field(name=ROLLOUT_INDEX)


def scored_keys(path: Path) -> frozenset[RolloutKey]:
    """Return the keys of the rollouts in a run's output. Invalid lines are skipped."""
    if not path.exists():
        return frozenset()
    decoder = msgspec.json.Decoder(_Key)
    keys: set[RolloutKey] = set()
    with path.open("rb") as file:
        for line in file:
            with contextlib.suppress(msgspec.MsgspecError):
                key = decoder.decode(line)
                keys.add(RolloutKey(key.task, key.rollout))
    return frozenset(keys)


def has_unscored(paths: RunPaths) -> bool:
    """Whether a rollout in a run's failures file has no score. Invalid lines are skipped."""
    return not scored_keys(paths.failures) <= scored_keys(paths.output)
