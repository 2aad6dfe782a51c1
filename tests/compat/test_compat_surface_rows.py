"""Every name and behaviour that folders and suites of the field rely on is held by a test.

`field_tests.txt` names the test of each.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from test_compat_field_names import field_names

TESTS = Path(__file__).parents[1]


class Row(NamedTuple):
    """A line of the table. `names`: empty for a behaviour."""

    test: str
    module: str
    names: tuple[str, ...]


def rows() -> Iterator[Row]:
    for line in Path(__file__).with_name("field_tests.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            test, module, *words = line.split()
            is_behaviour = module == "behaviour:"
            yield Row(test, module, () if is_behaviour else tuple(words))


@cache
def parsed(file: str) -> tuple[str, frozenset[str]]:
    """The source of a test file, and the names of its tests."""
    source = (TESTS / file).read_text()
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return source, frozenset(function.name for function in functions)


def test_every_name_of_the_field_has_its_test() -> None:
    held = {(row.module, name) for row in rows() for name in row.names}

    assert held == set(field_names())


@pytest.mark.parametrize("row", [pytest.param(row, id=row.test) for row in rows()])
def test_the_test_that_holds_a_row_exists_and_is_about_it(row: Row) -> None:
    file, _, test = row.test.partition("::")
    source, tests = parsed(file)

    assert test in tests
    for name in row.names:
        assert re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", source), name


def test_behaviours_that_belong_to_no_name_are_listed() -> None:
    assert sum(row.module == "behaviour:" for row in rows()) >= 30
