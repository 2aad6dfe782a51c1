"""In words why a job ended: from the result file that its supervisor leaves, or its exit code."""

import re
from collections.abc import Mapping
from typing import Any, Final

from palestra.system import signal_name

_BARE_EXIT: Final = re.compile(r"exited with \d+|was ended by ")
_EXITED_WELL: Final = re.compile(r"exited with 0\b")
_SIGNAL: Final = re.compile(r"(?:\d+:|-)([1-9]\d?)")
_ERROR: Final = "error: "
MOST_CHARACTERS: Final = 400


def reason_of(result: Mapping[str, Any]) -> str:
    """Why the job ended, with the last word of the log where the reason is no more than an exit.

    Empty when there is no reason, as after a job that went well.
    """
    reason = str(result.get("reason") or "")
    said = _last_word(str(result.get("log") or ""), errors_only=bool(_EXITED_WELL.search(reason)))
    return f"{reason}: {said}" if said and _BARE_EXIT.search(reason) else reason


def killed_by(exit_code: str) -> str:
    """Which signal ended a supervisor before it wrote a result; empty when none did.

    `exit_code`: Slurm's (`0:9`, exit and signal), or that of a process (`-9`).
    """
    ended_by = _SIGNAL.fullmatch(exit_code)
    if ended_by is None:
        return ""
    name = signal_name(int(ended_by[1]))
    cause = " (out of memory?)" if name == "SIGKILL" else ""
    return f"killed by {name}{cause}, no result was written"


def _last_word(log: str, *, errors_only: bool) -> str:
    """The last error of a log, since hints may follow it; without one, its last line.

    `errors_only`: the last line of a program that exited well is no cause.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    other = [] if errors_only else lines
    return (errors or other or [""])[-1][:MOST_CHARACTERS]
