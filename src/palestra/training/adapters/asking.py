"""From a trainer's words to a request: its rows, and its sampling parameters."""

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
"""What trainers call the parameters that every endpoint knows."""

_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "top_k": (0, -1),
        "min_p": (0.0,),
        "repetition_penalty": (1.0,),
        "presence_penalty": (0.0,),
        "frequency_penalty": (0.0,),
    }
)
"""Values that mean the same as saying nothing: endpoints that do not know the parameter refuse it."""

_OURS: Final = frozenset({"logprobs", "prompt_logprobs", "return_token_ids", "stream"})
"""The model server asks for token ids and log probs itself."""


def row_of(source: Any, where: str) -> JsonObject:
    """A task's row, given as a mapping or as the JSON of one (Arrow tables mix up mappings).

    Raises InputDataError, naming `where` it was looked for.
    """
    row = source
    if isinstance(source, str | bytes):
        try:
            row = orjson.loads(source)
        except orjson.JSONDecodeError as error:
            raise InputDataError(f"{where} is no JSON: {error}") from None
    if not isinstance(row, Mapping) or "responses_create_params" not in row:
        raise InputDataError(
            f"{where} is no task: it has no responses_create_params",
            hint="keep each task in a column of its own, as the JSON line that it is in its file",
        )
    return row


def sampling_for(row: JsonObject, settings: JsonObject) -> JsonDict:
    """A trainer's sampling parameters as those of a request for `row`.

    What the Responses API has no word for (`top_k`, `min_p`, `stop`, …) goes to the endpoint as it
    is, in `metadata.extra_body`. Raises ConfigError for more than one answer to a request.
    """
    if settings.get("n") not in {None, 1}:
        raise ConfigError(
            f"n is {settings['n']}: a request has one answer; ask for each rollout by itself"
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
