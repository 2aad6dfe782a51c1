"""Which values JSON lacks, and which it would change."""

import datetime as dt
from types import MappingProxyType
from typing import Any

import pytest

from palestra.schema import json_misfit


@pytest.mark.parametrize("value", [(1, 2), dt.date(2024, 1, 2), {"a": [(1,)]}])
def test_what_json_has_under_another_type_is_a_misfit_where_the_value_must_stay(value: Any) -> None:
    assert json_misfit(value) is None
    assert json_misfit(value, exact=True) is not None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"q": [{1}]}, "x['q'][0] is a set"),
        (float("inf"), "x is inf"),
        (2**70, "x is a int (Integer exceeds 64-bit range)"),
        (MappingProxyType({"q": 1}), "x is a mappingproxy"),
        ({1: "x"}, "x has the key 1, which is not a text"),
        ("\ud800", "x is a str (str is not valid UTF-8: surrogates not allowed)"),
    ],
)
def test_what_json_lacks_is_a_misfit_with_its_place(value: Any, problem: str) -> None:
    misfit = json_misfit(value, "x")

    assert misfit is not None
    assert misfit.problem == problem
    assert misfit.cure
