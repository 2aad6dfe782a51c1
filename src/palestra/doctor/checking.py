"""Run checks concurrently. Each has a deadline, and no failing check stops the others."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar, final

from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, cause_id, quote
from palestra.doctor.tabled import tabled
from palestra.errors import Layer, PalestraError

T = TypeVar("T")

LOCAL_S: Final = 20.0
"""Deadline of a check that uses only this machine, in seconds."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one check: a short summary of what was examined, and the findings."""

    said: str
    findings: tuple[Finding, ...] = ()
    skipped: bool = False
    """Whether the check was skipped because there was nothing to examine."""


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One finished check."""

    layer: Layer
    name: str
    looked: Looked
    seconds: float


Done = Callable[[CheckRun], object]


def _nobody(_run: CheckRun) -> None:
    return None


@final
@dataclass(slots=True)
class Round:
    """The checks of one examination, in the order in which they finished."""

    runs: list[CheckRun] = field(default_factory=list)
    on_done: Done = _nobody

    async def look(
        self, layer: Layer, name: str, work: Awaitable[Looked], *, within_s: float
    ) -> Looked:
        """Run one check until it ends or its deadline passes. Any exception becomes a finding."""
        began = time.monotonic()
        limit = asyncio.timeout(within_s)
        try:
            async with limit:
                looked = await work
        except TimeoutError as error:
            # What is asked may have had a deadline of its own, or the system's.
            late = (
                _too_late(layer, name, within_s) if limit.expired() else _broken(layer, name, error)
            )
            looked = Looked("no answer", (late,))
        except PalestraError as error:
            looked = Looked("failed", (finding_of(error),))
        except Exception as error:  # a check's own fault, or an author's: the others go on
            looked = Looked("failed", (_broken(layer, name, error),))
        run = CheckRun(layer, name, looked, time.monotonic() - began)
        self.runs.append(run)
        self.on_done(run)
        return looked

    def note(self, layer: Layer, name: str, looked: Looked, *, seconds: float = 0.0) -> None:
        """Add the result `looked` of a check that ran elsewhere."""
        run = CheckRun(layer, name, looked, seconds)
        self.runs.append(run)
        self.on_done(run)

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of all checks. Two findings with equal cause and symptom count once."""
        findings = (finding for run in self.runs for finding in run.looked.findings)
        return tuple({(finding.cause, finding.symptom): finding for finding in findings}.values())


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread. After the deadline the caller stops waiting, but the thread goes on."""
    return await asyncio.to_thread(work)


async def ended_check(looked: Looked) -> Looked:
    """Return `looked`, for a check that needs no waiting."""
    return looked


def _too_late(layer: Layer, name: str, within_s: float) -> Finding:
    symptom = f"{name}: the check had no answer within {within_s:g} s"
    return tabled(cause_id(layer, "no-answer"), symptom)


def _broken(layer: Layer, name: str, error: Exception) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = quote(last.filename, last.line or "", line=last.lineno) if last else None
    return tabled(
        cause_id(layer, "check-failed"),
        f"{name} could not be checked: {type(error).__name__}: {error}",
        *((where,) if where else ()),
    )
