"""Gymnasium's spaces in words: observations as text, actions out of a model's text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from palestra.resources_servers.actions import last_action

if TYPE_CHECKING:
    from gymnasium import Space

LONGEST_ACTION = 10_000


class NoAction(Exception):
    """The text holds no action of the space; the message is for the model."""


def action_in(text: str, space: "Space[Any]", names: Mapping[str, int]) -> Any:
    """The action in the last `<action>…</action>`: a name, a number, a text, or JSON.

    Raises NoAction, saying what the space takes.
    """
    found = last_action(text)
    if found is None:
        raise NoAction("Your turn holds no <action>…</action>.")
    written = found[:LONGEST_ACTION]
    by_name = {name.casefold(): number for name, number in names.items()}
    name = written.strip("\"'").casefold()
    if name in by_name:
        return by_name[name]
    action = _of_space(written, space)
    if action is None:
        known = f" It is one of: {', '.join(names)}." if names else f" Actions are {space}."
        raise NoAction(f"{written[:100]!r} is no action.{known}")
    return action


def unplayable(space: "Space[Any]") -> "Space[Any] | None":
    """The part of an action space, or all of it, that cannot be written as text or JSON."""
    from gymnasium import spaces

    kinds = spaces.Text, spaces.Discrete, spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary
    if isinstance(space, kinds):
        return None
    if isinstance(space, spaces.Tuple):
        parts = list(space.spaces)
    elif isinstance(space, spaces.Dict):
        parts = list(space.spaces.values())
    elif isinstance(space, spaces.Sequence) and not space.stack:
        parts = [space.feature_space]
    else:
        return space
    return next((found for part in parts if (found := unplayable(part)) is not None), None)


def _of_space(written: str, space: "Space[Any]") -> Any:
    """What `written` is as a value of the space, or None when it is none."""
    from gymnasium import spaces

    try:
        value = written if isinstance(space, spaces.Text) else orjson.loads(written)
        action = _value(value, space)
        return action if space.contains(action) else None
    except (ValueError, TypeError, OverflowError):  # spaces refuse in many ways
        return None


def _value(value: Any, space: "Space[Any]") -> Any:
    """JSON as a value of the space. Raises ValueError or TypeError where it has not its form."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return _whole(value)
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return _numbers(value, space)
    if isinstance(space, spaces.Tuple):
        return tuple(_value(*pair) for pair in zip(value, space.spaces, strict=True))
    if isinstance(space, spaces.Sequence):
        return tuple(_value(each, space.feature_space) for each in value)
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise ValueError("other keys than the space's")
        return {name: _value(value[name], part) for name, part in space.spaces.items()}
    return value


def _numbers(value: Any, space: "Space[Any]") -> Any:
    """The numbers of an array; one alone needs no brackets."""
    import numpy as np

    read = np.array(value)
    said = np.array(value, dtype=object).ravel()
    if read.dtype.kind not in "iuf" or any(isinstance(each, bool) for each in said):
        raise ValueError("not numbers alone")
    made = read.astype(space.dtype)
    if space.dtype is not None and space.dtype.kind in "iu" and (made != read).any():
        raise ValueError("not whole numbers of its size")
    return made.reshape(space.shape) if made.shape == () and space.shape else made


def _whole(value: Any) -> int:
    if isinstance(value, bool) or value != int(value):
        raise ValueError("not a whole number")
    return int(value)


def observation_text(observation: Any, space: "Space[Any]") -> str:
    """An observation as the model reads it: text as it is, anything else as JSON."""
    if isinstance(observation, str):
        return observation
    try:
        (plain,) = space.to_jsonable([observation])
        return orjson.dumps(plain, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except Exception:  # to_jsonable is not the same for every kind of space
        return str(observation)


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """What the environment tells about a step, as JSON; what is none is left out."""
    kept = {}
    for name, value in info.items():
        try:
            kept[str(name)] = orjson.loads(
                orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
            )
        except orjson.JSONEncodeError:
            continue
    return kept
