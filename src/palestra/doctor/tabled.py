"""Make findings from a table entry: the check gives the symptom, the table the cause and the
remedy.
"""

from typing import Any

from palestra.causes import Severity, SignatureTable
from palestra.doctor.findings import Finding, Quote
from palestra.errors import RowIdentity


def tabled(
    cause: str,
    symptom: str,
    *evidence: Quote,
    row: RowIdentity | None = None,
    severity: Severity | None = None,
    **fields: Any,
) -> Finding:
    """Return a finding for the table entry `cause`. `fields` fills the placeholders of its remedy.

    `severity`: default is the entry's. Raises KeyError: the table has no entry `cause`.
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
