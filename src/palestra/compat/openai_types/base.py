"""Base classes of the mirrored types: models that keep unknown fields, and `OpenDict`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema


class OpenAIModel(BaseModel):
    """A JSON object. Unknown fields are kept; objects of other libraries' types are converted."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _from_another_type(cls, value: Any) -> Any:
        # Nearly always a dict.
        return value if type(value) is dict or isinstance(value, cls) else plain(value)


class Named(OpenAIModel):
    """One type of a union. The field that identifies the type is sent even when it was not set."""

    __told_by__: ClassVar[frozenset[str]] = frozenset({"type"})

    @model_validator(mode="after")
    def _mark_set(self) -> Self:
        self.__pydantic_fields_set__.update(self.__told_by__)
        return self


class OpenDict(dict[str, Any]):
    """A dict whose keys can also be read and set as attributes.

    In the mirrored API, requests hold dicts and responses hold objects. Authors' code uses both
    kinds of access for both.
    """

    __shape__: ClassVar[Any] = dict[str, Any]
    """The type that pydantic checks the dict against when the dict is a field of a model."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        # Opened when it is asked for: most is only checked and sent on.
        if type(value) is dict or type(value) is list:
            value = self[name] = _opened(value)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of `name`; `default` when it does not exist."""
        return self[name] if name in self else default  # noqa: SIM401  # it would call itself

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def model_dump(self, **_how: Any) -> dict[str, Any]:
        """Return a plain dict, like a pydantic model's `model_dump`."""
        return dict(self)

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """Return an `OpenDict` made from a mapping or a model, like a pydantic model's
        `model_validate`.
        """
        return cls(plain(value))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source
        return core_schema.no_info_wrap_validator_function(
            cls._checked,
            handler.generate_schema(cls.__shape__),
            serialization=core_schema.simple_ser_schema("dict"),
        )

    @classmethod
    def _checked(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Self:
        fields = value if type(value) is dict else plain(value)
        if not isinstance(fields, dict) and isinstance(fields, Mapping):
            fields = dict(fields)
        check(fields)
        # What was given, in its order: templates show a tool as it is written.
        return cls(fields)


def _opened(value: Any) -> Any:
    # Below the top as well: `tool.parameters` and `format.schema` are read either way.
    if type(value) is dict:
        return OpenDict(value)
    return [_opened(item) for item in value] if type(value) is list else value


def plain(value: Any) -> Any:
    """Return a pydantic model as a dict of the fields that were set; any other value unchanged."""
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def field_of(value: Any, name: str) -> Any:
    """Return the item or attribute `name` of a mapping or an object; None when it does not exist."""
    if isinstance(value, (dict, Mapping)):  # nearly always a dict, which is found out at once
        return value.get(name)
    return getattr(value, name, None)
