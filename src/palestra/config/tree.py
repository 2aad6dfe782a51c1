"""Configuration trees: nested dicts and lists of YAML values, paths into them, composition
directives.

A path is a tuple of steps; a step is a mapping key or a list index. Functions in this module never
change their arguments.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from palestra.errors import ConfigError

MOVE: Final = "_inherit_from"
COPY: Final = "_copy"
DELETE: Final = "_delete_key"
DIRECTIVES: Final = (MOVE, COPY, DELETE)

_STRING_FORM = re.compile(r"\s*\$\{\s*(inherit_from|copy)\s*:\s*([^${}]*?)\s*\}\s*")
_KEY_OF = {"inherit_from": MOVE, "copy": COPY}


@dataclass(frozen=True, slots=True)
class StringDirective:
    """A directive written as a string: `key` is `_inherit_from` or `_copy`."""

    key: str
    source: str


def string_directive(value: object) -> StringDirective | None:
    """Return the directive that the whole string `value` is; None when it is none."""
    if not isinstance(value, str):
        return None
    match = _STRING_FORM.fullmatch(value)
    return StringDirective(_KEY_OF[match[1]], match[2]) if match else None


def opened(value: Any) -> Any:
    """Return `${copy:x}` as `{_copy: x}`, so that keys can be set next to it; any other value
    unchanged.
    """
    directive = string_directive(value)
    return {directive.key: directive.source} if directive else value


def inherits(value: object) -> bool:
    """Whether `value` has a directive, so that keys below it may come from another place."""
    if isinstance(value, Mapping):
        return MOVE in value or COPY in value
    return string_directive(value) is not None


type_of_scalars = (bool, int, float, type(None))

ConfigTree: TypeAlias = Mapping[str, Any]
"""A configuration, or a mapping within one, as plain values."""

Steps = tuple[Any, ...]

ABSENT: Final = object()
"""Marks a missing value where None is a valid value."""


def dotted(steps: Sequence[Any]) -> str:
    """Return a path as text such as `a.b.0`, as in files, overrides and messages."""
    return ".".join(str(step) for step in steps)


def nested(path: str, value: str) -> str:
    """Return a setting as one line of YAML, such as `a: {b: {c: 1}}` for the dotted path `a.b.c`."""
    first, *inner = path.split(".")
    return f"{first}: {''.join(f'{{{key}: ' for key in inner)}{value}{'}' * len(inner)}"


def plain(
    value: Any,
    *,
    where: str | Callable[[Steps], str],
    steps: Steps = (),
    above: tuple[int, ...] = (),
) -> Any:
    """Return a copy of `value` in plain dicts, lists, strings, numbers, booleans and None.

    `where` names the source in errors, or returns the source of the value at a path. Raises
    ConfigError: YAML configs cannot hold a value or a key, or a YAML alias contains itself.
    """
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, type_of_scalars):
        return value
    if id(value) in above:
        raise ConfigError(f"{_source(where, steps)}: {dotted(steps)} contains itself")
    inner = (*above, id(value))
    if isinstance(value, Mapping):
        return {
            _plain_key(key, where, steps): plain(
                item, where=where, steps=(*steps, key), above=inner
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            plain(item, where=where, steps=(*steps, index), above=inner)
            for index, item in enumerate(value)
        ]
    raise ConfigError(
        f"{_source(where, steps)}: {dotted(steps) or 'the config'} is a {type(value).__name__}, "
        "which a config cannot hold",
        hint="use strings, numbers, booleans, lists and mappings",
    )


def _source(where: str | Callable[[Steps], str], steps: Steps) -> str:
    return where if isinstance(where, str) else where(steps)


def _plain_key(key: Any, where: str | Callable[[Steps], str], steps: Steps) -> Any:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool | int | float):
        return key
    raise ConfigError(
        f"{_source(where, (*steps, key))}: a key of {dotted(steps) or 'the config'} is {key!r}; "
        "keys are strings, numbers or booleans"
    )


def merge(base: Any, overriding: Any) -> Any:
    """Merge `overriding` into `base`: mappings are merged key by key, any other value is replaced.

    A mapping merged over `${copy:x}` is set next to the directive, and overrides what it copies.
    """
    if base is ABSENT or not isinstance(overriding, Mapping):
        return overriding
    base = opened(base)
    if not isinstance(base, Mapping):
        return overriding
    merged = dict(base)
    for key, value in overriding.items():
        merged[key] = merge(base.get(key, ABSENT), value)
    return merged


def leaves(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Yield every scalar of the tree with its path, in order."""
    for step, item in children(value):
        if isinstance(item, Mapping | list | tuple):
            yield from leaves(item, (*steps, step))
        else:
            yield (*steps, step), item


def children(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the steps and values directly below `value`; nothing for a scalar."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def step_in(node: Any, step: Any) -> Any:
    """Return the key or index of `node` that the text `step` means, or ABSENT.

    `1` in a path may be the string "1", the number 1, or an index of a list.
    """
    if isinstance(node, Mapping):
        return next((key for key in node if key == step or str(key) == str(step)), ABSENT)
    if isinstance(node, list) and str(step).isdecimal() and int(step) < len(node):
        return int(step)
    return ABSENT


def value_at(tree: Any, steps: Sequence[Any]) -> Any:
    """Return the value at the path `steps`, or ABSENT."""
    node = tree
    for step in steps:
        key = step_in(node, step)
        if key is ABSENT:
            return ABSENT
        node = node[key]
    return node


def assign(tree: Any, steps: Sequence[Any], value: Any) -> Any:
    """Return the tree with `value` merged in at a path. Missing mappings on the path are created.

    Raises IndexError: an index is beyond the end of a list.
    """
    if not steps:
        return merge(tree, value)
    step, further_steps = steps[0], steps[1:]
    node = opened(tree)
    existing_key = step_in(node, step)
    if isinstance(node, list):
        if existing_key is ABSENT:
            raise IndexError(step)
        return [
            assign(v, further_steps, value) if i == existing_key else v for i, v in enumerate(node)
        ]
    mapping = node if isinstance(node, Mapping) else {}
    key = step if existing_key is ABSENT else existing_key
    return {**mapping, key: assign(mapping.get(key, ABSENT), further_steps, value)}


def remove(tree: Any, steps: Sequence[Any]) -> Any:
    """Return the tree without the value at a path, which must exist."""
    key = step_in(tree, steps[0])
    further_steps = steps[1:]
    remaining: list[tuple[Any, Any]] = [
        (step, remove(item, further_steps) if step == key else item)
        for step, item in children(tree)
        if step != key or further_steps
    ]
    return [item for _, item in remaining] if isinstance(tree, list) else dict(remaining)
