"""The known causes of failures: a table of what they say, their layer, the reason and what to do.

It is below all that records or shows failures, so that one failure has one layer everywhere.
"""

from palestra.causes.failure_meanings import FailureMeanings
from palestra.causes.failure_texts import chain, failure_text, innermost, one_line
from palestra.causes.signatures import (
    LAYERS,
    Severity,
    Signature,
    SignatureTable,
    stem_of,
    troubleshooting,
)

__all__ = [
    "LAYERS",
    "FailureMeanings",
    "Severity",
    "Signature",
    "SignatureTable",
    "chain",
    "failure_text",
    "innermost",
    "one_line",
    "stem_of",
    "troubleshooting",
]
