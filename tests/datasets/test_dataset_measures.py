"""Measures of rows: exact, in any order, whatever the parts."""

import json
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.datasets.measures.digests import Uniques
from palestra.datasets.measures.fields import Numbers
from palestra.datasets.measures.rows import RequestBatch, RowMeasures

NUMBERS = st.lists(
    st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6, allow_subnormal=True), min_size=2
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from([" a  b ", "\n\t", "\u3000 x", 'q" \\ r', "\x7f \x1f"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
PARAMS = st.dictionaries(st.sampled_from(["input", "tools", "top p", "x"]), JSON)


@given(NUMBERS)
def test_numbers_are_those_of_the_standard_library(values: list[float]) -> None:
    numbers = Numbers()
    numbers.add(values)

    assert numbers.average == pytest.approx(statistics.mean(values), rel=1e-12, abs=1e-12)
    assert numbers.deviation == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-9)
    assert (numbers.low, numbers.high) == (min(values), max(values))


@pytest.mark.slow
@given(NUMBERS, st.randoms(use_true_random=False))
def test_numbers_in_any_order_and_any_parts_have_the_same_measures(
    values: list[float], dice: Any
) -> None:
    whole, first, second = Numbers(), Numbers(), Numbers()
    whole.add(values)
    dice.shuffle(values)
    cut = dice.randrange(len(values))
    first.add(values[:cut])
    second.add(values[cut:])

    second.merge(first)

    assert (second.count, second.low, second.high) == (whole.count, whole.low, whole.high)
    assert second.average == pytest.approx(whole.average, rel=1e-9, abs=1e-9)
    assert second.deviation == pytest.approx(whole.deviation, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@given(st.lists(PARAMS, min_size=1, max_size=5))
def test_words_are_those_of_the_json_text(params: list[dict[str, Any]]) -> None:
    requests = RequestBatch()
    for one in params:
        requests.add(one)

    assert requests.words() == [len(json.dumps(one).split()) for one in params]


def test_equal_requests_share_a_digest_whatever_the_order_of_their_keys() -> None:
    requests = RequestBatch()
    for one in (
        {"input": "x", "tools": [{"a": 1, "b": [None, 2]}]},
        {"tools": [{"b": [None, 2], "a": 1}], "input": "x"},
        {"input": "x", "tools": [{"a": 1, "b": [2, None]}]},
        {"input": "y", "tools": [{"a": 1, "b": [None, 2]}]},
        {"input": ["x"]},
        {"input": [["x"]]},
    ):
        requests.add(one)

    assert requests.digests[0] == requests.digests[1]
    assert len(set(requests.digests)) == 5


@given(
    st.lists(st.lists(st.integers(0, 60), max_size=30), max_size=12),
    st.integers(1, 50),
)
def test_digests_are_counted_once_however_many_of_them_went_to_a_file(
    batches: list[list[int]], most_held: int
) -> None:
    spread = 2**64 // 61
    one, other = Uniques(most_held=most_held), Uniques(most_held=3)
    for number, batch in enumerate(batches):
        (one, other)[number % 2].add(np.array(batch, np.uint64) * np.uint64(spread))

    one.merge(other)

    assert len(one) == len({value for batch in batches for value in batch})


def test_rows_measured_apart_count_as_those_measured_together() -> None:
    rows = [{"responses_create_params": {"input": "x"}, "level": n, "tag": "t"} for n in range(5)]
    whole, part, rest = RowMeasures(), RowMeasures(), RowMeasures()
    whole.add(rows)
    part.add(rows[:2])
    rest.add(rows[2:])

    rest.merge(part)

    assert rest.summary() == whole.summary()


def test_what_was_asked_of_the_model_is_measured() -> None:
    measures = RowMeasures(count_tokens=len)
    params = {"top_p": 0.5, "max_output_tokens": 8, "instructions": "ab"}
    message = {"role": "user", "content": [{"type": "input_text", "text": "cde"}]}
    measures.add([{"responses_create_params": {"input": [message], **params}}])

    found = measures.summary()

    assert found["Sampling parameters"]["top_p"]["Average"] == 0.5
    assert found["Sampling parameters"]["max_output_tokens"]["Max"] == 8.0
    assert found["Number of tokens"]["Average"] == 6.0
    assert found["Unique user messages"] == {"unique_count": 1, "total_count": 1}
