"""Read logs: find errors, exceptions and other informative lines, in the order of the log.

Of a traceback, the innermost exception counts: the first one of a chain that is not shutdown noise.
A log may come from a command, a server, a Slurm job with several tasks, or `--json-events`.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, final

import orjson

from palestra.causes import SignatureTable, innermost, one_line
from palestra.doctor.findings import Quote, quote
from palestra.doctor.reading import (
    LONGEST_LINE,
    LogObservation,
    LogReading,
    Rank,
    line_at,
    quoted_places,
)
from palestra.errors import FAILURES, Layer, Outcome, RowIdentity, class_of, split_cause, with_cause
from palestra.schema import JsonObject, open_packed, other_than_text

MOST_OBSERVED: Final = 2_000
"""Largest number of observations per log and rank. The first ones are kept: they are nearest the
cause."""

_PREFIX: Final = re.compile(
    r"(?:\x1b\[[\d;]*m|\[[\w.@:-]+\] |\([^()]*\bpid=\d+[^()]*\) |\d{1,4}: )*"
    r"(?:(?P<level>[A-Z]+) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] ?)?"
)
"""The origin printed before a log line: a server of a fleet, a Ray worker, a Slurm task."""
_STAMPED: Final = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?\S* +(?:[-|] *)?(?P<level>[A-Z]+)\b[ :|-]*"
    r"(?P<said>.*)"
)
_BARE: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\([\w.]+\))?: ")
"""An exception without a traceback: many programs print only the traceback's last line."""
_BROKEN: Final = re.compile(
    r"(?:[\w./-]+: )?(?:error|fatal)\b(?: error)?: |FATAL\b|fatal python error"
    r"|segmentation fault|.*\bcore dumped\b|.*\bline \d+: +\d+ Killed\b"
    r"|[\w.-]+: cannot connect\b",
    re.IGNORECASE,
)
"""Error lines of other programs: Slurm, containers, the shell."""
_MARKS: Final = ("error", "exception", "fatal", "fault", "dumped", "killed", "cannot connect")
"""Every line that `_BARE` or `_BROKEN` matches contains one of these words, in lower case."""
_NESTED: Final = "calling an inner server:"
_LEVELS: Final = frozenset({"ERROR", "CRITICAL", "FATAL"})
_HEADS: Final = ("Traceback (most recent call last)", "Exception Group Traceback")
_GROUP_BARS: Final = re.compile(r"^[ +|]*(?:\+[-+]* ?)?")
_FRAME: Final = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)')
_OWN_FRAME: Final = re.compile(r"^(?P<path>/\S+\.py):(?P<line>\d+) in \S+$")
_RAISED: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*|[a-z]\w*error)(?:\([\w.]+\))?(?::|$)")
_CHAINED: Final = ("The above exception was the direct cause", "During handling of the above")
_ENDED_AS: Final = re.compile("^(?P<kind>" + "|".join(FAILURES) + r"): (?P<said>.+)")
_WRITES: Final = re.compile(r"rollouts of \d+ tasks.* -> (\S+\.jsonl)$")
_TOLD_TO_STOP: Final = frozenset({Outcome.CANCELLED, Outcome.STALE})
_LAYER_OF: Final[Mapping[str, Layer]] = {
    outcome.value: class_of(outcome).layer for outcome in FAILURES if outcome not in _TOLD_TO_STOP
}


def read_log(path: Path, table: SignatureTable) -> LogReading:
    """Return the observations of the log at `path`, which may be compressed. Raises OSError: it
    cannot be read.
    """
    reader = _LogReader(path, table)
    with open_packed(path) as file:
        kind = other_than_text(file.read(8))
    if kind:
        sentence = f"{path.name} is {kind}, and not text: nothing in it was read"
        observation = LogObservation(sentence, (quote(path, sentence),), Rank.EXCEPTION)
        return LogReading(path, 0, (observation,))
    with open_packed(path) as file:
        for number, raw in enumerate(file, start=1):
            reader.take(number, raw[:LONGEST_LINE].decode("utf-8", "replace").rstrip("\r\n"))
    return reader.ended()


@dataclass(slots=True)
class _Block:
    """An error message with the lines that continue it."""

    number: int
    text: str
    cause: str = ""
    hint: str = ""
    more: list[str] = field(default_factory=list)


@final
class _LogReader:
    """Reads a log line by line and collects observations."""

    def __init__(self, path: Path, table: SignatureTable) -> None:
        self._path = path
        self._table = table
        self._lines = 0
        self._noise = 0
        self._found: list[LogObservation] = []
        self._kept: Counter[Rank] = Counter()
        self._last_is_kept = False
        self._outputs: list[str] = []
        self._error: _Block | None = None
        self._in_traceback = False
        self._frame: Quote | None = None
        self._chained = False
        self._chain_told = False

    def take(self, number: int, raw: str) -> None:
        """Process one line."""
        self._lines = number
        prefix = _PREFIX.match(raw)
        line = raw[prefix.end() :] if prefix else raw
        if self._error is not None and self._goes_on(self._error, line):
            return
        if self._in_traceback or any(head in line for head in _HEADS):
            self._traceback(number, line)
            return
        self._plain(number, line, level=(prefix["level"] or "") if prefix else "")

    def ended(self) -> LogReading:
        """Finish the last error message and return everything that was found."""
        self._close_error()
        return LogReading(
            self._path, self._lines, tuple(self._found), self._noise, tuple(self._outputs)
        )

    def _plain(self, number: int, line: str, *, level: str = "") -> None:
        if any(mark in line for mark in _CHAINED):
            self._chained = True
            return
        if line.startswith("error: "):
            self._error = _Block(number, *split_cause(line.removeprefix("error: ")))
            return
        if line.startswith('{"event":'):
            self._event(number, line)
        elif " -> " in line and (match := _WRITES.search(line)):
            self._outputs.append(match[1])
        elif match := _ENDED_AS.match(line):
            layer = _LAYER_OF.get(match["kind"])
            self._observe(number, match["said"], line, Rank.FAILURE, layer=layer)
        elif (match := _STAMPED.match(line)) and match["level"] in _LEVELS:
            self._observe(number, match["said"], line, Rank.EXCEPTION)
        elif match := _OWN_FRAME.match(line):
            self._add_frame(_quoted_frame(match))
        else:
            self._ordinary(number, line, level in _LEVELS)

    def _ordinary(self, number: int, line: str, is_error: bool) -> None:
        """Process a line that Palestra did not print. `is_error`: its logger gave it an error
        level.
        """
        if _NESTED in line:
            self._observe(number, line, line, Rank.FAILURE)
        elif is_error or _is_bare_error(line):
            self._observe(number, line, line, Rank.EXCEPTION)
        elif not self._table.is_worth_a_look(line):
            return
        elif self._table.is_noise(line):
            self._noise += 1
        elif self._table.is_telling(line):
            self._observe(number, line, line, Rank.LINE)

    # An error of ours, and the lines below it

    def _goes_on(self, block: _Block, line: str) -> bool:
        if line.startswith("hint: "):
            block.hint = line.removeprefix("hint: ")
        elif line.startswith("  ") and line.strip():
            block.more.append(line.strip())
            return True
        self._close_error()
        return line.startswith("hint: ")

    def _close_error(self) -> None:
        block, self._error = self._error, None
        if block is None:
            return
        quotes = [quote(self._path, f"error: {block.text}", line=block.number)]
        quotes += [
            quote(self._path, text, line=block.number + below)
            for below, text in enumerate(block.more[:3], start=1)
        ]
        if block.hint:
            below = block.number + len(block.more) + 1
            quotes.append(quote(self._path, f"hint: {block.hint}", line=below))
        block_text = one_line(" ".join([block.text, *block.more]))
        quotes += quoted_places(" ".join([block.text, *block.more]))
        rank = Rank.RELAY if self._table.is_relay(block_text) else Rank.ENDED
        cause = self._known_cause(block.cause)
        self._keep(LogObservation(block_text, tuple(quotes), rank, cause=cause, hint=block.hint))

    # A traceback

    def _traceback(self, number: int, line: str) -> None:
        if not self._in_traceback:
            self._in_traceback, self._frame = True, None
            self._chain_told = self._chain_told and self._chained
            self._chained = False
            return
        bare = line if line.startswith("Traceback") else _GROUP_BARS.sub("", line)
        if match := _FRAME.match(line) or _FRAME.match(bare):
            self._frame = _quoted_frame(match)
        elif not line.startswith((" ", "\t")) and _RAISED.match(line):
            self._raised(number, line)
        elif line.lstrip().startswith("|") and _RAISED.match(bare):
            # The members of a group: the group itself says nothing.
            if "ExceptionGroup:" not in bare:
                self._raised(number, bare)
        elif line and not line.startswith((" ", "\t", "|", "+")):
            self._in_traceback = False
            self._plain(number, line)

    def _raised(self, number: int, line: str) -> None:
        self._in_traceback = False
        if self._table.is_noise(line):
            self._noise += 1
            return
        if self._chain_told:
            return  # raised while the one that was told was handled: its consequence
        self._chain_told = True
        self._observe(number, line, line, Rank.EXCEPTION)
        if self._frame is not None:
            self._add_frame(self._frame)

    def _add_frame(self, frame: Quote) -> None:
        """Add the code line that raised to the quotes of the last observation."""
        if self._found and self._last_is_kept:
            last = self._found[-1]
            self._found[-1] = replace(last, quotes=(*last.quotes, frame))

    # `--json-events`

    def _event(self, number: int, line: str) -> None:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        match event.get("event"):
            case "attempt_failed":
                self._attempt(number, event)
            case "run_started":
                self._outputs.append(str(event.get("output", "")))
            case "lag":
                message = str(event.get("message", ""))
                self._observe(number, message, message, Rank.LINE, pointer="/message")
            case "run_ended" if event.get("exit") and event.get("message"):
                message = str(event["message"])
                self._observe(number, message, message, Rank.ENDED, pointer="/message")

    def _attempt(self, number: int, event: JsonObject) -> None:
        row = RowIdentity(
            task=event.get("task"),
            rollout=event.get("rollout"),
            attempt=int(event.get("attempt") or 1),
            agent=str(event.get("agent") or ""),
        )
        message = str(event.get("message", ""))
        layer = next(
            (candidate for candidate in Layer if candidate.value == event.get("layer")), None
        )
        sentence = with_cause(one_line(message), event.get("cause"))
        self._observe(
            number, sentence, message, Rank.FAILURE, pointer="/message", layer=layer, row=row
        )

    def _observe(
        self,
        number: int,
        sentence: str,
        quoted_text: str,
        rank: Rank,
        *,
        pointer: str = "",
        layer: Layer | None = None,
        row: RowIdentity | None = None,
    ) -> None:
        if self._kept[rank] >= MOST_OBSERVED:
            self._last_is_kept = False
            return
        sentence, cause = split_cause(sentence)
        inner = innermost(sentence)
        if self._table.is_noise(inner):
            self._noise += 1
            return
        if self._table.is_relay(inner) and rank > Rank.FAILURE:
            rank = Rank.RELAY
        where = quote(self._path, quoted_text, line=number, pointer=pointer)
        quotes = (where, *quoted_places(inner))
        self._keep(LogObservation(inner, quotes, rank, layer, self._known_cause(cause), row))

    def _known_cause(self, cause: str) -> str:
        """Return `cause`; empty when the table lacks it, as with a log of another version."""
        return cause if cause in self._table.by_cause else ""

    def _keep(self, observation: LogObservation) -> None:
        # What ended the command comes last, however much was said before it.
        self._last_is_kept = self._kept[observation.rank] < MOST_OBSERVED
        if self._last_is_kept:
            self._kept[observation.rank] += 1
            self._found.append(observation)


def _is_bare_error(line: str) -> bool:
    lower = line.lower()
    if not any(mark in lower for mark in _MARKS):
        return False
    return bool(_BARE.match(line) or _BROKEN.match(line))


def _quoted_frame(match: re.Match[str]) -> Quote:
    path, number = Path(match["path"]), int(match["line"])
    return quote(path, line_at(path, number), line=number)
