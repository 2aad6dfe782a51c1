"""Search with a row's own regular expression, within a limit that holds.

A backtracking search cannot be interrupted from inside its process, and which text makes it slow
is up to the model. So it runs in a child process with a limit on its CPU time: a search that
exceeds it is killed by the kernel and has found nothing.

The one seam for it: when `palestra.sandbox` has warm workers, `search` asks them instead.
"""

import asyncio
import json
import signal
import sys

from palestra.errors import InfraError, excerpt

CPU_LIMIT_S = 1
WALL_LIMIT_S = 30.0
LONGEST_PATTERN = 1_000
LONGEST_TEXT = 100_000
"""Characters searched, from the end: the answer is what a model writes last."""

_PROGRAM = f"""
import json, re, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_LIMIT_S}, {CPU_LIMIT_S} + 1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
warnings.simplefilter("ignore")
pattern, text = json.load(sys.stdin)
last = None
for last in re.finditer(pattern, text):
    pass
found = None if last is None else last[1] if last.re.groups else last[0]
json.dump(found, sys.stdout)
"""


async def search(pattern: str, text: str) -> str | None:
    """The first group (else the whole) of the last match; None when none is found in time.

    Raises `InfraError` when the child could not run.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-c",
        _PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WALL_LIMIT_S):
            request = json.dumps([pattern, text[-LONGEST_TEXT:]]).encode()
            out, err = await child.communicate(request)
    except TimeoutError:
        # The CPU limit is far below: this machine did not let the child run.
        raise InfraError(f"the regex child did not end within {WALL_LIMIT_S} s") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    status = await child.wait()
    if status == -signal.SIGXCPU:
        return None
    if status != 0:
        raise InfraError(f"the regex child exited {status}: {excerpt(err)}")
    found: str | None = json.loads(out)
    return found
