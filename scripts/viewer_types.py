"""Writes viewer-ui/src/replies.ts: the replies of the viewer's server as types of the page.

`python scripts/viewer_types.py` writes it; `--check` fails when it is not current.
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import msgspec

from palestra.viewer.endpoints import ENDPOINTS
from palestra.viewer.replies.base import ErrorReply

TARGET = Path(__file__).parents[1] / "viewer-ui" / "src" / "replies.ts"
_SCALARS = {str: "string", int: "number", float: "number", bool: "boolean", types.NoneType: "null"}


def rendered() -> str:
    """Return the text of the module."""
    blocks = [
        "// Made by scripts/viewer_types.py from src/palestra/viewer/replies and endpoints.py.",
        *map(_interface, _reply_types()),
        _replies_by_name(),
        _endpoints(),
    ]
    return "\n\n".join(blocks) + "\n"


def _reply_types() -> list[type]:
    """Return the types of all replies and of their parts, in the order of the endpoints."""
    ordered: dict[type, None] = {}
    pending: list[typing.Any] = [
        ErrorReply,
        *(endpoint.reply for endpoint in ENDPOINTS if endpoint.reply is not None),
    ]
    while pending:
        hint = pending.pop(0)
        is_object = hasattr(hint, "__struct_fields__") or dataclasses.is_dataclass(hint)
        if not is_object:
            pending = [*typing.get_args(hint), *pending]
        elif hint not in ordered:
            ordered[hint] = None
            pending = [*typing.get_type_hints(hint).values(), *pending]
    return list(ordered)


def _interface(reply_type: type) -> str:
    hints = typing.get_type_hints(reply_type)
    fields = [f"  {field.name}: {_type(hints[field.name])};" for field in _fields(reply_type)]
    return "\n".join([f"export interface {reply_type.__name__} {{", *fields, "}"])


def _fields(reply_type: type) -> typing.Any:
    is_struct = hasattr(reply_type, "__struct_fields__")
    return msgspec.structs.fields(reply_type) if is_struct else dataclasses.fields(reply_type)


def _type(hint: typing.Any) -> str:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in {typing.Union, types.UnionType}:
        return " | ".join(dict.fromkeys(map(_type, arguments)))
    if origin is list:
        inner = _type(arguments[0])
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<string, {_type(arguments[1])}>"
    return str(hint.__name__)


def _replies_by_name() -> str:
    lines = [
        f"  {endpoint.name}: {endpoint.reply.__name__ if endpoint.reply else 'Blob'};"
        for endpoint in ENDPOINTS
    ]
    return "\n".join(["export interface ReplyOf {", *lines, "}"])


def _endpoints() -> str:
    return "\n".join(["export const ENDPOINTS = {", *_endpoint_lines(), "} as const;"])


def _endpoint_lines() -> Iterator[str]:
    for endpoint in ENDPOINTS:
        parameters = ", ".join(f'"{name}"' for name in endpoint.parameters)
        yield f"  {endpoint.name}: {{"
        yield f'    path: "{endpoint.path}",'
        yield f"    parameters: [{parameters}],"
        yield f"    streams: {str(endpoint.streams).lower()},"
        yield "  },"


def main() -> int:
    """Write the module, or with `--check` say whether it is current."""
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(rendered(), encoding="utf-8")
        return 0
    is_current = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == rendered()
    if not is_current:
        print(f"{TARGET} is not current: run python scripts/viewer_types.py", file=sys.stderr)
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main())
