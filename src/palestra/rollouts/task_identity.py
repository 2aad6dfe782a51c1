"""Compare rows as tasks: what differs between the rollouts of one task does not count."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from palestra.schema import AGENT_REF, CREATE_PARAMS, JsonObject

INDEX_OF_ANOTHER_TASK: Final = (
    "give each task an index of its own, or none: `jq -c 'del(._ng_task_index, ._ng_rollout_index)'` "
    "removes them, and equal rows are one task then"
)
_OF_ONE_ROLLOUT: Final = "_ng_"
"""The start of the names of fields that number, name or describe a rollout."""
_OF_A_RESULT: Final = (AGENT_REF, CREATE_PARAMS)
"""What the results of one task have in common. Their other fields may be those of the verifier."""


def row_digest(row: JsonObject) -> bytes:
    """Return a digest of all fields of a row."""
    return hashlib.sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).digest()[:16]


def task_digest(row: JsonObject) -> bytes:
    """Return a digest of a row's task. It is the same for all rollouts of one task."""
    if isinstance(row.get("response"), Mapping):
        fields = {name: row[name] for name in _OF_A_RESULT if name in row}
    else:
        fields = {
            name: value for name, value in row.items() if not name.startswith(_OF_ONE_ROLLOUT)
        }
    params = fields.get(CREATE_PARAMS)
    return row_digest({**fields, CREATE_PARAMS: _without_seed(params)})


def _without_seed(params: Any) -> Any:
    """Return a row's parameters without the seed that each rollout has of its own.

    See `with_seed`: it is in `metadata.extra_body`, which is JSON text.
    """
    metadata = params.get("metadata") if isinstance(params, Mapping) else None
    if not isinstance(metadata, Mapping):
        return params
    raw = metadata.get("extra_body")
    try:
        extra = orjson.loads(raw) if isinstance(raw, str) else raw
    except orjson.JSONDecodeError:
        return params
    if not isinstance(extra, Mapping):
        return params
    extra_body = {name: value for name, value in extra.items() if name != "seed"}
    others = {name: value for name, value in metadata.items() if name != "extra_body"}
    return {**params, "metadata": others | ({"extra_body": extra_body} if extra_body else {})}
