"""Calls compared by their arguments' values."""

import pytest

from palestra.resources_servers.arguments import exact_object, json_object, same_value

LONG = "12345678901234567890123"


def test_integers_of_any_length_are_compared_digit_for_digit() -> None:
    one, other = (exact_object(f'{{"a": [{number}]}}') for number in (LONG, LONG[:-1] + "4"))

    assert same_value(one, one)
    assert not same_value(one, other)


def test_a_row_that_has_lost_the_digits_takes_what_has_them() -> None:
    read, given = (read(f'{{"a": {LONG}}}') for read in (json_object, exact_object))

    assert same_value(read, given)


@pytest.mark.parametrize("text", ['{"a": NaN}', f'{{"a": {"1" * 400}}}', f"[{LONG}]", f"{{{LONG}"])
def test_what_is_no_object_is_none_either_way(text: str) -> None:
    assert json_object(text) is exact_object(text) is None
