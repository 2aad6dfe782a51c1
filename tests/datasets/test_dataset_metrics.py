"""A dataset in numbers, as the field writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.datasets import differences, metrics_of
from palestra.schema import read_jsonl

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "recorded"
MADE_OF_OTHER_ROWS = {"example_mcp_weather", "text_to_sql"}
"""Whose recorded numbers are not those of the rows beside them."""


def row(prompt: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": prompt}, **fields}


def test_the_recorded_numbers_of_the_field_are_ours() -> None:
    files = list(RECORDED.glob("*/example_metrics.json"))
    if not files:
        pytest.skip(f"nothing is recorded in {RECORDED}")
    for path in files:
        if path.parent.name in MADE_OF_OTHER_ROWS:
            continue
        rows = [line.row for line in read_jsonl(path.with_name("example.jsonl"))]

        assert differences(json.loads(path.read_text()), metrics_of(rows)) == [], path


def test_texts_are_counted_numbers_summed_up_and_objects_left_out() -> None:
    found = metrics_of([row("a b", level=1, tag="x"), row("c", level=3, tag=["x", "y"], meta={})])

    assert found["Number of examples"] == 2
    assert found["level"]["Average"] == 2.0
    assert found["tag"] == {"unique_count": 2, "total_count": 3}
    assert "meta" not in found


def test_a_number_within_its_rounding_is_the_same_and_another_is_told() -> None:
    assert differences({"a": 12.34}, {"a": 12.344}) == []
    assert differences({"a": 12.34}, {"a": 12.35}) == ["a: 12.34 is stored, 12.35 was found"]
    assert differences({"a": 0.5, "more": 1}, {"a": 0.5004}) == []
    assert differences({}, {"a": 1}) == ["a: is missing"]
