"""Validate an instance's settings with the pydantic model of its server."""

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from palestra.config.keys import FLEET_KEYS
from palestra.config.own_keys import is_in_code, is_interpolated, misspelt_key
from palestra.config.problems import (
    did_you_mean,
    is_variant,
    located,
    misspelt_as,
    raise_problems,
    slip_of,
)
from palestra.config.redact import Redactor, find_secrets, is_secret_name, redact
from palestra.config.resolved import InstanceConfig
from palestra.config.tree import ABSENT, ConfigTree, dotted, value_at
from palestra.config.yaml_text import read_yaml
from palestra.errors import ConfigError, KnownCause, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    # Pydantic takes longer to import than all of this package, which needs it only here.
    ModelT = TypeVar("ModelT", bound=BaseModel)


_NEEDS_MAPPING = frozenset({"model_type", "model_attributes_type", "dict_type"})
_NAME = re.compile(r"\w[\w-]*")
"""The name of an instance, as an override has it without quotes."""
_NOT_SET_HERE = frozenset({"name"})
"""Fields of a server that come from its place in the configuration, not from its settings."""


def settings_from(
    model: "type[ModelT]", instance: InstanceConfig, *, extra: ConfigTree | None = None
) -> "ModelT":
    """Return the instance's settings as an object of `model`.

    `extra` are additional values from the caller, such as name, host and port. Those without a
    field in the model are ignored, and settings override them. One `ConfigError` lists all unknown,
    missing and invalid settings, and for unknown ones the nearest spelling and the valid names. A
    model with `extra="allow"` accepts unknown keys, except those that are most likely misspelt.
    """
    from pydantic import ValidationError

    names = _input_names(model)
    applicable = {key: value for key, value in (extra or {}).items() if key in names}
    values = {**applicable, **instance.settings}
    unknown = _unknown(model, values)
    if model.model_config.get("extra") == "allow":
        problems = list(_slips(instance, unknown, names, _missing(model, values)))
        unknown = []
    else:
        problems = [_unknown_problem(instance, (key,), names) for key in unknown]
    settings: ModelT | None = None
    try:
        settings = model.model_validate({k: v for k, v in values.items() if k not in unknown})
    except ValidationError as failure:
        mask = Redactor(find_secrets(values))
        for error in failure.errors(include_url=False):
            problem = _problem(instance, model, error)
            problems.append(replace(problem, message=mask(problem.message)))
    # Raised out here: as the cause, pydantic's error would show the input, secrets included.
    raise_problems(problems)
    assert settings is not None  # noqa: S101 - a validation error is a problem
    return settings


def _unknown(model: "type[BaseModel]", values: Mapping[str, Any]) -> list[str]:
    names = _input_names(model)
    return [key for key in values if key not in names]


def _missing(model: "type[BaseModel]", values: Mapping[str, Any]) -> frozenset[str]:
    """Return the required fields without a value."""
    fields = model.model_fields.items()
    return frozenset(name for name, f in fields if f.is_required() and name not in values)


def _slips(
    instance: InstanceConfig,
    keys: Sequence[str],
    names: frozenset[str],
    missing: frozenset[str],
) -> Iterator[Problem]:
    """Yield a problem for each key that is most likely a slip of a setting of the server's class.

    No slip is a key with another number or a longer name, and one that the server's code has. The
    problem of a `missing` setting names its own slip.
    """
    for key in keys:
        near = slip_of(key, names)
        if near is None or near in missing or _is_own_key(instance, key, near):
            continue
        yield instance.located(misspelt_key(_path(instance, (key,)), near), key)


def _is_own_key(instance: InstanceConfig, key: str, near: str) -> bool:
    if is_variant(key, near) or (near in instance.settings and is_variant(key, near, plural=True)):
        return True
    folder = instance.folder
    if folder is not None and folder.parent.name == instance.type:
        folder = folder.parent  # the class may extend one of another server
    return is_interpolated(key, {*instance.setting_files.values()}) or (
        folder is not None and is_in_code(key, (folder,))
    )


def _input_names(model: "type[BaseModel]") -> frozenset[str]:
    """Return the keys that the model reads: field names and aliases."""
    return frozenset(name for field in model.model_fields for name in _names_of(model, field))


def _names_of(model: "type[BaseModel]", field: str) -> Iterator[str]:
    alias = model.model_fields[field].validation_alias
    by_name = model.model_config.get("populate_by_name") or model.model_config.get(
        "validate_by_name"
    )
    if alias is None or by_name:
        yield field
    for choice in getattr(alias, "choices", [alias]):
        first = getattr(choice, "path", [choice])[0]
        if isinstance(first, str):
            yield first


def _unknown_problem(
    instance: InstanceConfig, steps: Sequence[Any], names: frozenset[str]
) -> Problem:
    # Beside its own settings an instance has those of every instance, which the fleet reads.
    valid = names - _NOT_SET_HERE | FLEET_KEYS if len(steps) == 1 else names
    suggestion = did_you_mean(str(steps[-1]), valid)
    problem = Problem(
        f"{_where(instance, steps)} is not a setting{suggestion} "
        f"(valid: {', '.join(sorted(valid)) or 'none'})",
        key=_path(instance, steps),
        cause=KnownCause.MISSPELT_SETTING,
    )
    return instance.located(problem, *steps)


def _problem(instance: InstanceConfig, model: "type[BaseModel]", error: "ErrorDetails") -> Problem:
    steps = error["loc"]
    path = _path(instance, steps)
    if error["type"] == "missing":
        others = set(instance.settings) - _input_names(model) if len(steps) == 1 else ()
        slip = misspelt_as(str(steps[-1]), others)
        message = f"{_where(instance, steps)} is required: {_override(path, model, steps)}{slip}"
        problem = Problem(message, key=path, cause=KnownCause.MISSING_VALUE)
        is_nested = len(steps) > 1
        return (instance.located if is_nested else instance.located_in_block)(problem, *steps)
    if error["type"] == "extra_forbidden":
        inner = _model_at(model, steps[:-1])
        return _unknown_problem(instance, steps, _input_names(inner) if inner else frozenset())
    message = f"{_where(instance, steps)}: {error['msg'].removeprefix('Value error, ')}"
    is_secret = any(is_secret_name(step) for step in steps)
    if error["type"] != "value_error" and not is_secret:  # its author quotes what is refused
        # Masked before it is shortened: no mask knows a part of a secret.
        message += f", got {reprlib.repr(redact(error['input'], find_secrets(instance.settings)))}"
    if error["type"] in _NEEDS_MAPPING:
        name = None if is_secret else error["input"]
        message += f"; write {_override(path, model, steps, name)}"
    hint = ""
    if error["type"] == "string_type" and isinstance(error["input"], int | float):
        hint = (
            "put the value in quotes, so that YAML reads it as a text; on a command line, in two kinds, "
            f"since the shell removes one: {steps[-1]}=\"'…'\""
        )
    problem = Problem(message, hint=hint, key=path, cause=KnownCause.BAD_VALUE)
    if steps and _is_in_file(instance, steps, error["input"]):
        return instance.located(problem, *steps)
    if len(steps) == 1:
        file, key = instance.setting_references.get(str(steps[0]), ("", ""))
        return located(problem, Path(file), key.split(".")) if file else problem
    return problem


def _override(path: str, model: "type[BaseModel]", steps: Sequence[Any], name: Any = None) -> str:
    """Return the override that sets a field. For a nested model its value has the model's fields.

    `name`: what was given in place of a reference, which is most likely the name in it.
    """
    nested = _model_at(model, steps)
    if nested is None:
        return f"++{path}=<value>"
    inner = {
        field: get_args(info.annotation)[0] if _is_literal(info.annotation) else f"<{field}>"
        for field, info in nested.model_fields.items()
        if info.is_required() or _is_literal(info.annotation)
    }
    if "name" in inner and isinstance(name, str) and _NAME.fullmatch(name):
        inner["name"] = name
    fields = ", ".join(f"{field}: {value}" for field, value in inner.items())
    return f"'++{path}={{{fields}}}'"


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal


def _is_in_file(instance: InstanceConfig, steps: Sequence[Any], value: Any) -> bool:
    """Whether the file of a setting has the value itself: not an override, nor what an interpolation
    refers to. `steps` may end with names of types, which pydantic adds.
    """
    file = instance.setting_files.get(steps[0])
    if file is None:
        return False
    try:
        tree, _ = read_yaml(file)
    except ConfigError:
        return False
    node = value_at(tree, (instance.name, instance.type, instance.implementation, steps[0]))
    for step in steps[1:]:
        inner = value_at(node, (step,))
        if inner is ABSENT:
            break
        node = inner
    return bool(node == value)


def _where(instance: InstanceConfig, steps: Sequence[Any]) -> str:
    return f"{instance.name}: {dotted(steps) or 'settings'}"


def _path(instance: InstanceConfig, steps: Sequence[Any]) -> str:
    return dotted((instance.name, instance.type, instance.implementation, *steps))


def _model_at(model: "type[BaseModel]", steps: Sequence[Any]) -> "type[BaseModel] | None":
    """Return the model nested in `model` at an error's location; None when it cannot be determined."""
    current: type[BaseModel] | None = model
    for step in steps:
        if current is None:
            return None
        if isinstance(step, int):
            continue  # an item of a list, whose model was found with the list
        field = current.model_fields.get(step)
        current = _model_in(field.annotation) if field else None
    return current


def _model_in(annotation: Any) -> "type[BaseModel] | None":
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for arg in get_args(annotation) if (m := _model_in(arg))), None)
