"""What the mirrored types are made of: models that keep unknown fields, and open dicts."""

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


class WireModel(BaseModel):
    """A JSON object; unknown fields are kept, objects of other libraries' types are taken over."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _from_another_type(cls, value: Any) -> Any:
        return plain(value) if not isinstance(value, cls) else value


class Named(WireModel):
    """One of a union: what tells it from the others is sent although nobody set it."""

    __told_by__: ClassVar[frozenset[str]] = frozenset({"type"})

    @model_validator(mode="after")
    def _tell(self) -> Self:
        self.__pydantic_fields_set__.update(self.__told_by__)
        return self


class OpenDict(dict[str, Any]):
    """A dict whose keys are attributes too.

    The field has dicts in requests and objects in answers, and authors' code uses both ways of
    access for either.
    """

    __shape__: ClassVar[Any] = dict[str, Any]
    """What it must hold where it is a field of a model."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def model_dump(self, **_how: Any) -> dict[str, Any]:
        """As of a model: a plain dict."""
        return dict(self)

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """As of a model."""
        return cls(plain(value))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source
        return core_schema.no_info_wrap_validator_function(
            cls._checked,
            handler.generate_schema(cls.__shape__),
            serialization=core_schema.simple_ser_schema("any"),
        )

    @classmethod
    def _checked(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Self:
        fields = plain(value)
        fields = dict(fields) if isinstance(fields, Mapping) else fields
        check(fields)
        # What was given, in its order: templates show a tool as it is written.
        return cls({key: _opened(inner) for key, inner in fields.items()})


def _opened(value: Any) -> Any:
    # Below the top as well: `tool.parameters` and `format.schema` are read either way.
    if type(value) is dict:
        return OpenDict({key: _opened(inner) for key, inner in value.items()})
    return [_opened(item) for item in value] if type(value) is list else value


def plain(value: Any) -> Any:
    """A model of any library as the fields that were set; anything else as it is."""
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def field_of(value: Any, name: str) -> Any:
    """A field of a mapping or an object, None when it has none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
