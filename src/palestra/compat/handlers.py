"""Wrap the handlers that authors write, for FastAPI."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

Handler = Callable[..., Awaitable[Any]]


def like(handler: Handler) -> Callable[[Handler], Handler]:
    """Return a decorator that gives a wrapper of `handler` its name and its signature."""

    def dressed(wrapper: Handler) -> Handler:
        wrapper = wraps(handler)(wrapper)
        # FastAPI reads it, and cannot evaluate annotations that are texts in a wrapper's module.
        wrapper.__signature__ = _signature(handler)  # type: ignore[attr-defined]
        return wrapper

    return dressed


def _signature(handler: Handler) -> inspect.Signature:
    try:
        return inspect.signature(handler, eval_str=True)
    except NameError:  # an annotation that only type checkers import
        return inspect.signature(handler)
