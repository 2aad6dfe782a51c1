"""Turn an error that a check raised into a finding, with the signature table."""

import errno
import re
from pathlib import Path
from typing import Final

from palestra.causes import Severity, Signature, SignatureTable, one_line
from palestra.doctor.findings import Finding, Quote, cause_id, quote
from palestra.doctor.quoting import quote_line, quote_places
from palestra.errors import CallError, PalestraError


def finding_of(
    error: PalestraError,
    *,
    evidence: tuple[Quote, ...] = (),
    severity: Severity = Severity.ERROR,
) -> Finding:
    """Return the finding for an error. `evidence` comes before the error's own evidence, in place of
    the lines of config files that have its problems.
    """
    entry = entry_of(error)
    quoted_lines = evidence or quote_places(error)
    quotes = (
        *quoted_lines,
        *(_hops(error) if isinstance(error, CallError) else _lines_below(error)),
    )
    return Finding(
        layer=entry.layer,
        cause=entry.cause,
        symptom=_symptom(error.message),
        likely_cause=entry.why,
        next_action=_action(error, entry),
        evidence=quotes,
        row=error.evidence.row if isinstance(error, CallError) else None,
        severity=severity,
    )


def hint_for(error: PalestraError) -> str:
    """Return the table's advice for an error, by its cause or message; empty without an entry, and
    when the message says as much.
    """
    entry = _signature_of(error)
    return entry.do_of(error.message) if entry and entry.has_hint else ""


def entry_of(error: PalestraError) -> Signature:
    """Return the table entry for an error, by operating system error, cause, or message.

    Without a match: the usual entry of the error's class, else the entry for a failure of its
    layer.
    """
    usual = _usual_cause(error) or cause_id(error.layer, "failed")
    return _signature_of(error) or SignatureTable.load().by_cause[usual]


def _signature_of(error: PalestraError) -> Signature | None:
    table = SignatureTable.load()
    cause = _by_system(error) or error.cause
    if isinstance(cause, str):  # a trainer's error has a cause of its own kind
        return table.by_cause[cause]
    matched = table.match(one_line(error.message))
    return matched[0] if matched else None


def _usual_cause(error: PalestraError) -> str | None:
    """Return the usual cause of the error's class. A class with a different layer than its parent
    does not inherit the cause.
    """
    bases = (base for base in type(error).__mro__ if issubclass(base, PalestraError))
    cause_class = next((base for base in bases if "usual_cause" in vars(base)), PalestraError)
    return cause_class.usual_cause if cause_class.layer is error.layer else None


def _by_system(error: PalestraError) -> str | None:
    """Return the cause for the operating system error below `error`; None without one."""
    cause = error.__cause__
    return _OF_ERRNO.get(cause.errno or 0) if isinstance(cause, OSError) else None


_OF_ERRNO: Final = {
    errno.ENOSPC: "infra.disk-full",
    errno.EDQUOT: "infra.disk-full",
    errno.EACCES: "infra.not-writable",
    errno.EPERM: "infra.not-writable",
    errno.EROFS: "infra.not-writable",
}


def _symptom(message: str) -> str:
    """Return the first line of a message; if it ends with a colon, the second line is added."""
    first, _, remainder = message.partition("\n")
    listed = [line.strip(" -") for line in remainder.splitlines() if line.strip()]
    if not first.endswith(":") or not listed:
        return first
    further = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return f"{first} {listed[0]}{further}"


def _action(error: PalestraError, entry: Signature) -> str:
    """Return the error's own hint. When the hint contains nothing to type, the table's advice is
    added.
    """
    hint, advice = error.hint, entry.do_of(error.message)
    if not hint:
        return advice
    is_known = error.cause == entry.cause or entry.search(one_line(error.message)) is not None
    return f"{hint}; {advice}" if is_known and not _TO_TYPE.search(hint) else hint


_TO_TYPE: Final = re.compile(r"`|--\w|\+\+|\w+:\s|[\w/]+\.\w+")


def _hops(error: CallError) -> tuple[Quote, ...]:
    """Quote a failed call: the innermost response bodies, the servers passed, and the author's
    frames.
    """
    evidence = error.evidence
    answered_hops = [hop for hop in reversed(evidence.hops) if hop.status is not None]
    # Who only passed it on says nothing beside who said why.
    telling = [hop for hop in answered_hops if hop.body] or answered_hops
    quotes = [
        quote(
            f"{hop.server} {hop.url}".strip(),
            f"answered {hop.status}: {hop.body}" if hop.body else f"answered {hop.status}",
        )
        for hop in telling[:2]
    ]
    if not answered_hops and (way := " > ".join(hop.server for hop in evidence.hops if hop.server)):
        quotes.append(quote(way, error.message))
    quotes += [
        quote("", problem.expected, pointer=problem.pointer) for problem in evidence.problems
    ]
    return (*quotes, *_frames(evidence.traceback))


_FRAME: Final = re.compile(r'(?:File )?"?([^\s"]+\.py)"?(?:, line |:)(\d+)')


def _frames(text: str) -> tuple[Quote, ...]:
    """Quote the last frame of an author's traceback, with its source line."""
    frames = _FRAME.findall(text)
    if not frames:
        return (quote("traceback", text),) if text else ()
    path, line = frames[-1]
    return (quote_line(Path(path), int(line)), quote("traceback", text.strip().splitlines()[-1]))


def _lines_below(error: PalestraError) -> tuple[Quote, ...]:
    """Quote the further lines of a message, and the frame of an author's file that it names."""
    listed = [line.strip(" -") for line in error.message.split("\n")[1:] if line.strip()]
    return (*(quote("", line) for line in listed[:10]), *_frames_in(error.message))


def _frames_in(message: str) -> tuple[Quote, ...]:
    return tuple(
        quote_line(Path(path), int(line))
        for path, line in _FRAME.findall(message)
        if Path(path).is_file()
    )[-1:]
