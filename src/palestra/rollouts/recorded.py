"""Reading back what a run has recorded: rows of its output and of its failures file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from palestra.errors import InputDataError
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, Outcome, read_jsonl


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
