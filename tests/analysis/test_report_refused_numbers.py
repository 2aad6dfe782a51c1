"""What the report says of zeros whose answer is the expected number."""

from pathlib import Path
from typing import Any

import pytest

from palestra.analysis import report_values, summarize
from palestra.metrics import are_same_number
from profiled_runs import Run, scored


@pytest.mark.parametrize(
    ("extracted", "expected", "same"),
    [
        ("14.0", "14", True),
        (" +14 ", 14, True),
        (".5", 0.5, True),
        ("14.0", "15", False),
        ("14 cm", "14", False),
        ("nan", "nan", False),
        ("1e400", "1e400", False),
        ("1,000", "1000", False),
        ("1/2", "0.5", False),
        (True, 1, False),
        (None, None, False),
        ("9" * 1_000, "9" * 1_000, False),
    ],
)
def test_answers_are_the_same_number_only_as_plain_decimals(
    extracted: Any, expected: Any, same: bool
) -> None:
    assert are_same_number(extracted, expected) is same


def test_a_zero_for_the_expected_number_is_a_finding(tmp_path: Path) -> None:
    answers = (("14.0", 0.0), ("15", 0.0), ("14", 1.0))
    rows = [
        scored(0, at, reward, extracted_answer=answer, expected_answer="14")
        for at, (answer, reward) in enumerate(answers)
    ]
    frame = Run.write(tmp_path, rows).load()
    [remark] = [r for r in report_values(frame, summarize(frame)).remarks if r.query]

    assert remark.head.startswith("1 answer with reward 0 equals")
    assert "0:0 (14.0, expected 14)" in remark.text
    assert remark.query == "outcome:scored ((task:0 rollout:0))"
