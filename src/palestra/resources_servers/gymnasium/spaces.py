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
    if written.casefold() in by_name:
        return by_name[written.casefold()]
    action = _of_space(written, space)
    if action is None or not space.contains(action):
        known = f" It is one of: {', '.join(names)}." if names else f" Actions are {space}."
        raise NoAction(f"{written[:100]!r} is no action.{known}")
    return action


def _of_space(written: str, space: "Space[Any]") -> Any:
    """What `written` is as a value of the space, or None; whether it lies in it is not checked."""
    from gymnasium import spaces

    if isinstance(space, spaces.Text):
        return written
    try:
        value = orjson.loads(written)
    except orjson.JSONDecodeError:
        return None
    if isinstance(space, spaces.Discrete):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    try:
        (unpacked,) = space.from_jsonable([value])
    except Exception:  # each kind of space has its own way to refuse
        return None
    return unpacked


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
