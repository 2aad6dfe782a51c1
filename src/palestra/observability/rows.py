"""Merge the captured model calls of a rollout into its result row."""

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from palestra.observability.normalization import metrics_of, records_of
from palestra.observability.observations import (
    AgentObservationBundle,
    ObservationGap,
    join_model_call_observations,
)
from palestra.observability.records import ModelCallRecord
from palestra.observability.rollout_ids import rollout_id_of
from palestra.observability.store import CaptureStore
from palestra.schema import AGENT_OBSERVATIONS, MODEL_CALL_CAPTURE, TRAJECTORY, JsonDict, JsonObject

logger = logging.getLogger("palestra.observability")

ATTACHMENTS: Final = (MODEL_CALL_CAPTURE, AGENT_OBSERVATIONS, TRAJECTORY)
"""The fields of a result row that hold observations. No metric is computed of them."""

_ASSOCIATIONS: Final = {
    "claude_code": (
        "responses_api_agents.claude_code_agent.observability",
        "associate_claude_code_compaction_calls",
    )
}
"""By source of a bundle: the function of the agent's own folder that finds the calls of its
compactions."""


def without_attachments(row: JsonObject) -> JsonDict:
    """Return a result row without its observations, as aggregation requests send it."""
    return {name: value for name, value in row.items() if name not in ATTACHMENTS}


def merge_model_call_capture_into_record(
    record: JsonDict, capture_dirs: Sequence[Path], *, include_payloads: bool = False
) -> JsonDict:
    """Add the captured calls of the rollout that `record` names, and return `record`.

    Unchanged without folders, or when the record names no rollout. `include_payloads`: also add
    requests and responses. What cannot be read is named in `gaps`; nothing is raised for it.
    """
    rollout_id = _id_of(record) if capture_dirs else None
    if rollout_id is None:
        return record
    gaps: list[ObservationGap] = []
    calls = _calls(rollout_id, capture_dirs, gaps)
    if AGENT_OBSERVATIONS in record:
        _join(record, calls, gaps)
    attachment: JsonDict = {
        "rollout_id": rollout_id,
        "metrics": metrics_of(calls),
        "calls": [
            call.model_dump(mode="json") if include_payloads else call.without_payloads()
            for call in calls
        ],
    }
    if gaps:
        attachment["gaps"] = [gap.model_dump(mode="json") for gap in gaps]
    record[MODEL_CALL_CAPTURE] = attachment
    return record


def _id_of(record: JsonObject) -> str | None:
    try:
        return rollout_id_of(record)
    except ValueError as error:
        logger.warning("no capture is merged: %s", error)
        return None


def _calls(
    rollout_id: str, folders: Sequence[Path], gaps: list[ObservationGap]
) -> list[ModelCallRecord]:
    """Return the calls in all folders. Problems are added to `gaps`."""
    calls: list[ModelCallRecord] = []
    damaged = 0
    incomplete = unreadable = False
    for folder in folders:
        try:
            store = CaptureStore(folder)
            exchanges, damaged_here = store.read_available(rollout_id)
            incomplete |= store.is_incomplete(rollout_id)
        except OSError as error:
            logger.warning("the capture of rollout %s cannot be read: %s", rollout_id, error)
            unreadable = True
            continue
        damaged += damaged_here
        calls += records_of(exchanges)
    if damaged:
        code = "model_call_capture_records_unreadable"
        gaps.append(ObservationGap(code=code, detail=f"count={damaged}"))
    if incomplete:
        gaps.append(ObservationGap(code="model_call_capture_incomplete"))
    if unreadable:
        gaps.append(ObservationGap(code="model_call_capture_unreadable"))
    if not calls and not damaged and not unreadable:
        gaps.append(ObservationGap(code="model_call_capture_no_records"))
    return calls


def _join(record: JsonDict, calls: Sequence[ModelCallRecord], gaps: list[ObservationGap]) -> None:
    """Add the ids of captured calls to the references in the agent's observations."""
    try:
        bundle = AgentObservationBundle.model_validate(record[AGENT_OBSERVATIONS])
        bundle = _with_compaction_calls(bundle, calls)
        bundle = join_model_call_observations(bundle, calls)
        record[AGENT_OBSERVATIONS] = bundle.model_dump(mode="json")
    except Exception as error:
        gaps.append(ObservationGap(code="agent_observation_join_failed", detail=_name(error)))


def _with_compaction_calls(
    bundle: AgentObservationBundle, calls: Sequence[ModelCallRecord]
) -> AgentObservationBundle:
    if bundle.source not in _ASSOCIATIONS:
        return bundle
    module, function = _ASSOCIATIONS[bundle.source]
    try:
        associate: Any = getattr(importlib.import_module(module), function)
        associated = associate(bundle, calls)
    except Exception as error:
        gap = ObservationGap(code="compaction_model_call_join_failed", detail=_name(error))
        return bundle.model_copy(update={"gaps": [*bundle.gaps, gap]})
    return associated if isinstance(associated, AgentObservationBundle) else bundle


def _name(error: Exception) -> str:
    return type(error).__name__
