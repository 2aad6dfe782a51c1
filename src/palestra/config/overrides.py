"""Command-line overrides, in Hydra's grammar.

    k=v     change          +k=v    add          ++k=v   add or change
    ~k      delete          ~k=v    delete if it is v

Values also use Hydra's grammar: lists, dicts, quoted strings, null, `${interpolation}`. An override
that nothing reads is usually a typing error: `unknown_overrides` reports it.
"""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from palestra.config.keys import FLEET_KEYS, RESERVED_KEYS, WITHOUT_EFFECT
from palestra.config.problems import did_you_mean, raise_problems
from palestra.config.redact import is_secret_name, mask_line
from palestra.config.sources import CONFIG_PATHS
from palestra.config.tree import ABSENT, COPY, MOVE, assign, dotted, leaves, plain, remove, value_at
from palestra.errors import ConfigError, KnownCause, Problem

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override as HydraOverride


class OverrideAction(StrEnum):
    """The action of an override. The value is the prefix with which the override is written."""

    CHANGE = ""
    ADD = "+"
    FORCE_ADD = "++"
    DELETE = "~"


@dataclass(frozen=True)
class Override:
    """One parsed override. `value` is ABSENT for `~k` without a value."""

    action: OverrideAction
    steps: tuple[str, ...]
    value: Any = field(repr=False)

    @property
    def key(self) -> str:
        """The dotted path, as the user typed it."""
        return dotted(self.steps)


@dataclass(frozen=True, slots=True)
class OverrideRules:
    """The rules for the overrides that a command accepts."""

    strict_add: bool = False
    """Whether `k=v` for a missing key is an error, as in Hydra. If false, `k=v` adds the key."""
    known: Collection[str] = ()
    """Top-level settings that the command itself reads."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Words that users type for a setting, such as the name of its flag, with that setting. They are
    errors."""
    refuse_unknown: bool = False
    """Whether every override that nothing reads is an error. If false, one that is not similar to a
    setting is a warning."""


ANY_OVERRIDE: Final = OverrideRules()
_STEPS_TO_SETTINGS: Final = 3
"""The steps of `<instance>.<server type>.<implementation>`, below which its settings are."""
_LISTS_SETTINGS: Final = "--help lists the settings of the command"
_SIGNS: Final = frozenset(OverrideAction) - {OverrideAction.CHANGE}
_BEGINS_NEXT: Final = re.compile(r"^[-+~]|=")
"""A text that is an argument of its own, not the value of the flag before it."""
_SETTING_IN_VALUE: Final = re.compile(r"[A-Za-z_][\w.]*=")
_CONFIG_FLAGS: Final = frozenset({"config", "c"})
"""The names of the flag for a config file, in commands that have flags."""
_BRACKETS: Final = ("[]", "{}")


def parse_overrides(args: Iterable[str]) -> tuple[Override, ...]:
    """Parse all arguments. One error lists every argument that cannot be parsed."""
    texts = list(args)
    if not texts:
        return ()  # spares commands without overrides the import of Hydra's grammar
    parsed: list[Override] = []
    texts, problems = _without_divided(texts)
    for text, result in zip(texts, _hydra_parse(texts), strict=True):
        override = result if isinstance(result, str) else _from_hydra(text, result)
        if isinstance(override, str):
            problems.append(override)
        else:
            problems += _added_twice(override, parsed)
            parsed.append(override)
    raise_problems(problems, hint="an override is key=value; quote values with , = or spaces")
    return tuple(parsed)


def _without_divided(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the texts without flags and without the halves of an override that a space divides,
    and a problem for each of them.
    """
    overrides: list[str] = []
    problems: list[str] = []
    position = 0
    while position < len(texts):
        text, following = (*texts[position : position + 2], "")[:2]
        position += 1
        if text in _SIGNS and following:
            problems.append(
                f"{text!r} stands alone; without the space: {text}{mask_line(following)}"
            )
            position += 1
        elif parts := _divided_by_spaces(texts[position - 1 : position + 2]):
            problems.append(
                f"spaces divide an override at its '='; without them: {mask_line(''.join(parts))}"
            )
            position += len(parts) - 1
        elif text.startswith("-"):
            flag, equals, value = text.partition("=")
            if not equals and following and not _BEGINS_NEXT.search(following):
                value = following
                position += 1
            setting = flag.lstrip("-").replace("-", "_")
            if setting in _CONFIG_FLAGS:
                setting, value = CONFIG_PATHS, f"[{value or '<file>'}]"
            written = mask_line(f"+{setting}={value or '<value>'}")
            problems.append(f"overrides have no flags; write {written}")
        else:
            overrides.append(text)
    return overrides, problems


def _divided_by_spaces(texts: Sequence[str]) -> Sequence[str]:
    """Return the first of the texts, which together are an override with spaces around its `=`. Empty
    when they are none.
    """
    first, second, third = (*texts, "", "")[:3]
    key, equals, value = first.partition("=")
    if equals:
        is_value = second and "=" not in second and not _BEGINS_NEXT.search(second)
        return texts[:2] if key and not value and is_value else ()
    if second == "=" and third and "=" not in third and not _BEGINS_NEXT.search(third):
        return texts[:3]
    return texts[:2] if second.startswith("=") and len(second) > 1 else ()


def _added_twice(override: Override, earlier: Iterable[Override]) -> Iterator[str]:
    """Yield a problem when `+key=value` adds a key that an earlier override has set otherwise.

    Config files and mappings add up. `++key=value` is meant to replace.
    """
    if override.action is not OverrideAction.ADD or override.steps == (CONFIG_PATHS,):
        return
    same_key = [previous for previous in earlier if previous.steps == override.steps]
    last = same_key[-1] if same_key else override
    is_replaced = last.action is not OverrideAction.DELETE and last.value != override.value
    if is_replaced and not isinstance(override.value, Mapping):
        yield (
            f"override +{override.key} is there twice, with two values; leave one out, or write "
            f"++{override.key}=<value> to replace the first"
        )


def _hydra_parse(texts: Sequence[str]) -> "Iterator[HydraOverride | str]":
    """Yield Hydra's parse of each text, or the error message when a text cannot be parsed."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    for text in texts:
        try:
            yield parser.parse_override(text)
        except HydraException as failure:
            yield _grammar_problem(text, str(failure))


def override_key(text: str) -> str:
    """Return the dotted key of an override as it is typed, which need not be a right one."""
    return text.lstrip("+~").partition("=")[0]


def _grammar_problem(text: str, reason: str) -> str:
    key, equals, value = text.partition("=")
    name = key.lstrip("+~")
    masked = mask_line(text)
    if not equals and os.path.isfile(text):  # noqa: PTH113  # a long text is none
        return f"{masked!r} is a file without a flag; several files of one flag are a quoted glob"
    if not equals:
        remedy = f"<key>={masked}" if "/" in text else f"{name}=<value>, or ~{name} to delete it"
        return f"override {masked!r} has no '='; write {remedy}"
    if "=" in value:
        quoted = f"a value with '=' needs quotes inside: '{key}=\"<value>\"'"
        if _SETTING_IN_VALUE.match(value):
            below = mask_line(value)
            return f"override '{key}={below}': a setting below {name} is {key}.{below}; {quoted}"
        return f"override {masked!r}: {quoted}"
    if is_secret_name(name.rpartition(".")[2]):
        return f"override {masked!r} cannot be parsed"  # the reason quotes the value
    unclosed = [pair for pair in _BRACKETS if value.count(pair[0]) > value.count(pair[1])]
    why = f"{unclosed[0][0]!r} has no {unclosed[0][1]!r}" if unclosed else reason.splitlines()[0]
    return f"override {masked!r} cannot be parsed: {why}"


def _from_hydra(text: str, parsed: "HydraOverride") -> Override | str:
    from hydra.core.override_parser.types import OverrideType, ValueType

    actions = {
        OverrideType.CHANGE: OverrideAction.CHANGE,
        OverrideType.ADD: OverrideAction.ADD,
        OverrideType.FORCE_ADD: OverrideAction.FORCE_ADD,
        OverrideType.DEL: OverrideAction.DELETE,
    }
    key = parsed.key_or_group
    if is_hydra_key(key):
        return Override(actions[parsed.type], ("hydra", key[6:]), None)
    steps = tuple(key.split("."))
    if parsed.package is not None or "/" in key or not all(steps):
        return f"override {mask_line(text)!r}: {key!r} is not a dotted path such as a.b.c"
    if parsed.is_sweep_override():
        is_list = parsed.value_type is ValueType.SIMPLE_CHOICE_SWEEP
        return _sweep_problem(text, is_list=is_list)
    bare = parsed.value_type is None
    value = ABSENT if bare else plain(parsed.value(), where=f"override {key}")
    return Override(actions[parsed.type], steps, value)


def _sweep_problem(text: str, *, is_list: bool) -> str:
    """Return what to write in place of a sweep, with the sign and the values as they were typed.

    `is_list`: whether the sweep is values with commas between them.
    """
    masked = mask_line(text)
    problem = f"override {masked!r} is a sweep, which Palestra does not support"
    if not is_list:
        return problem
    key, _, values = masked.partition("=")
    # Without a plus it is refused where a key must be there already.
    key = f"+{key}" if key == CONFIG_PATHS else key
    as_list = shlex.quote(f"{key}=[{values}]")
    if key.endswith(CONFIG_PATHS) or '"' in values:
        return f"{problem}; write a list: {as_list}"
    as_text = shlex.quote(f'{key}="{values}"')
    return f"{problem}; write a list: {as_list}, or one text: {as_text}"


def is_hydra_key(key: str) -> bool:
    """Whether `key` is a setting of Hydra itself, such as `hydra.run.dir`, which has no effect
    here.
    """
    return key.startswith(("hydra.", "hydra/"))


def apply_overrides(
    tree: Mapping[Any, Any], overrides: Iterable[Override], *, strict_add: bool = False
) -> dict[Any, Any]:
    """Return the tree with the overrides applied in order. Values that are mappings are merged.

    `strict_add` makes `k=v` for a missing key an error, as in Hydra; without it, `k=v` adds the
    key. Raises ConfigError: the key to delete does not exist, or has another value than the given
    one.
    """
    result: Any = tree
    problems: list[Problem] = []
    for override in overrides:
        try:
            result = _apply(result, override, strict_add=strict_add)
        except ConfigError as failure:
            problems += failure.problems
    raise_problems(problems)
    return dict(result)


def _apply(tree: Any, override: Override, *, strict_add: bool) -> Any:
    current = value_at(tree, override.steps)
    if override.action is OverrideAction.DELETE:
        return _delete(tree, override, current)
    if strict_add and override.action is OverrideAction.CHANGE and current is ABSENT:
        near = _near(tree, override)
        raise ConfigError(
            f"{override.key}=… changes a key that is not in the config"
            + (near or f"; to add it, write +{override.key}=…"),
            hint="" if near else f"write +{override.key}=…; {_LISTS_SETTINGS}",
            cause=KnownCause.MISSPELT_SETTING,
        )
    try:
        return assign(tree, override.steps, override.value)
    except IndexError as failure:
        raise ConfigError(
            f"override {override.key}: the list has no item {failure}; lists do not grow by index"
        ) from failure


def _delete(tree: Any, override: Override, current: Any) -> Any:
    if current is ABSENT:
        raise ConfigError(
            f"~{override.key} deletes a key that is not in the config{_near(tree, override)}"
        )
    if override.value is not ABSENT and override.value != current:
        raise ConfigError(
            f"~{override.key}=… deletes a key only if its value is the one after =; its value is "
            "different"
        )
    return remove(tree, override.steps)


def _near(tree: Any, override: Override) -> str:
    """Return a suggestion for the first step of an override that the tree does not have."""
    node = tree
    for depth, step in enumerate(override.steps):
        if not isinstance(node, Mapping):
            break
        if step not in node:
            is_setting = depth == _STEPS_TO_SETTINGS
            return did_you_mean(step, [*node, *(FLEET_KEYS if is_setting else ())])
        node = node[step]
    return ""


_REFERENCE = re.compile(r"\$\{\s*(?:(?:oc\.[a-z.]+|copy|inherit_from)\s*:\s*)?([^.:,\s${}\[\]]+)")


def unknown_overrides(
    overrides: Iterable[Override],
    *,
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    instances: Collection[str],
    known_keys: Collection[str],
) -> tuple[Problem, ...]:
    """Return a problem for each top-level key that came from overrides and has no meaning.

    `before`: the tree without overrides; a key of a file is never unknown. `after`: the tree with
    overrides, before directives are carried out. `known_keys`: the command's own settings.
    """
    fine = (
        {str(key) for key in before}
        | {*instances, *known_keys, *RESERVED_KEYS}
        | mentioned_in(after)
    )
    unknown = dict.fromkeys(o.steps[0] for o in overrides if o.steps[0] not in fine)
    names = RESERVED_KEYS | set(known_keys) | set(instances)
    return tuple(unknown_override(key, did_you_mean(key, names)) for key in unknown)


def unknown_override(key: str, suggestion: str) -> Problem:
    """Return the problem of an override whose top-level key has no meaning."""
    if key in WITHOUT_EFFECT:
        message = f"override {key!r} has no effect here: {WITHOUT_EFFECT[key]}"
        cause = KnownCause.MISSPELT_SETTING
        return Problem(message, hint="leave it out", key=key, cause=cause)
    return Problem(
        f"override {key!r} is not a setting and nothing refers to it{suggestion}",
        hint="" if suggestion else _LISTS_SETTINGS,
        key=key,
        cause=KnownCause.MISSPELT_SETTING,
    )


def mentioned_in(tree: Any) -> frozenset[str]:
    """Return the top-level keys with which an interpolation or a directive in the tree begins."""
    mentioned: set[str] = set()
    for steps, leaf in leaves(tree):
        if not isinstance(leaf, str):
            continue
        mentioned.update(_REFERENCE.findall(leaf))
        if steps[-1] in (MOVE, COPY):
            mentioned.add(leaf.strip().split(".")[0])
    return frozenset(mentioned)
