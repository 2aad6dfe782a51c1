"""Why a server's process ended, and which setting to lower so that it does not happen again."""

import signal
from typing import Final, final

from palestra.errors import PalestraError, ServerDied
from palestra.fleet import ChildExit
from palestra.training.errors import LOWER_IN_TRAINER, Cause
from palestra.training.memory import MIB, Memory

_WORDS_OF_WANT: Final = (
    "MemoryError",
    "Cannot allocate memory",
    "std::bad_alloc",
    "Out of memory",
    "out of memory",
    "Unable to allocate",
)


@final
class PostMortem:
    """Finds out why a server's process ended, by comparing the kernel's kill counters with their
    values at the start.
    """

    def __init__(self, memory: Memory, pids: list[int | None], *, in_flight: int) -> None:
        self._memory = memory
        self._pids = pids
        self._in_flight = in_flight
        self._before = memory.oom_kills(pids)

    def cause(self, error: PalestraError, ending: ChildExit | None) -> Cause:
        """Return the known cause of `error`. `ending`: how the process ended, if one did."""
        if ending is None:
            return Cause(sentence=error.message.splitlines()[0], setting=self._unexplained(error))
        counted = self._counted()
        last_words = _quoted_lines(ending.last_lines)
        number = -ending.returncode if ending.returncode < 0 else 0
        reported = error.failure if isinstance(error, ServerDied) else ending.refusal
        by_kernel = counted if number == signal.SIGKILL else ""
        process = f"server {ending.name}" + (f" (process {ending.pid})" if ending.pid else "")
        return Cause(
            sentence=f"{process} ended with {ending.how}: "
            + (_why(number, by_kernel, last_words) or _own_reason(reported, ending.last_lines)),
            process=ending.name,
            pid=ending.pid,
            signal=ending.signal_name,
            exit_code=None if number else ending.returncode,
            out_of_memory=bool(by_kernel or last_words),
            setting=self._setting(reported, number, short=bool(by_kernel or last_words)),
        )

    def _counted(self) -> str:
        """Return the counter that shows more processes killed for memory than at the start; ""
        without one.
        """
        now = self._memory.oom_kills(self._pids)
        grown = [name for name, count in now.items() if count > self._before.get(name, count)]
        return grown[0] if grown else ""

    def _unexplained(self, error: PalestraError) -> str:
        """Return the hint for an error without an `ending`. For a process that died: lower the
        load.
        """
        if not isinstance(error, ServerDied) or error.failure is not None:
            return error.hint
        return "; ".join(filter(None, [error.hint, f"if memory ran out, {self._less_at_once()}"]))

    def _less_at_once(self) -> str:
        return f"lower in_flight (now {self._in_flight}), or {LOWER_IN_TRAINER}"

    def _setting(self, reported: PalestraError | None, number: int, *, short: bool) -> str:
        if not short and number != signal.SIGKILL:
            own_hint = "" if reported is None else reported.hint
            return (
                own_hint or "its last lines say why; a server that ends by itself stops the fleet"
            )
        room = self._memory.room()
        limit = f" (the limit of {room.where} is {room.limit // MIB} MiB)" if room else ""
        return f"{self._less_at_once()}, or give it more memory{limit}"


def _quoted_lines(lines: tuple[str, ...]) -> str:
    """Return the output line in which the process reports that memory ran out; "" without one."""
    return next((line for line in lines if any(word in line for word in _WORDS_OF_WANT)), "")


def _own_reason(reported: PalestraError | None, last_lines: tuple[str, ...]) -> str:
    """Return why a process ended by itself. `reported`: the error with which it refused to run, or
    the failure of the rollout whose call ended it; without one, its last line counts.
    """
    if reported is not None:
        return reported.message.partition("\n")[0]
    printed = [line.strip() for line in last_lines if line.strip()]
    return f"its last line is {printed[-1]!r}" if printed else "it printed nothing"


def _why(number: int, by_kernel: str, last_words: str) -> str:
    """Return that memory ran out, or that the process was killed; "" for an end by itself."""
    if by_kernel:
        return (
            "out of memory: the kernel killed it, as the counter of "
            f"{by_kernel} has gone up since the servers began"
        )
    if last_words:
        return f"out of memory, as it says itself ({last_words.strip()})"
    if number == signal.SIGKILL:
        return (
            "killed from outside; most likely out of memory, unless somebody or a scheduler "
            "killed it (no counter that can be read here has gone up)"
        )
    return ""
