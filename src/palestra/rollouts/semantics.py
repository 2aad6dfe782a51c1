"""Which settings a reward depends on, and which only say how the work is done."""

from collections.abc import Mapping

import orjson

from palestra.schema import JsonDict, JsonObject

OPERATIONAL = frozenset(
    {
        "api_key",
        "base_url",
        "default_headers",
        "openai_api_key",
        "openai_base_url",
        "request_timeout_s",
        "slots",
        "start_timeout_s",
        "threads",
        "verbose",
    }
)
"""Settings that may change between the start of a run and its continuation."""


def semantics_of(
    instances: Mapping[str, tuple[str, str, JsonObject]], extra: JsonObject
) -> JsonDict:
    """What the manifest remembers of a configuration.

    `instances`: name -> (server type, implementation, its own settings). `extra`: settings of
    the command that shape the rows.
    """
    servers = {
        name: {
            "type": kind,
            "implementation": implementation,
            "settings": {key: value for key, value in settings.items() if key not in OPERATIONAL},
        }
        for name, (kind, implementation, settings) in sorted(instances.items())
    }
    held = {"servers": servers, **extra}
    # As JSON gives it back, so that a later run compares like with like.
    read_back: JsonDict = orjson.loads(
        orjson.dumps(held, default=str, option=orjson.OPT_NON_STR_KEYS)
    )
    return read_back
