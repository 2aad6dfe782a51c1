"""Converts a trainer's input to the row and the sampling parameters of a request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson

from palestra.errors import ConfigError, InputDataError
from palestra.schema import JsonDict, JsonObject

PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_output_tokens",
        "max_new_tokens": "max_output_tokens",
        "max_completion_length": "max_output_tokens",
        "max_generate_length": "max_output_tokens",
    }
)
"""Trainers' names of the parameters that every endpoint supports, with the Responses API's names.
"""

_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "top_k": (0, -1),
        "min_p": (0.0,),
        "repetition_penalty": (1.0,),
        "presence_penalty": (0.0,),
        "frequency_penalty": (0.0,),
    }
)
"""Values that have no effect. They are not sent, because endpoints without the parameter reject it.
"""

_OURS: Final = frozenset({"logprobs", "prompt_logprobs", "return_token_ids", "stream"})
"""Parameters that are not passed on: the model server itself requests token ids and log probs."""


def row_of(source: Any, where: str) -> JsonObject:
    """Return a task's row, given as a mapping or as JSON text (Arrow tables mix up mappings).

    Raises InputDataError, with `where` as the place of the bad row.
    """
    row = source
    if isinstance(source, str | bytes):
        try:
            row = orjson.loads(source)
        except orjson.JSONDecodeError as error:
            raise InputDataError(f"{where} is not JSON: {error}") from None
    if not isinstance(row, Mapping) or "responses_create_params" not in row:
        raise InputDataError(
            f"{where} is not a task: it has no responses_create_params",
            hint="store each task in one column, as the JSON line from its file",
        )
    return row


def sampling_for(row: JsonObject, settings: JsonObject) -> JsonDict:
    """Convert a trainer's sampling parameters to the parameters of a request for `row`.

    Parameters that the Responses API lacks (`top_k`, `min_p`, `stop`, …) are sent to the endpoint
    unchanged, in `metadata.extra_body`. Raises ConfigError: `n` is more than 1.
    """
    if settings.get("n") not in {None, 1}:
        raise ConfigError(
            f"n is {settings['n']}: it must be 1, as a request has one answer; request each "
            "rollout separately"
        )
    sampling: JsonDict = {}
    extra: JsonDict = {}
    for name, value in settings.items():
        if value is None or name == "n" or name in _OURS:
            continue
        if name in PARAMETERS:
            sampling[PARAMETERS[name]] = value
        elif value not in _NEUTRAL.get(name, ()):
            extra[name] = value
    if extra:
        metadata = dict(row["responses_create_params"].get("metadata") or {})
        own_body = orjson.loads(metadata.get("extra_body") or "{}")
        metadata["extra_body"] = orjson.dumps({**own_body, **extra}).decode()
        sampling["metadata"] = metadata
    return sampling
