"""Every name of `field_names.txt` is where folders and suites of the field look for it."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palestra.compat import aliases


def field_names() -> Iterator[tuple[str, str]]:
    """Each module with each of its names."""
    for line in Path(__file__).with_name("field_names.txt").read_text().splitlines():
        if not line.startswith("#"):
            module, *names = line.split()
            yield from ((module, name) for name in names)


def has(owner: Any, name: str) -> bool:
    """Whether a module or a class has an attribute, or a field without a default."""
    fields = (getattr(owner, kind, {}) for kind in ("model_fields", "__dataclass_fields__"))
    return hasattr(owner, name) or any(name in found for found in fields)


@pytest.fixture(autouse=True)
def _importable() -> None:
    aliases.install()


@pytest.mark.parametrize(
    ("module", "name"), [pytest.param(*item, id=".".join(item)) for item in field_names()]
)
def test_a_name_of_the_field_can_be_imported(module: str, name: str) -> None:
    owner: Any = importlib.import_module(module)
    *parents, last = name.split(".")
    for parent in parents:
        owner = getattr(owner, parent)

    assert has(owner, last)


def test_no_name_of_the_field_is_listed_twice() -> None:
    names = list(field_names())

    assert len(names) == len(set(names))
