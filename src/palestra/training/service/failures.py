"""Errors as bodies of the rollout service, and back, with their class and their fields.

An error of a call has the body of every server (`palestra.errors.to_body`). The others, which end a
batch or refuse input, are written here:

    {"error": {"type": class, "layer", "message", "hint", "notes": [...], "fields": {...}}}
"""

from typing import Any, Final, get_type_hints

import msgspec

from palestra.errors import (
    BadInput,
    CallError,
    ConfigError,
    InputDataError,
    PalestraError,
    RunFailed,
    from_body,
    to_body,
)
from palestra.training.errors import (
    BatchFailed,
    IncompleteRollouts,
    InvalidLogprobs,
    NoTokenIds,
    TokenDiscontinuity,
)
from palestra.training.outcomes import from_json, json_of

_ENDINGS: Final = {
    cls.__name__: cls
    for cls in (BatchFailed, IncompleteRollouts, NoTokenIds, InvalidLogprobs, TokenDiscontinuity)
}
_OTHERS: Final = {cls.__name__: cls for cls in (InputDataError, ConfigError, RunFailed)}


class _Error(msgspec.Struct):
    type: str
    message: str
    layer: str = ""
    hint: str = ""
    notes: list[str] = []
    fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Body(msgspec.Struct):
    error: _Error


def error_to_json(error: PalestraError) -> bytes:
    """Return the body that carries an error to the client."""
    if isinstance(error, CallError):
        return msgspec.json.encode(to_body(error))
    fields = {name: getattr(error, name) for name in _fields_of(type(error))}
    described = _Error(
        type=_type_of(error),
        message=error.message,
        layer=error.layer.value,
        hint=error.hint,
        notes=list(getattr(error, "__notes__", [])),
        fields=msgspec.Raw(json_of(fields)),
    )
    return msgspec.json.encode(_Body(described))


def error_from_json(body: bytes | msgspec.Raw) -> PalestraError | None:
    """Rebuild the error that a service sent; None when the body is no such error."""
    try:
        error = msgspec.json.decode(body, type=_Body).error
        if error.type in _ENDINGS:
            return _ending(_ENDINGS[error.type], error)
        if error.type in _OTHERS:
            return _OTHERS[error.type](error.message, hint=error.hint)
        return from_body(msgspec.json.decode(body))
    except msgspec.DecodeError:
        return None


def _ending(cls: type[BatchFailed], error: _Error) -> BatchFailed:
    # Not by calling the class, which makes its message itself: see BatchFailed.__reduce__.
    rebuilt = cls.__new__(cls, error.message)
    vars(rebuilt).update(message=error.message, hint=error.hint, phrases=())
    for name, kind in _fields_of(cls).items():
        setattr(rebuilt, name, from_json(_field(error, name), kind))
    for note in error.notes:
        rebuilt.add_note(note)
    return rebuilt


def _field(error: _Error, name: str) -> msgspec.Raw:
    fields = msgspec.json.decode(error.fields, type=dict[str, msgspec.Raw])
    if name not in fields:
        raise msgspec.ValidationError(f"{error.type} has no field {name!r}")
    return fields[name]


def _fields_of(cls: type[PalestraError]) -> dict[str, Any]:
    """Return the types of the fields that a class adds to those of every error."""
    if not issubclass(cls, BatchFailed):
        return {}
    hints = get_type_hints(cls)
    classes = [base for base in cls.__mro__ if issubclass(base, BatchFailed)]
    return {name: hints[name] for base in classes for name in base.__annotations__}


def _type_of(error: PalestraError) -> str:
    for cls in type(error).__mro__:
        if cls.__name__ in _ENDINGS or cls.__name__ in _OTHERS:
            return cls.__name__
    return (ConfigError if isinstance(error, BadInput) else RunFailed).__name__
