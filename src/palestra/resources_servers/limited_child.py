"""Runs a small program of ours in a process that the kernel stops at its limits.

Native code and Python's own matchers cannot be interrupted from inside their process. A program
sets its own limits (`resource.setrlimit`), reads JSON and prints JSON; a run costs some 50 ms.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from palestra.errors import InfraError, excerpt

WALL_LIMIT_S: Final = 30.0

_STOPPED: Final = frozenset({-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV})
"""How a process ends at its limits: of time, or of memory in native code."""


class LimitReached(Exception):
    """The program took more time or memory than it has."""


async def run_limited(program: Path, request: JsonValue) -> JsonValue:
    """What `program` prints for `request`. Raises LimitReached, or InfraError when it could not run."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WALL_LIMIT_S):
            out, err = await child.communicate(json.dumps(request).encode())
    except TimeoutError:
        # The limit of CPU time is far below: this machine did not let the child run.
        raise InfraError(f"{program.name} did not end within {WALL_LIMIT_S} s") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    status = await child.wait()
    if status in _STOPPED:
        raise LimitReached
    if status != 0:
        raise InfraError(f"{program.name} exited {status}: {excerpt(err)}")
    answer: JsonValue = json.loads(out)
    return answer
