"""One request on one line of a log, for `++global_aiohttp_client_request_debug=True`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from palestra.config import MASK, is_secret_name
from palestra.errors import RowIdentity, excerpt
from palestra.schema import encode_json

SCHEMA_PATH = "/openapi.json"
_PRIVATE = frozenset({"cookie", "set-cookie"})


def exchange_line(
    method: str,
    url: str,
    row: RowIdentity | None,
    headers: Mapping[str, str],
    request: Any,
    status: int | None,
    answer: str,
) -> str:
    """What was asked (the JSON body as `kwargs`) and what came back, headers masked by name.

    `status` is None when there was no answer; `answer` then says why. The body of a published
    schema is left out. A failed request has the words that NeMo Gym's debugging guide searches for.
    """
    failed = status is None or status >= 400
    shown = {
        name: MASK if is_secret_name(name) or name.lower() in _PRIVATE else value
        for name, value in headers.items()
    }
    body = request if isinstance(request, bytes) else encode_json(request)
    info = (
        f"{method} {url} status={'none' if status is None else status} "
        f"row={_json(None if row is None else asdict(row))} headers={_json(shown)}"
    )
    kwargs, content = _one_line(excerpt(body)), _one_line(answer)
    if failed:
        return (
            f"request failed: Request info: {info} Request kwargs: {kwargs} "
            f"Response content: {content}"
        )
    if url.partition("?")[0].endswith(SCHEMA_PATH):
        content = "(a schema, left out)"
    return f"request answered: {info} kwargs={kwargs} response={content}"


def _json(value: Any) -> str:
    return encode_json(value).decode()


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")
