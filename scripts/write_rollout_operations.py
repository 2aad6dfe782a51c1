"""Write the client's operations of the rollout service from the service's OpenAPI document.

`python scripts/write_rollout_operations.py`: writes `src/palestra/training/service/operations.py`.
A test holds the file to what this writes.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from palestra.training.service import openapi_document

TARGET: Final = Path(__file__).resolve().parents[1] / "src/palestra/training/service/operations.py"
LINES: Final = "application/x-ndjson"
OWN_TYPES: Final = {"Health": "palestra.training.health"}
"""Schemas whose classes are elsewhere than in `wire`."""
TYPES: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}

HEAD: Final = (
    '"""'
    """The operations of the rollout service.

Written by scripts/write_rollout_operations.py from the service's OpenAPI document. Change
`interface.py`, and run it again.
\"\"\"

from typing import Any, Protocol, TypeVar, final
from urllib.parse import quote

{imports}

Answer = TypeVar("Answer")


class Send(Protocol):
    \"\"\"Sends one request to the service.\"\"\"

    async def __call__(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        /,
        *,
        query: dict[str, Any] | None = None,
        body: object = None,
    ) -> Answer:
        \"\"\"Return the response's body as `answer`: `bytes` unchanged, another type from JSON.\"\"\"
        ...


@final
class RolloutOperations:
    \"\"\"One method for each operation. `send` raises the errors that the service responds with.\"\"\"

    def __init__(self, send: Send) -> None:
        self._send = send
"""
)


def module(document: Mapping[str, Any]) -> str:
    """Return the text of the module, formatted."""
    methods = [
        "\n".join(_method(path, verb, operation))
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    ]
    used = {
        name
        for verbs in document["paths"].values()
        for item in verbs.values()
        for name in _types(item)
    }
    elsewhere = [
        f"from {OWN_TYPES[name]} import {name}" for name in sorted(used & OWN_TYPES.keys())
    ]
    of_wire = ", ".join(sorted(used - OWN_TYPES.keys()))
    imports = "\n".join([*elsewhere, f"from palestra.training.service.wire import {of_wire}"])
    return _formatted(HEAD.replace("{imports}", imports) + "\n" + "\n\n".join(methods) + "\n")


def _method(path: str, verb: str, operation: Mapping[str, Any]) -> Iterator[str]:
    answer = _answer(operation)
    yield f"    async def {operation['operationId']}({', '.join(_parameters(operation))}) -> {answer}:"
    yield f'        """{operation["summary"]}"""'
    in_path = 'f"' + path.replace("{batch}", "{quote(batch, safe='')}") + '"'
    address = in_path if "{batch}" in path else f'"{path}"'
    query = [item["name"] for item in operation["parameters"] if item["in"] == "query"]
    arguments = [f'"{verb.upper()}"', address, answer]
    if query:
        arguments.append("query={" + ", ".join(f'"{name}": {name}' for name in query) + "}")
    if "requestBody" in operation:
        arguments.append("body=body")
    yield f"        return await self._send({', '.join(arguments)})"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    yield "self"
    if any(item["in"] == "path" for item in operation["parameters"]):
        yield "batch: str"
    if "requestBody" in operation:
        yield f"body: {_name(operation['requestBody']['content']['application/json']['schema'])}"
    query = [item for item in operation["parameters"] if item["in"] == "query"]
    if query:
        yield "*"
    for item in query:
        schema = item["schema"]
        default = "" if item["required"] else f" = {schema['default']!r}"
        yield f"{item['name']}: {TYPES[schema['type']]}{default}"


def _answer(operation: Mapping[str, Any]) -> str:
    content = operation["responses"]["200"]["content"]
    return "bytes" if LINES in content else _name(content["application/json"]["schema"])


def _types(operation: Mapping[str, Any]) -> Iterator[str]:
    if (answer := _answer(operation)) != "bytes":
        yield answer
    if "requestBody" in operation:
        yield _name(operation["requestBody"]["content"]["application/json"]["schema"])


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    finished = subprocess.run(  # noqa: S603  # our own command, no shell
        command, input=text, capture_output=True, text=True, check=True
    )
    return finished.stdout


if __name__ == "__main__":
    TARGET.write_text(module(openapi_document()))
