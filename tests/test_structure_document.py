"""docs/topics/structure.md: what it says is in a module is there."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import palestra

PAGE = (Path(__file__).parents[1] / "docs" / "topics" / "structure.md").read_text()
ANSWERS = PAGE.partition("## Where is it?")[2].partition("\n## ")[0]


def places() -> Iterator[tuple[str, str]]:
    """Each module of an answer, with each name that stands behind it."""
    for line in ANSWERS.splitlines():
        module = ""
        for quoted in re.findall(r"`([^`]+)`", line.rpartition("|")[0].rpartition("|")[2]):
            if quoted.endswith(".py"):
                module = "palestra." + quoted.removesuffix(".py").replace("/", ".")
            else:
                yield module, quoted


PLACES = list(places())


def test_the_page_answers_where_things_are() -> None:
    assert ("palestra.engine.engine", "Engine") in PLACES
    assert ("palestra.rollouts.results", "failed") in PLACES


@pytest.mark.parametrize(("module", "name"), PLACES)
def test_what_the_page_names_is_where_it_says(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_every_package_has_its_row() -> None:
    """Packages that the table of layers leaves out would have no place to be looked for."""
    table = PAGE.partition("## Packages")[2].partition("\n## ")[0]
    source = Path(palestra.__file__).parent
    packages = {path.parent.name for path in source.glob("*/__init__.py")}

    assert packages - set(re.findall(r"`([a-z_]+)`", table)) == set()
