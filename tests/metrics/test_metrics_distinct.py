"""The values that occur in a column."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palestra.metrics import distinct


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_the_values_of_a_column_are_its_set_in_order(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
