"""Findings whose why and remedy are the table's: a check says what it saw, and which entry that is."""

from typing import Any

from palestra.doctor.findings import Finding, Quote, Severity
from palestra.doctor.signatures import SignatureTable
from palestra.errors import RowIdentity


def tabled(
    cause: str,
    symptom: str,
    *evidence: Quote,
    row: RowIdentity | None = None,
    severity: Severity | None = None,
    **fields: Any,
) -> Finding:
    """What was seen, told as the entry `cause`. `fields` fills in what its remedy leaves open.

    `severity`: that of the entry, unless given. Raises KeyError for a cause without an entry.
    """
    entry = SignatureTable.load().by_cause[cause]
    return Finding(
        layer=entry.layer,
        cause=cause,
        symptom=symptom,
        likely_cause=entry.why,
        next_action=entry.do_with(fields),
        evidence=evidence,
        row=row,
        severity=entry.severity if severity is None else severity,
    )
