"""What a collection adds to its rows when observability is on: captured calls and the trajectory."""

import asyncio
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, final

from pydantic import BaseModel

from palestra.config import ConfigTree, capture_settings
from palestra.observability import (
    ATTACHMENTS,
    attach_trajectory_record,
    clear_capture,
    merge_model_call_capture_into_record,
    rollout_id_of,
)
from palestra.schema import (
    ATTEMPT_INDEX,
    FAILURE_JUDGE_ERROR,
    MAX_ROW_BYTES,
    ROLLOUT_ID,
    ROLLOUT_INDEX,
    TASK_INDEX,
    TRAJECTORY,
    JsonDict,
    JsonObject,
    encode_json,
    fields_of,
)

MOST_BYTES: Final = MAX_ROW_BYTES // 4
"""The largest trajectory that a row gets with its requests and responses, in bytes of JSON."""

_IDENTITY: Final = (TASK_INDEX, ROLLOUT_INDEX, ATTEMPT_INDEX, ROLLOUT_ID)


def attempt_row(row: JsonObject, attempt: int) -> JsonObject:
    """Return the row of an attempt, from 1: from the second on it has `_ng_attempt_index`."""
    return row if attempt <= 1 else {**row, ATTEMPT_INDEX: attempt - 1}


NOTHING_REPORTED: Final[JsonObject] = MappingProxyType({})


def reported_fields(result: BaseModel | JsonObject) -> JsonDict:
    """Return what a result without a reward reports beside its failure, for the failures file."""
    fields = fields_of(result) if isinstance(result, BaseModel) else result
    names = (FAILURE_JUDGE_ERROR, *ATTACHMENTS)
    return {name: fields[name] for name in names if fields.get(name) is not None}


@final
class RolloutCapture:
    """The capture files of a collection's rollouts, in `folder`.

    `calls`: whether model calls are captured, so that rows get them.
    """

    def __init__(self, folder: Path, *, calls: bool) -> None:
        self._folder = folder
        self._calls = calls

    @classmethod
    def of(cls, tree: ConfigTree) -> Self | None:
        """Return the capture that the configuration enables; None when it enables none.

        Raises ConfigError: its settings are wrong.
        """
        settings = capture_settings(tree)
        return None if settings is None else cls(settings.folder, calls=settings.calls)

    async def clear(self, row: JsonObject) -> None:
        """Remove the files of an earlier attempt with the same id."""
        rollout_id = rollout_id_of(row)
        if rollout_id is not None:
            await asyncio.to_thread(clear_capture, self._folder, rollout_id)

    async def attached(self, row: JsonObject, result: BaseModel) -> JsonDict:
        """Return the fields of a result, with what was captured of its rollout."""
        fields = fields_of(result)
        if self._calls:
            await asyncio.to_thread(self._attach, row, fields)
        return fields

    def _attach(self, row: JsonObject, fields: JsonDict) -> None:
        fields.update({name: row[name] for name in _IDENTITY if row.get(name) is not None})
        merge_model_call_capture_into_record(fields, [self._folder], include_payloads=True)
        attach_trajectory_record(row, fields)
        _limit(fields)


def _limit(fields: JsonDict) -> None:
    """Leave out the payloads of a trajectory that is too large for a row, and say so in its gaps."""
    trajectory = fields.get(TRAJECTORY)
    if not isinstance(trajectory, dict) or len(encode_json(trajectory)) <= MOST_BYTES:
        return
    for call in trajectory["model_calls"]:
        call["request"] = call["response"] = None
    detail = f"larger than {MOST_BYTES} bytes; the capture files have them"
    gap = {"code": "trajectory_payloads_left_out", "invocation_id": None, "detail": detail}
    trajectory["gaps"].append(gap)
