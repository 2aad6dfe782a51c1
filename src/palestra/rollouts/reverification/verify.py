"""Re-verification: run the current verifiers on stored responses, without a model.

Rows are verified concurrently and written in input order. Each row is written exactly once: with a
new reward, or as a typed failure. A row without a verdict never gets a reward.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from palestra.engine import Accounting, ending_in
from palestra.errors import CallError, InputDataError, Outcome
from palestra.rollouts.collect import Progress
from palestra.rollouts.results import reward_in
from palestra.rollouts.reverification.changes import Changes
from palestra.rollouts.reverification.files import Origin, Partial, is_failure
from palestra.rollouts.reverification.in_order import InOrder
from palestra.rollouts.reverification.stored import StoredRow
from palestra.rollouts.reverification.verifier import Unverified, Verified, Verifier
from palestra.schema import CONVERSATION_DIFFERS, FAILURE_CLASS, JsonDict


@dataclass(frozen=True, slots=True)
class ReverifyLimits:
    """The limits: `concurrency` rows at once, and `timeout_s` seconds per row."""

    concurrency: int = 64
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Reverification:
    """One re-verification: its rows, their origin, and the partial output."""

    rows: Callable[[], Iterator[StoredRow]]
    origin: Origin
    partial: Partial
    version: str
    limits: ReverifyLimits = ReverifyLimits()

    async def run(
        self,
        verifier: Verifier,
        *,
        on_start: Callable[[Progress], None] | None = None,
    ) -> JsonDict:
        """Verify the remaining rows, account for all rows, and write the output.

        Return the counts of rows, of verified rows and of failures by class, and the changes.
        Raises the error that ended the run early; finished rows are kept for `resume`.
        """
        progress = Progress(Accounting(self.origin.rows))
        tally = _Tally(progress.accounting, Changes())
        partial = self.partial
        rows = self.rows()
        tally.take_done(rows, partial)
        progress.done_before = progress.accounting.scored + progress.accounting.failed
        if on_start is not None:
            on_start(progress)

        def write(row: StoredRow, result: Verified | Unverified) -> None:
            partial.append(result.line)
            tally.add(row, result)

        await InOrder(rows, verifier.verify, write, concurrency=self.limits.concurrency).run()
        progress.accounting.check()
        result = tally.result()
        partial.finish(
            self.origin,
            result,
            failures=progress.accounting.failed > 0,
            version=self.version,
        )
        return result


@dataclass(slots=True)
class _Tally:
    """The counts of how rows ended, in this session and earlier ones."""

    accounting: Accounting
    changes: Changes

    def add(self, row: StoredRow, result: Verified | Unverified) -> None:
        if isinstance(result, Verified):
            self.accounting.score(result.ending)
            self.changes.verified(row, result.ending.reward)
            if result.conversation_differs:
                self.changes.conversation_differs(row)
        else:
            self.accounting.fail(result.outcome)
            self.changes.failed(row)

    def take_done(self, rows: Iterator[StoredRow], partial: Partial) -> None:
        """Count the finished rows and skip them. Raises InputDataError: the partial output does not
        match the rows.
        """
        for number, line in enumerate(partial.done(), start=1):
            row = next(rows, None)
            result = None if row is None else _read_back(line, row)
            if row is None or result is None:
                raise InputDataError(
                    f"line {number} of the partial output does not belong to its row",
                    hint="start again with --overwrite",
                )
            self.add(row, result)

    def result(self) -> JsonDict:
        ended_counts = sorted(self.accounting.ended.items())
        return {
            "rows": self.accounting.requested,
            "verified": self.accounting.scored,
            "truncated": self.accounting.ended[Outcome.TRUNCATED],
            "empty_answers": self.accounting.empty_answers,
            "failed": {o.value: count for o, count in ended_counts if not o.has_reward},
            **self.changes.as_json(),
        }


def _read_back(line: bytes, row: StoredRow) -> Verified | Unverified | None:
    """Return the result in a line of the partial output; None when the line belongs to another row."""
    try:
        row_fields = orjson.loads(line)
        identity = row.identity()
        if any(row_fields.get(name) != value for name, value in identity.items()):
            return None
        if is_failure(line):
            return (
                Unverified(Outcome(row_fields[FAILURE_CLASS]), b"")
                if row_fields["line"] == row.line
                else None
            )
        differs = row_fields.get(CONVERSATION_DIFFERS) is True
        return Verified(ending_in(row_fields, reward_in(row_fields)), b"", differs)
    except (ValueError, KeyError, AttributeError, CallError):
        return None
