"""Reading back what a run has recorded: rows of its output and of its failures file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.errors import InputDataError
from palestra.rollouts.results import RETRIABLE, WORTH_ANOTHER_ATTEMPT
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    ROLLOUT_INDEX,
    TASK_INDEX,
    Outcome,
    read_jsonl,
)


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """The failed attempt of a rollout that none was recorded after. It decides what comes next."""

    number: int
    outcome: Outcome
    terminal: bool
    retriable: bool

    @classmethod
    def after(cls, before: "LastAttempt | None", row: Mapping[str, Any]) -> "LastAttempt":
        """The last one when `row` stands behind what told of `before`."""
        earlier = 0 if before is None else before.number
        number = row.get("attempt", earlier + 1)
        if before is not None and number < earlier:
            return before
        outcome = Outcome(row[FAILURE_CLASS])
        return cls(
            number,
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


def recorded_rows(path: Path, field_name: str) -> Iterator[dict[str, Any]]:
    """Whole rows of one of a run's files, each with `field_name`; a torn last line is no row.

    Raises InputDataError for a line that no run wrote.
    """
    if not path.exists():
        return
    needed = {TASK_INDEX, ROLLOUT_INDEX, field_name}
    for line in read_jsonl(path):
        if not line.ended:
            return  # cut off by a kill, even where what is left happens to be JSON
        if not isinstance(line.row, dict) or needed - line.row.keys():
            raise InputDataError(
                f"{path} line {line.number} is not a row of a run: "
                + (line.error or f"it needs {', '.join(sorted(needed))}"),
                hint="give back the file as it was, or start again with --overwrite",
            )
        yield line.row


def outcome_of(row: Mapping[str, Any]) -> Outcome:
    """How a scored rollout ended: truncated when its last turn hit a limit."""
    details = (row.get("response") or {}).get("incomplete_details") or {}
    cut = details.get("reason") == "max_output_tokens"
    return Outcome.TRUNCATED if cut else Outcome.SCORED


def output_tokens_of(row: Mapping[str, Any]) -> int:
    """Tokens that the model generated for a scored rollout; 0 when nobody counted."""
    usage = (row.get("response") or {}).get("usage") or {}
    return int(usage.get("output_tokens") or 0)
