"""In words why a job ended, from the result file that its supervisor leaves."""

import re
from collections.abc import Mapping
from typing import Any, Final

_BARE_EXIT: Final = re.compile(r"exited with \d+|was ended by ")
_ERROR: Final = "error: "
MOST_CHARACTERS: Final = 400


def reason_of(result: Mapping[str, Any]) -> str:
    """Why the job ended, with the last word of the log where the reason is no more than an exit.

    Empty when there is no reason, as after a job that went well.
    """
    reason = str(result.get("reason") or "")
    said = _last_word(str(result.get("log") or ""))
    return f"{reason}: {said}" if said and _BARE_EXIT.search(reason) else reason


def _last_word(log: str) -> str:
    """The last error of a log, since hints may follow it; without one, its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    return (errors or lines or [""])[-1][:MOST_CHARACTERS]
