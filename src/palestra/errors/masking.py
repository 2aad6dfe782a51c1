"""Taking secrets out of an error, before anybody reads it."""

from collections.abc import Callable
from dataclasses import replace

from palestra.errors.tree import CallError, PalestraError


def mask_error(error: PalestraError, mask: Callable[[str], str]) -> None:
    """Put `mask` over all that `error` says: message, hint, and what is known about the call."""
    error.message = mask(error.message)
    error.hint = mask(error.hint)
    error.args = tuple(mask(arg) if isinstance(arg, str) else arg for arg in error.args)
    if notes := getattr(error, "__notes__", None):
        notes[:] = map(mask, notes)
    if not isinstance(error, CallError):
        return
    evidence = error.evidence
    error.evidence = replace(
        evidence,
        hops=tuple(replace(hop, url=mask(hop.url), body=mask(hop.body)) for hop in evidence.hops),
        problems=tuple(
            replace(problem, pointer=mask(problem.pointer), expected=mask(problem.expected))
            for problem in evidence.problems
        ),
        traceback=mask(evidence.traceback),
    )
