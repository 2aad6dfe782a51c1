"""Reading back what a run has recorded: rows of its output and of its failures file."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from palestra.errors import InputDataError, KnownCause, Outcome
from palestra.rollouts.results import ENDED_RUN, SPARED, WORTH_ANOTHER_ATTEMPT
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    RolloutKey,
    finite_reward,
    key_of,
    no_reward,
    read_jsonl,
)

REWARD = "reward"
AS_IT_WAS = "give back the file as it was, or start again with --overwrite"
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """The failed attempt of a rollout that none was recorded after. It decides what comes next."""

    number: int
    outcome: Outcome
    terminal: bool
    retriable: bool

    @classmethod
    def after(cls, before: "LastAttempt | None", row: JsonObject) -> "LastAttempt":
        """The last one when `row` stands behind what told of `before`."""
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
            # Rows of older runs do not say.
            retriable=row.get(RETRIABLE, outcome in WORTH_ANOTHER_ATTEMPT),
        )

    def ended(self, max_attempts: int) -> bool:
        """Whether no other attempt is to follow, now that so many are allowed.

        One that ended its rollout for having been the last allowed does so no more when more are.
        Merging, which knows of no `max_attempts`, goes by `terminal`.
        """
        if self.terminal and not self.retriable:
            return True
        return self.number >= max_attempts


def recorded_rows(path: Path, field_name: str) -> Iterator[JsonDict]:
    """Whole rows of one of a run's files, each with `field_name`; a torn last line is no row.

    Raises InputDataError for a line that no run wrote.
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
    """Per rollout of a failures file: its last attempt that failed. Raises as `recorded_rows`."""
    attempts: dict[RolloutKey, LastAttempt] = {}
    for row in recorded_rows(path, FAILURE_CLASS):
        key = key_in(row)
        attempts[key] = LastAttempt.after(attempts.get(key), row)
    return attempts


def _problem(row: Any, needed: set[str]) -> str:
    """Why this is no row that a run writes; empty when it is one."""
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
    """The rollouts that a run's output holds; lines that are no rows are passed over."""
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
