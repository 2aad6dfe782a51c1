"""Task rows."""

from collections.abc import Sequence
from typing import Any

from palestra.schema import CREATE_PARAMS


def task_row(
    prompt: str, *, tools: Sequence[dict[str, Any]] = (), system: str = "", **fields: Any
) -> dict[str, Any]:
    """A row that asks `prompt`, with the fields that its verifier reads.

    `tools` are Responses API entries, as a server's `tools()` gives them.
    """
    messages = [{"role": "user", "content": prompt}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    params: dict[str, Any] = {"input": messages}
    if tools:
        params["tools"] = list(tools)
    return {CREATE_PARAMS: params, **fields}


def task_rows(count: int, prompt: str = "task {n}", **fields: Any) -> list[dict[str, Any]]:
    """`count` rows; `{n}` in the prompt, and in fields that are texts, is the row's number."""
    return [
        {
            **task_row(prompt.replace("{n}", str(number))),
            **{
                name: value.replace("{n}", str(number)) if isinstance(value, str) else value
                for name, value in fields.items()
            },
        }
        for number in range(count)
    ]
