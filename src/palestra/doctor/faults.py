"""From an error that a check met to a finding, by the table of signatures."""

import errno
import re
from pathlib import Path
from typing import Final

from palestra.doctor.findings import Finding, Quote, Severity, cause_id, quote
from palestra.doctor.quoting import quote_line
from palestra.doctor.reading import one_line
from palestra.doctor.signatures import Signature, SignatureTable
from palestra.errors import CallError, PalestraError


def finding_of(
    error: PalestraError,
    *,
    evidence: tuple[Quote, ...] = (),
    severity: Severity = Severity.ERROR,
) -> Finding:
    """The finding that an error is. `evidence` comes before what the error itself brings."""
    entry = entry_of(error)
    quotes = (*evidence, *(_hops(error) if isinstance(error, CallError) else _lines_below(error)))
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
    """What the table says to do about an error, by its cause or its words; else nothing."""
    entry = _told(error)
    return entry.do_of(error.message) if entry else ""


def entry_of(error: PalestraError) -> Signature:
    """The entry of the table that `error` is: by the system's word, its cause or what it quotes.

    One that is none of those is what its class usually is, or else a failure of its layer.
    """
    usual = _usual_cause(error) or cause_id(error.layer, "failed")
    return _told(error) or SignatureTable.load().by_cause[usual]


def _told(error: PalestraError) -> Signature | None:
    table = SignatureTable.load()
    cause = _by_system(error) or error.cause
    if isinstance(cause, str):  # a trainer's error has a cause of its own kind
        return table.by_cause[cause]
    matched = table.match(one_line(error.message))
    return matched[0] if matched else None


def _usual_cause(error: PalestraError) -> str | None:
    """A subclass that has a layer of its own is another matter than its parent."""
    bases = (base for base in type(error).__mro__ if issubclass(base, PalestraError))
    cause_class = next((base for base in bases if "usual_cause" in vars(base)), PalestraError)
    return cause_class.usual_cause if cause_class.layer is error.layer else None


def _by_system(error: PalestraError) -> str | None:
    """What the operating system said beneath it."""
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
    """The first line; with the second one where the first only announces it."""
    first, _, remainder = message.partition("\n")
    listed = [line.strip(" -") for line in remainder.splitlines() if line.strip()]
    if not first.endswith(":") or not listed:
        return first
    further = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return f"{first} {listed[0]}{further}"


def _action(error: PalestraError, entry: Signature) -> str:
    """The error's own hint; with what the table says of its words, where that has nothing to type."""
    hint, advice = error.hint, entry.do_of(error.message)
    if not hint:
        return advice
    is_known = error.cause == entry.cause or entry.search(one_line(error.message)) is not None
    return f"{hint}; {advice}" if is_known and not _TO_TYPE.search(hint) else hint


_TO_TYPE: Final = re.compile(r"`|--\w|\+\+|\w+:\s|[\w/]+\.\w+")


def _hops(error: CallError) -> tuple[Quote, ...]:
    """The innermost body, the way to it, and the author's frames."""
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
