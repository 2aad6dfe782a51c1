"""Types that mirror one of the openai package and are too rare to be written out."""

import importlib
from typing import Any

from palestra.compat.openai_types.base import OpenDict, WireModel

PREFIX = "NeMoGym"
_PLACES = ("openai.types.responses", "openai.types.chat", "openai.types")


def mirrored(name: str) -> Any | None:
    """The type called `name`; None when that is no name of a mirrored type.

    Where the openai package is installed, a type of its own with the same fields; else one that
    takes any fields.
    """
    theirs = name.removeprefix(PREFIX)
    if theirs == name or not theirs[:1].isupper():
        return None
    if theirs.endswith("Param"):
        return type(name, (OpenDict,), {"__module__": __name__})
    found = _of_openai(theirs)
    if isinstance(found, type) and hasattr(found, "model_fields"):
        return type(name, (found,), {"__module__": __name__})
    if found is not None and not isinstance(found, type):
        return found  # a union
    return type(name, (WireModel,), {"__module__": __name__})


def _of_openai(name: str) -> Any | None:
    for place in _PLACES:
        try:
            return getattr(importlib.import_module(place), name)
        except (ImportError, AttributeError):
            continue
    return None
