"""What every client sends: one chat request of 3 KB, answered by 2.7 KB of JSON."""

from typing import Any

import orjson

from benchmarks.rollout_overhead.payloads import CREATE_PARAMS, MODEL

HEADERS = {"content-type": "application/json", "authorization": "Bearer EMPTY"}
TIMEOUT_S = 600.0

_REQUEST: dict[str, Any] = {
    "model": MODEL,
    "messages": CREATE_PARAMS["input"],
    "max_tokens": CREATE_PARAMS["max_output_tokens"],
    "tools": CREATE_PARAMS["tools"],
}
BODY = orjson.dumps(_REQUEST)
