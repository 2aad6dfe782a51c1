"""Find keys of config files and of overrides that look like slips of keys with a meaning.

Config files may have keys of their own: values refer to them, or the code of a server reads them. So
a key is a slip only when it is very similar to a key with a meaning, no value refers to it, and no
code of the configured servers has it. Another number in the name, or a longer name, is a key of its
own; in a file a plural is one, too.

An override below a name that no file has makes a new instance. When the name is very similar to an
instance of the files, it is a slip of that instance.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from palestra.config.keys import FLEET_KEYS, RESERVED_KEYS
from palestra.config.overrides import (
    Override,
    OverrideAction,
    OverrideRules,
    mentioned_in,
    unknown_override,
)
from palestra.config.own_keys import is_in_code, misspelt_key
from palestra.config.paths import SearchPaths
from palestra.config.problems import is_variant, located, nearest, slip_of
from palestra.config.resolved import ServerType
from palestra.config.sources import Source
from palestra.config.tree import (
    ABSENT,
    DIRECTIVES,
    Steps,
    dotted,
    inherits,
    leaves,
    nested,
    string_directive,
)
from palestra.errors import KnownCause, Problem
from palestra.system import shown

_TYPES: Final = tuple(server_type.value for server_type in ServerType)
_DIRECTIVE: Final = 0.8
"""The least similarity of a slip of a directive. Few other keys begin with an underscore."""


@dataclass(frozen=True)
class _Key:
    """A key of a config file. `steps`: where it is; `server`: the folder of the server whose key it
    is, such as `resources_servers/mcqa`.
    """

    path: Path
    steps: tuple[str, ...]
    server: str = ""

    @property
    def word(self) -> str:
        return self.steps[-1]


def slips_in(
    sources: Iterable[Source],
    tree: Mapping[Any, Any],
    search_paths: SearchPaths,
    known_keys: Iterable[str] = (),
) -> tuple[Problem, ...]:
    """Return a problem for each key of the files that is most likely a slip.

    `tree`: all sources merged, with overrides and before interpolation. `known_keys`: the top-level
    settings of commands.
    """
    sources = tuple(sources)
    top_level = RESERVED_KEYS | set(known_keys)
    problems = list(_dotted_keys(sources, top_level | {str(name) for name in tree}))
    problems += _replaced_servers(sources)
    problems += _misspelt_directives(sources, tree)
    for key in (key for source in sources for key in _keys_of(source)):
        names = FLEET_KEYS if key.server else top_level
        near = None if key.word in names else slip_of(key.word, names)
        if near is None or is_variant(key.word, near, plural=True):
            continue
        if _is_used(key.word, key.server, tree, search_paths):
            continue
        problem = misspelt_key(".".join(key.steps), near)
        problems.append(located(problem, key.path, key.steps))
    return tuple(problems)


def _dotted_keys(sources: Iterable[Source], names: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each top-level key with dots that a command line would split: in a file it
    is one name, which nothing reads. `names`: those of top-level settings.
    """
    for source in sources:
        for key in source.tree:
            first, *inner = str(key).split(".")
            if all(inner) and inner and (first in names or inner[0] in _TYPES):
                problem = Problem(
                    f"nothing reads {key}: in a file, dots do not lead to a setting",
                    hint=f"write {nested(str(key), '<value>')}",
                    key=str(key),
                    cause=KnownCause.MISSPELT_SETTING,
                )
                yield located(problem, source.path, (key,))


def _misspelt_directives(sources: Iterable[Source], tree: Mapping[Any, Any]) -> Iterator[Problem]:
    """Yield a problem for each key, at any depth, that resembles a directive such as `_inherit_from`:
    of the files, and of `tree`, which overrides have changed.
    """
    earlier: set[Steps] = set()
    for path, keys in (*((source.path, source.tree) for source in sources), (None, tree)):
        paths = {
            steps[: depth + 1]: None for steps, _ in leaves(keys) for depth in range(len(steps))
        }
        for steps in paths:
            word = str(steps[-1])
            near = nearest(word, DIRECTIVES, cutoff=_DIRECTIVE) if word.startswith("_") else None
            if near is None or near == word or is_variant(word, near) or steps in earlier:
                continue
            earlier.add(steps)
            problem = misspelt_key(dotted(steps), near)
            yield problem if path is None else located(problem, path, steps)


def _replaced_servers(sources: Sequence[Source]) -> Iterator[Problem]:
    """Yield a problem for each value that would take the place of a server of another file."""
    files = {name: s.path for s in sources for name, block in s.tree.items() if _is_instance(block)}
    for source in sources:
        for name, value in source.tree.items():
            if name in files and _is_plain(value):
                yield located(_replacing(str(name), shown(files[name])), source.path, (name,))


def _is_plain(value: Any) -> bool:
    """Whether a value is nothing that can be a server, or null, which takes one away."""
    is_composed = isinstance(value, str) and (string_directive(value) or "${" in value)
    return not (value is None or value is ABSENT or isinstance(value, Mapping) or is_composed)


def _replacing(name: str, of: str, form: str = "{}: <value>") -> Problem:
    """Return the problem of a value in place of a server. `form`: how the value is written."""
    settings = sorted(key for key in RESERVED_KEYS if key.startswith(f"{name}_"))
    suggestion = f"; did you mean {settings[0]!r}?" if settings else ""
    return Problem(
        f"{name} is a server of {of}, which this value would replace{suggestion}",
        hint=f"write {form.format(settings[0] if settings else '<another name>')}",
        key=name,
        cause=KnownCause.MISSPELT_SETTING,
    )


def override_slips(
    overrides: Iterable[Override],
    *,
    before: Mapping[Any, Any],
    after: Mapping[Any, Any],
    search_paths: SearchPaths,
    rules: OverrideRules,
) -> tuple[Problem, ...]:
    """Return a problem for each override whose first key is most likely a slip.

    `before`: the files, merged; `after`: with the overrides, before interpolation.
    """
    names = RESERVED_KEYS | set(rules.known) | {str(name) for name in before}
    fine = names | mentioned_in(after) | _referenced_in(after)
    problems: dict[str, Problem] = {}
    for override in overrides:
        word = override.steps[0]
        if (
            override.steps == (word,)
            and _is_plain(override.value)
            and _is_instance(before.get(word))
        ):
            problem = _replacing(word, "the configuration", f"{override.action}{{}}=<value>")
            text = f"{override.action}{override.key}: {problem.message}"
            problems[word] = replace(problem, message=text)
            continue
        alias = rules.aliases.get(word)
        near = None if word in fine else alias or slip_of(word, names)
        if near is None or override.action is OverrideAction.DELETE:
            continue
        block, is_instance = after.get(word), _is_instance(before.get(near))
        if inherits(block) or (_is_instance(block) and not is_instance):
            continue  # a new instance
        if alias is None and is_variant(word, near):
            continue
        if alias is None and not is_instance and _is_used(word, "", after, search_paths):
            continue
        problems.setdefault(word, _override_problem(override, near, is_instance=is_instance))
    return tuple(problems.values())


def _override_problem(override: Override, near: str, *, is_instance: bool) -> Problem:
    word = override.steps[0]
    suggestion = f"; did you mean {near!r}?"
    corrected = override.action + dotted((near, *override.steps[1:]))
    hint = f"write {corrected}=…; a name of your own needs to be less similar"
    if not is_instance:
        return replace(unknown_override(word, suggestion), hint=hint)
    return Problem(
        f"{override.action}{override.key}: no instance {word!r}{suggestion}",
        hint=hint,
        key=override.key,
        cause=KnownCause.MISSPELT_SETTING,
    )


def _is_instance(block: Any) -> bool:
    return inherits(block) or any(_servers_in(block))


def _referenced_in(tree: Any) -> set[str]:
    """Return the names in references between servers: `{type: …, name: …}`."""
    return {leaf for steps, leaf in leaves(tree) if steps[-1] == "name" and isinstance(leaf, str)}


def _keys_of(source: Source) -> Iterator[_Key]:
    """Yield the keys of a file that are not names of instances, and the keys of its instances."""
    for name, block in source.tree.items():
        servers = list(_servers_in(block))
        if not servers:
            yield _Key(source.path, (str(name),))
        for server, settings in servers:
            for key in settings:
                yield _Key(source.path, (str(name), *server.split("/"), str(key)), server)


def _servers_in(block: Any) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the folder and the settings of each server in a top-level block."""
    for server_type in _TYPES if isinstance(block, Mapping) else ():
        implementations = block.get(server_type)
        if isinstance(implementations, Mapping):
            for name, settings in implementations.items():
                yield f"{server_type}/{name}", settings if isinstance(settings, Mapping) else {}


def _is_used(word: str, server: str, tree: Mapping[Any, Any], search_paths: SearchPaths) -> bool:
    """Whether a value refers to a key, or the code of a server has its name.

    `server`: the folder of the server whose key it is; empty for a top-level key.
    """
    if server:
        servers = {server}
        name = re.compile(rf"\b{re.escape(word)}\b")
        values = (leaf for _, leaf in leaves(tree) if isinstance(leaf, str))
        is_mentioned = any("${" in value and name.search(value) for value in values)
    else:
        servers = {server for block in tree.values() for server, _ in _servers_in(block)}
        is_mentioned = word in mentioned_in(tree)
    return is_mentioned or is_in_code(word, map(search_paths.resolve, servers))
