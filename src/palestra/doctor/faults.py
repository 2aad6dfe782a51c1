"""From an error that a check met to a finding, by the table of `known_errors`."""

import errno
import re
from pathlib import Path
from typing import Final

from palestra.doctor.findings import Finding, Quote, Severity, cause_id, quote
from palestra.doctor.known_errors import KNOWN, Known
from palestra.doctor.quoting import quote_line
from palestra.errors import CallError, Layer, PalestraError


def finding_of(
    error: PalestraError,
    *,
    evidence: tuple[Quote, ...] = (),
    severity: Severity = Severity.ERROR,
) -> Finding:
    """The finding that an error is. `evidence` comes before what the error itself brings."""
    known = _match(error)
    if known is None:
        layer, cause, why, action = _by_system(error) or _unknown(error)
    else:
        layer, cause, why, action = known.layer, known.cause, known.why, known.action
    quotes = (*evidence, *(_hops(error) if isinstance(error, CallError) else _lines_below(error)))
    return Finding(
        layer=layer,
        cause=cause,
        symptom=error.message.split("\n", 1)[0],
        likely_cause=why,
        next_action=_action(error.hint, action),
        evidence=quotes,
        row=error.evidence.row if isinstance(error, CallError) else None,
        severity=severity,
    )


def _action(hint: str, action: str) -> str:
    """The error's own hint; with what the table says where that has nothing to type."""
    if not hint:
        return action
    return hint if _TO_TYPE.search(hint) else f"{hint}; {action}"


_TO_TYPE: Final = re.compile(r"`|--\w|\+\+|\w+:\s|[\w/]+\.\w+")


def _match(error: PalestraError) -> Known | None:
    if _by_system(error):
        return None
    fits = (k for k in KNOWN if isinstance(error, k.error) and k.says.search(error.message))
    return next(fits, None)


def _by_system(error: PalestraError) -> tuple[Layer, str, str, str] | None:
    """What the operating system said beneath it."""
    cause = error.__cause__
    if not isinstance(cause, OSError):
        return None
    if cause.errno in {errno.ENOSPC, errno.EDQUOT}:
        return (
            Layer.INFRA,
            "infra.disk-full",
            "the disk or the quota is used up",
            "free space there, or choose an --output on another disk (`df -h` shows them)",
        )
    if cause.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return (
            Layer.INFRA,
            "infra.not-writable",
            "the user of this command may not write there, or the file system is read-only",
            "choose another --output, or mend the permissions",
        )
    return None


def _unknown(error: PalestraError) -> tuple[Layer, str, str, str]:
    return error.layer, cause_id(error.layer, "failed"), "", "see what is said above"


def _hops(error: CallError) -> tuple[Quote, ...]:
    """The innermost body, the way to it, and the author's frames."""
    evidence = error.evidence
    quotes = [
        quote(
            f"{hop.server} {hop.url}".strip(),
            f"answered {hop.status}: {hop.body}" if hop.body else f"answered {hop.status}",
        )
        for hop in reversed(evidence.hops)
        if hop.status is not None
    ][:2]
    quotes += [
        quote("", problem.expected, pointer=problem.pointer) for problem in evidence.problems
    ]
    return (*quotes, *_frames(evidence.traceback))


_FRAME: Final = re.compile(r'(?:File )?"?([^\s"]+\.py)"?(?:, line |:)(\d+)')


def _frames(text: str) -> tuple[Quote, ...]:
    """The last frame of an author's traceback, with its line."""
    frames = _FRAME.findall(text)
    if not frames:
        return (quote("traceback", text),) if text else ()
    path, line = frames[-1]
    return (quote_line(Path(path), int(line)), quote("traceback", text.strip().splitlines()[-1]))


def _lines_below(error: PalestraError) -> tuple[Quote, ...]:
    """What a message of several lines lists, and the frame of an author's file that it names."""
    listed = [line.strip(" -") for line in error.message.split("\n")[1:] if line.strip()]
    return (*(quote("", line) for line in listed[:10]), *_frames_in(error.message))


def _frames_in(message: str) -> tuple[Quote, ...]:
    return tuple(
        quote_line(Path(path), int(line))
        for path, line in _FRAME.findall(message)
        if Path(path).is_file()
    )[-1:]
