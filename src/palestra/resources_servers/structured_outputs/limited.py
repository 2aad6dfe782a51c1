"""The steps of `steps.py` that have no bound of their own, in a process that has."""

from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from palestra.resources_servers.limited_child import LimitReached, run_limited
from palestra.resources_servers.structured_outputs.no_document import NoDocument

_PROGRAM: Final = Path(__file__).with_name("steps.py")


async def read_toml(text: str) -> JsonValue:
    """The value of a TOML document. Raises NoDocument, also for one that takes too long."""
    answer = await _run("toml", text)
    if "refused" in answer:
        raise NoDocument(f"not TOML: {answer['refused']}")
    return answer["value"]


async def limited_problem(schema: JsonValue, value: JsonValue) -> str | None:
    """What is wrong with a value, None when it is valid. Raises NoDocument when it takes too long."""
    answer = await _run("validate", schema, value)
    if "refused" in answer:
        raise NoDocument(f"it cannot be validated: {answer['refused']}")
    return cast("str | None", answer["value"])


async def _run(*request: JsonValue) -> dict[str, JsonValue]:
    try:
        return cast("dict[str, JsonValue]", await run_limited(_PROGRAM, list(request)))
    except LimitReached:
        raise NoDocument("it takes more time or memory than there is to look at it") from None
