"""Runs a step of `steps.py` in a process that the kernel stops at its limits of time and memory.

Neither native code nor Python's own readers can be interrupted from inside their process. A step
costs about 60 ms here, so only those come here that have no other bound.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from palestra.errors import InfraError, excerpt
from palestra.resources_servers.structured_outputs.no_document import NoDocument

WALL_LIMIT_S: Final = 30.0

_PROGRAM: Final = Path(__file__).with_name("steps.py")
_STOPPED: Final = frozenset({-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV})
"""How a process ends at its limits: of time, or of memory in native code."""


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


async def _run(step: str, *given: JsonValue) -> dict[str, JsonValue]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(_PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WALL_LIMIT_S):
            out, err = await child.communicate(json.dumps([step, *given]).encode())
    except TimeoutError:
        # The limit of CPU time is far below: this machine did not let the child run.
        raise InfraError(f"the child did not end within {WALL_LIMIT_S} s") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    status = await child.wait()
    if status in _STOPPED:
        raise NoDocument("it takes more time or memory than there is to look at it")
    if status != 0:
        raise InfraError(f"the child exited {status}: {excerpt(err)}")
    answer: dict[str, JsonValue] = json.loads(out)
    return answer
