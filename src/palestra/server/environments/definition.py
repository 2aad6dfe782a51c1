"""An environment: its class with the settings of a run, its checks and its task rows."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Self

from palestra.errors import ConfigError
from palestra.schema import JsonDict, JsonObject, Response
from palestra.server.author_code import AuthorFiles
from palestra.server.environments.attribute_slips import refuse_slips
from palestra.server.environments.author_class import FILLED, AuthorClass, place_in
from palestra.server.environments.class_checks import refuse_wrong_parts, slips_of
from palestra.server.environments.environment import FUNCTION_MARK, Environment, class_of
from palestra.server.environments.environment_rows import EnvironmentRows
from palestra.server.environments.own_settings import checked, settings_of
from palestra.server.method_forms import as_function, is_partial_or_object, refuse_form
from palestra.server.tools import tools_of

_ATTRIBUTE: Final = "annotate an attribute: difficulty: int = 3"
_CLASS_FORM: Final = (
    "a decorated function has no settings: write a class with annotated attributes, such as "
    "difficulty: int = 3"
)


@dataclass(frozen=True)
class EnvironmentDefinition(AuthorClass):
    """An environment: its class with the settings of a run, which is checked, and its task rows."""

    @classmethod
    def of(
        cls,
        subject: Any,
        *,
        name: str = "",
        folder: Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the definition of a class or of a decorated function.

        `settings`: values that replace those of the class. Raises ConfigError: it is no
        environment, has no `verify`, a setting does not fit, or an attribute is a slip.
        """
        own_class = class_of(subject)
        if own_class is None:
            raise ConfigError(
                f"{subject!r} is not an environment",
                hint="subclass palestra.Environment, or decorate a function with "
                "@palestra.environment",
            )
        files = AuthorFiles()
        refuse_slips(own_class, Environment, files, partial(place_in, own_class, files))
        values = checked(
            own_class,
            Environment,
            settings or {},
            how_to_add=_CLASS_FORM if hasattr(own_class, FUNCTION_MARK) else _ATTRIBUTE,
        )
        defaults = {key: getattr(own_class, key) for key in settings_of(own_class, Environment)}
        configured: Any = type(
            own_class.__name__,
            (own_class,),
            {
                **values,
                **_as_functions(own_class),
                "__module__": own_class.__module__,
                "__doc__": own_class.__doc__,
            },
        )
        label = name or own_class.__name__
        definition = cls(configured, label, folder or Path(), {**defaults, **values}, files)
        refuse_wrong_parts(definition)
        return definition

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each part of the class that is most likely a slip."""
        return slips_of(self)

    @cached_property
    def _own_rows(self) -> EnvironmentRows:
        return EnvironmentRows(self)

    def rows(
        self,
        records: Iterable[JsonObject] | None = None,
        *,
        cache: Path = Path(),
        files: tuple[Path, ...] = (),
        warn: Callable[[str], object] | None = None,
    ) -> Iterator[JsonDict]:
        """Yield the task rows, as `EnvironmentRows.rows`."""
        return self._own_rows.rows(records, cache=cache, files=files, warn=warn)

    def gold(self, row: JsonObject) -> Response | None:
        """Return the right answer to a task row; None when the author has not given one."""
        return self._own_rows.gold(row)


def _as_functions(cls: type[Environment]) -> dict[str, Any]:
    """Return the tools and the methods of an author's class that are no plain functions there, as
    functions. A static or class method that is no tool stays what it is.
    """
    functions = {
        name: function
        for name, function in tools_of(cls).items()
        if inspect.getattr_static(cls, name) is not function
    }
    for name in FILLED:
        member = inspect.getattr_static(cls, name, None)
        if member is not None and not isinstance(member, str):
            refuse_form(cls, name)
            if is_partial_or_object(member):
                functions[name] = as_function(cls, name)
    return functions
