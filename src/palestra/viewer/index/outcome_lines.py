"""Reads lines of `palestra.training.outcome_to_json` as the rows of a run: results and failed attempts."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from palestra.analysis import decode_value, split_row
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_LAYER,
    FAILURE_TERMINAL,
    RETRIABLE,
    ROLLOUT_INDEX,
    TASK_INDEX,
)

_TAG: Final = "outcome"
_KEY: Final = {"task_id": TASK_INDEX, "rollout_index": ROLLOUT_INDEX}
_FAILURE: Final = {
    **_KEY,
    "failure": FAILURE_CLASS,
    "layer": FAILURE_LAYER,
    "retriable": RETRIABLE,
    "attempts": "attempt",
    "message": "message",
}
_COMPLETED: Final = {name: name for name in ("reward", "reward_components", "stop_reason")} | {
    name: name for name in ("truncated", "masked", "mask_reason", "weights_start", "weights_end")
}
"""The fields of an outcome that its row gets, if they are set."""


def is_outcome(line: bytes) -> bool:
    """Whether a line is an outcome of training."""
    fields = split_row(line) or {}
    return {_TAG, *_KEY} <= fields.keys() and bytes(fields[_TAG]) in {b'"completed"', b'"failed"'}


def is_failed(line: bytes) -> bool:
    """Whether an outcome is a failure."""
    return bytes((split_row(line) or {}).get(_TAG, b"")) == b'"failed"'


def row_of_outcome(line: bytes) -> bytes:
    """Return the row of an outcome: that of its rollout with the fields of the outcome, or that of a
    failed attempt. Another line is returned as it is.
    """
    if not is_outcome(line):
        return line
    fields = split_row(line) or {}
    if is_failed(line):
        return msgspec.json.encode(_failed_row(fields))
    row = split_row(bytes(fields.get("raw", b""))) or {}
    return msgspec.json.encode(
        {**row, **_select_fields(fields, _KEY), **_select_fields(fields, _COMPLETED)}
    )


def _failed_row(fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    evidence = split_row(bytes(fields.get("evidence", b"{}"))) or {}
    row: dict[str, Any] = _select_fields(fields, _FAILURE) | {FAILURE_TERMINAL: True}
    if "hint" in evidence:
        row["hint"] = evidence["hint"]
    where, body = (_text(evidence.get(name)) for name in ("where", "body"))
    row["hops"] = [{"server": where, "status": "failed", "body": body}] if where or body else []
    row["traceback"] = "\n".join(_lines(evidence.get("log_tail")))
    if "agent" in fields:
        row["agent_ref"] = {"name": fields["agent"]}
    return row


def _select_fields(
    fields: Mapping[str, msgspec.Raw], names: Mapping[str, str]
) -> dict[str, msgspec.Raw]:
    return {new: fields[old] for old, new in names.items() if old in fields}


def _text(raw: msgspec.Raw | None) -> str:
    value = None if raw is None else decode_value(raw)
    return value if isinstance(value, str) else ""


def _lines(raw: msgspec.Raw | None) -> list[str]:
    value = None if raw is None else decode_value(raw)
    return list(map(str, value)) if isinstance(value, list) else []
