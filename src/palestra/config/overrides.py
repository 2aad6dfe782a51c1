"""Command-line overrides, in Hydra's grammar.

    k=v     change          +k=v    add          ++k=v   add or change
    ~k      delete          ~k=v    delete if it is v

Values also use Hydra's grammar: lists, dicts, quoted strings, null, `${interpolation}`. An override
that nothing reads is usually a typing error: `unknown_overrides` reports it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from palestra.config.problems import did_you_mean, raise_problems
from palestra.config.redact import is_secret_name, mask_line
from palestra.config.tree import ABSENT, assign, dotted, plain, remove, value_at
from palestra.errors import ConfigError, KnownCause, Problem

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override as HydraOverride

import re
from collections.abc import Collection

from palestra.config.keys import RESERVED_KEYS
from palestra.config.tree import COPY, MOVE, leaves


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
    refuse_unknown: bool = False
    """Whether an override that nothing reads is an error. If false, it is a warning."""


ANY_OVERRIDE: Final = OverrideRules()


def parse_overrides(args: Iterable[str]) -> tuple[Override, ...]:
    """Parse all arguments. One error lists every argument that cannot be parsed."""
    texts = list(args)
    if not texts:
        return ()  # spares commands without overrides the import of Hydra's grammar
    parsed: list[Override] = []
    problems: list[str] = []
    for text, result in zip(texts, _hydra_parse(texts), strict=True):
        override = result if isinstance(result, str) else _from_hydra(text, result)
        if isinstance(override, str):
            problems.append(override)
        else:
            parsed.append(override)
    raise_problems(problems, hint="an override is key=value; quote values with , = or spaces")
    return tuple(parsed)


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


def _grammar_problem(text: str, reason: str) -> str:
    key, equals, value = text.partition("=")
    name = key.lstrip("+~")
    masked = mask_line(text)
    if key.startswith("-"):
        setting = key.lstrip("-").replace("-", "_")
        return f"{masked!r} is a flag, and overrides have none; write +{setting}=<value>"
    if not equals:
        return f"override {masked!r} has no '='; write {name}=<value>, or ~{name} to delete it"
    if "=" in value:
        return f"override {masked!r}: a value with '=' needs quotes inside: '{key}=\"<value>\"'"
    if is_secret_name(name.rpartition(".")[2]):
        return f"override {masked!r} cannot be parsed"  # the reason quotes the value
    return f"override {masked!r} cannot be parsed: {reason.splitlines()[0]}"


def _from_hydra(text: str, parsed: "HydraOverride") -> Override | str:
    from hydra.core.override_parser.types import OverrideType

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
        return (
            f"override {mask_line(text)!r} is a sweep, which Palestra does not support; write a "
            f"list as {key}=[a,b], or quote the text: '{key}=\"a,b\"'"
        )
    bare = parsed.value_type is None
    value = ABSENT if bare else plain(parsed.value(), where=f"override {key}")
    return Override(actions[parsed.type], steps, value)


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
        raise ConfigError(
            f"{override.key}=… changes a key that is not in the config{_near(tree, override)}; "
            f"to add it, write +{override.key}=…",
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
    siblings = value_at(tree, override.steps[:-1])
    return did_you_mean(override.steps[-1], siblings if isinstance(siblings, Mapping) else ())


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
    return tuple(
        Problem(
            f"override {key!r} is not a setting and nothing refers to it{did_you_mean(key, names)}",
            key=key,
            cause=KnownCause.MISSPELT_SETTING,
        )
        for key in unknown
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
