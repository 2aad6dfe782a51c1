"""The token ids of one captured model call, as a trainer reads them from `<id>.tokens.jsonl`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from palestra.schema import TOKEN_FIELDS, JsonDict, JsonObject

SCHEMA_VERSION: Final = 1
ROUTED_EXPERTS: Final = "routed_experts"


def token_record(rollout_id: str, exchange: JsonObject) -> JsonDict | None:
    """Return the token record of a line of a capture file; None when the answer has no token ids.

    `token_item_index`: the output item that carried the ids.
    """
    response = exchange.get("response")
    if not isinstance(response, Mapping):
        return None
    items = _output_items(str(exchange["dialect"]), response)
    index = next((i for i in reversed(range(len(items))) if _has_ids(items[i])), None)
    # A message of Anthropic's protocol has them beside its content.
    carrier: Any = response if index is None and _has_ids(response) else None
    if index is not None:
        carrier = items[index]
    if carrier is None:
        return None
    return {
        "schema_version": SCHEMA_VERSION,
        "rollout_id": rollout_id,
        "model_call_id": exchange["model_call_id"],
        "model": response.get("model"),
        **{name: carrier[name] for name in TOKEN_FIELDS},
        ROUTED_EXPERTS: carrier.get(ROUTED_EXPERTS),
        "output_items": items,
        "token_item_index": index,
        "created_at": exchange["completed_at"],
    }


def _output_items(dialect: str, response: JsonObject) -> list[Any]:
    if dialect == "chat":
        choices = _list(response.get("choices"))[:1]
        return [choice.get("message") for choice in choices if isinstance(choice, Mapping)]
    return _list(response.get("output" if dialect == "responses" else "content"))


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def _has_ids(item: Any) -> bool:
    return isinstance(item, Mapping) and all(item.get(name) is not None for name in TOKEN_FIELDS)
