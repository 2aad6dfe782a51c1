"""The rows of `data/example.jsonl`, written by running this module: one schema in five forms."""

from pathlib import Path
from typing import Any

from palestra.schema import encode_json

TEXT = (
    "The ferry Alma, built in 1987, crosses the strait six times a day. She carries 40 cars and "
    "calls at Norrby and at Tall Point. In winter she stays in port."
)

FERRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "built": {"type": "integer"},
        "cars": {"type": ["integer", "null"]},
        "in_winter": {"type": "boolean"},
        "stops": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "required": ["name", "built", "cars", "in_winter", "stops"],
    "additionalProperties": False,
}
STOPS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"ferry": {"type": "string"}, "stop": {"type": "string"}},
        "required": ["ferry", "stop"],
        "additionalProperties": False,
    },
}

ASK = "Extract the data of this text as {notation}, by the schema below, and write nothing else."
CALL = "Hand the data of this text to the tool that fits."

TOOL: dict[str, Any] = {
    "type": "function",
    "name": "record_ferry",
    "description": "Record a ferry.",
    "parameters": {
        "type": "object",
        "properties": {"record": FERRY},
        "required": ["record"],
        "additionalProperties": False,
    },
    "strict": True,
}
OTHER_TOOL: dict[str, Any] = {
    "type": "function",
    "name": "record_bridge",
    "description": "Record a bridge.",
    "parameters": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "length_m": {"type": "number"}},
        "required": ["name", "length_m"],
        "additionalProperties": False,
    },
    "strict": True,
}


def rows() -> list[dict[str, Any]]:
    """The five rows, in file order."""
    written = [
        _row(ASK.format(notation=notation.upper()), schema, schema_type=notation)
        for notation, schema in (("json", FERRY), ("yaml", FERRY), ("xml", FERRY), ("csv", STOPS))
    ]
    called = _row(
        CALL,
        FERRY,
        schema_type="json",
        response_mode="tool_call",
        tool_name="record_ferry",
        tool_payload_key="record",
    )
    called["responses_create_params"]["tools"] = [OTHER_TOOL, TOOL]
    return [
        {**row, "uuid": f"structured-outputs-example-{number}"}
        for number, row in enumerate([*written, called])
    ]


def _row(ask: str, schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    stated = encode_json(schema).decode()
    prompt = f"{ask}\n\n{TEXT}" + ("" if ask == CALL else f"\n\nSchema: {stated}")
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "schema_str": stated,
        **fields,
    }


if __name__ == "__main__":
    lines = b"".join(encode_json(row) + b"\n" for row in rows())
    Path(__file__).with_name("data").joinpath("example.jsonl").write_bytes(lines)
