"""Check the server classes of authors: that one is complete, can be made, and returns its app."""

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from pydantic import ValidationError

from palestra.config import nearest
from palestra.errors import ConfigError
from palestra.schema import short_repr
from palestra.server.author_calls import is_authors_file
from palestra.server.author_code import code_of, place_of
from palestra.server.authors_errors import text_of
from palestra.server.own_errors import authors_line


def refuse_unfinished(cls: type[Any], missing: Collection[str] = ()) -> None:
    """Raise ConfigError when a server class lacks a required method: an abstract one, or one of
    `missing`.
    """
    names = sorted({*missing, *getattr(cls, "__abstractmethods__", ())})
    if not names:
        return
    methods = _methods_by_author(cls)
    slips = {near: name for name in names if (near := nearest(name, methods.keys() - {*names}))}
    missing_names = " and ".join(names)
    message = f"{cls.__name__} does not define {missing_names}"
    if len(slips) < len(names):
        raise ConfigError(
            f"{place_of(cls)}{message}", hint=f"define {missing_names} in {cls.__name__}"
        )
    renamed = ", ".join(f"{slip} to {name}" for slip, name in slips.items())
    where = place_of(methods[next(iter(slips))])
    raise ConfigError(f"{where}{message}, but {' and '.join(slips)}", hint=f"rename {renamed}")


def _methods_by_author(cls: type[Any]) -> dict[str, Any]:
    """Return the methods of a class that are in an author's file, by name."""
    return {
        name: member
        for base in reversed(cls.__mro__)
        for name, member in vars(base).items()
        if (code := code_of(member)) is not None and is_authors_file(code.co_filename)
    }


@contextmanager
def making(cls: type[Any]) -> Iterator[None]:
    """Wrap the code that makes an object of an author's class `cls`.

    Raises ConfigError: the class requires a field that nothing sets, or refuses its value. Pydantic
    raises this outside of the author's file.
    """
    try:
        yield
    except ValidationError as error:
        if authors_line(error):
            raise
        raise ConfigError(
            f"{place_of(cls)}{cls.__name__} cannot be made: {text_of(error)}",
            hint="only `config` and `server_client` are set: give every other field of the class a "
            "default, or a PrivateAttr",
        ) from error


def app_from(setup_webserver: Callable[[], Any]) -> FastAPI:
    """Return the app that an author's method `setup_webserver` returns.

    Raises ConfigError: it returns something else.
    """
    app = setup_webserver()
    if isinstance(app, FastAPI):
        return app
    cure = "end it with `return app`, the app of `super().setup_webserver()`"
    if inspect.iscoroutine(app):
        app.close()
        cure = "write `def setup_webserver`, without `async`"
    raise ConfigError(
        f"{place_of(setup_webserver)}setup_webserver returned {short_repr(app)}, "
        "which is no FastAPI app",
        hint=cure,
    )
