"""Build a `ResolvedConfig` from the user's arguments."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from palestra.config.capture import capture_settings
from palestra.config.compose import compose
from palestra.config.instances import find_instances
from palestra.config.origins import Origins
from palestra.config.overrides import (
    ANY_OVERRIDE,
    Override,
    OverrideAction,
    OverrideRules,
    apply_overrides,
    mentioned_in,
    parse_overrides,
    unknown_overrides,
)
from palestra.config.paths import SearchPaths
from palestra.config.ports import check_ports
from palestra.config.problems import raise_problems
from palestra.config.references import check_references
from palestra.config.resolve import resolve
from palestra.config.resolved import ResolvedConfig, ServerType
from palestra.config.slips import override_slips, slips_in
from palestra.config.sources import (
    CONFIG_PATHS,
    EnvironmentFile,
    Source,
    no_environment,
    paths_in,
    read_environment,
    read_sources,
    take_config_paths,
)
from palestra.config.tree import ABSENT, MOVE, ConfigTree, children, merge, plain
from palestra.errors import ConfigError


def load_config(
    *,
    overrides: Sequence[str] = (),
    config_paths: Sequence[str] = (),
    extra: ConfigTree | None = None,
    cwd: Path | None = None,
    package_root: Path | None = None,
    require_all: bool = True,
    required: Collection[str] | None = None,
    use_env_yaml: bool = True,
    need_folders: bool = True,
    rules: OverrideRules = ANY_OVERRIDE,
) -> ResolvedConfig:
    """Read, merge, compose, resolve and validate a configuration.

    Precedence, later wins: the config files, `env.yaml`, `extra`, `overrides`. Config files are
    named by `env.yaml`, `extra`, `config_paths` and overrides, in this order.

    `require_all=False` turns settings without a value into empty strings, for commands that start
    no server. `required` names the only instances that must be complete, for commands that start a
    few: missing values and wrong references of other instances are then no error.
    `need_folders=False` also accepts instances whose folder does not exist. Any problem raises
    `ConfigError`.
    """
    search_paths = SearchPaths.of(cwd, package_root)
    parsed = parse_overrides(overrides)
    environment = read_environment(search_paths) if use_env_yaml else None
    extra_settings = plain(extra or {}, where="extra")
    paths = (*config_paths, *_paths_of(parsed, strict_add=rules.strict_add))
    merged = _merge_sources(environment, extra_settings, paths, search_paths)
    effective = [o for o in parsed if o.steps != (CONFIG_PATHS,) and o.steps[0] != "hydra"]
    overridden = _with_overrides(merged, effective, search_paths, rules)
    origins = Origins(merged.sources, effective)
    with _naming_old_names(overridden, search_paths):
        composed = compose(overridden, origins)
        is_unread = use_env_yaml and environment is None
        tree = resolve(
            composed.tree,
            require_all=require_all,
            required=required,
            origins=origins,
            note=functools.partial(no_environment, search_paths) if is_unread else str,
        )
        config = _validated(
            tree,
            search_paths,
            references=required is None,
            need_folders=need_folders,
            origins=origins,
            takers=composed.takers,
        )
    unknown = unknown_overrides(
        effective,
        before=merged.tree,
        after=overridden,
        instances=config.instances,
        known_keys=rules.known,
    )
    if rules.refuse_unknown:
        raise_problems(unknown)
    return ResolvedConfig(
        tree=config.tree,
        instances=config.instances,
        sources=tuple(source.path for source in merged.sources),
        warnings=(
            *merged.warnings,
            *composed.warnings,
            *config.warnings,
            *_old_names(config.tree, search_paths),
            *(problem.message for problem in unknown),
            *_ignored(parsed),
        ),
        takers={
            name: f"{origins.line_of(*path.split('.'), MOVE)}: {path}.{MOVE}".removeprefix(": ")
            for name, path in composed.takers.items()
        },
        command_keys=frozenset((*(str(o.steps[0]) for o in effective), *extra_settings)),
    )


def _with_overrides(
    merged: "_Merged",
    effective: Sequence[Override],
    search_paths: SearchPaths,
    rules: OverrideRules,
) -> dict[Any, Any]:
    """Return the tree with the overrides. Raises ConfigError: an override, or a setting of a file, has
    a slip.
    """
    overridden = apply_overrides(merged.tree, effective, strict_add=rules.strict_add)
    slips = override_slips(
        effective,
        before=merged.tree,
        after=overridden,
        search_paths=search_paths,
        rules=rules,
    )
    raise_problems(
        (*slips, *slips_in(merged.sources, overridden, search_paths, known_keys=rules.known))
    )
    return overridden


def names_in_files(
    overrides: Sequence[str] = (),
    config_paths: Sequence[str] = (),
    *,
    cwd: Path | None = None,
    use_env_yaml: bool = True,
) -> set[str]:
    """Return the top-level names in the files that `load_config` would read, including `env.yaml`."""
    merged = _merge_files(
        parse_overrides(overrides), config_paths, {}, cwd, use_env_yaml=use_env_yaml
    )
    return {str(name) for name in merged.tree}


def read_settings(
    names: Collection[str],
    *,
    overrides: Sequence[str] = (),
    config_paths: Sequence[str] = (),
    extra: ConfigTree | None = None,
) -> dict[str, Any]:
    """Return the top-level settings `names` that `load_config` would find.

    For a command that needs these settings before it has all its config files. Other overrides may
    belong to a file that is still missing, so they are not checked.
    """
    parsed = parse_overrides(overrides)
    merged = _merge_files(parsed, config_paths, plain(extra or {}, where="extra"))
    tree = merged.tree
    needed, mentioned = set[str](), set(names)
    part: dict[Any, Any] = {}
    while mentioned - needed:
        needed |= mentioned
        needed_overrides = [override for override in parsed if override.steps[0] in needed]
        part = apply_overrides({key: tree[key] for key in tree if key in needed}, needed_overrides)
        mentioned = set(mentioned_in(part))
    resolved = resolve(part, required=names, origins=Origins(merged.sources, parsed))
    return {name: resolved[name] for name in names if name in resolved}


@contextmanager
def locating(*, overrides: Sequence[str] = (), config_paths: Sequence[str] = ()) -> Iterator[None]:
    """Return a context in which the problems of a ConfigError get the origins of their keys: a file
    and its line, or an override.

    For the checks of settings that `read_settings` returned, whose files are read again.
    """
    try:
        yield
    except ConfigError as error:
        parsed = parse_overrides(overrides)
        origins = Origins(_merge_files(parsed, config_paths, {}).sources, parsed)
        problems = [origins.located(p, *filter(None, p.key.split("."))) for p in error.problems]
        hint = error.hint
    else:
        return
    raise_problems(problems, hint=hint)


def _merge_files(
    overrides: Sequence[Override],
    config_paths: Sequence[str],
    extra: dict[Any, Any],
    cwd: Path | None = None,
    *,
    use_env_yaml: bool = True,
) -> "_Merged":
    """Return the files that `load_config` would read, and `extra`, without overrides."""
    search_paths = SearchPaths.of(cwd)
    paths = (*config_paths, *_paths_of(overrides, strict_add=False))
    environment = read_environment(search_paths) if use_env_yaml else None
    return _merge_sources(environment, extra, paths, search_paths)


def _old_names(tree: Any, search_paths: SearchPaths) -> tuple[str, ...]:
    """Return messages about the folders that the configuration names by their old names, each once."""
    renames = (search_paths.renamed(text) for text in _texts(tree))
    return tuple(dict.fromkeys(str(rename) for rename in renames if rename))


@contextmanager
def _naming_old_names(tree: Any, search_paths: SearchPaths) -> Iterator[None]:
    """Return a context in which a ConfigError gets the renamed folders added to its hint.

    Without the hint, the error would contain only the folders' new names.
    """
    try:
        yield
    except ConfigError as error:
        old = _old_names(tree, search_paths)
        if not old:
            raise
        raise ConfigError(
            error.message,
            hint="; ".join(filter(None, (*old, error.hint))),
            cause=error.cause,
            problems=error.problems,
        ) from error


def _texts(tree: Any) -> Iterator[str]:
    """Yield every text of a tree, and the folder of every resources server."""
    if isinstance(tree, str):
        yield tree
        return
    for key, item in children(tree):
        if key == ServerType.RESOURCES and isinstance(item, Mapping):
            yield from (f"{key}/{implementation}" for implementation in item)
        yield from _texts(item)


def _ignored(overrides: Sequence[Override]) -> tuple[str, ...]:
    return tuple(
        f"override {o.key!r} has no effect: it is for Hydra, and Palestra does not run Hydra"
        for o in overrides
        if o.steps[0] == "hydra"
    )


def config_from_tree(
    tree: ConfigTree, *, cwd: Path | None = None, package_root: Path | None = None
) -> ResolvedConfig:
    """Validate a resolved tree, such as the one that a server process gets from its fleet.

    Nothing is read, merged or interpolated again: a literal `${` is kept.
    """
    return _validated(tree, SearchPaths.of(cwd, package_root))


def _validated(
    tree: ConfigTree,
    search_paths: SearchPaths,
    *,
    references: bool = True,
    need_folders: bool = True,
    origins: Origins = Origins(),  # noqa: B008  # frozen
    takers: Mapping[str, str] = MappingProxyType({}),
) -> ResolvedConfig:
    resolved = plain(tree, where="the resolved config")
    instances, warnings = find_instances(
        resolved, search_paths, need_folders=need_folders, origins=origins
    )
    if references:
        check_references(instances, takers)
    check_ports(resolved, instances, origins)
    capture_settings(resolved)
    return ResolvedConfig(tree=resolved, instances=instances, warnings=warnings)


@dataclass(frozen=True)
class _Merged:
    """All sources except the overrides, merged into one tree."""

    tree: dict[Any, Any]
    sources: tuple[Source, ...]
    warnings: tuple[str, ...]


def _merge_sources(
    environment: EnvironmentFile | None,
    extra: dict[Any, Any],
    config_paths: tuple[str, ...],
    search_paths: SearchPaths,
) -> _Merged:
    requests = [
        *((path, "from env.yaml") for path in (environment.config_paths if environment else ())),
        *((path, "from the caller") for path in take_config_paths(extra, where="extra")),
        *((path, "asked for") for path in config_paths),
    ]
    sources, warnings = read_sources(requests, search_paths)
    layers = [*sources, *([environment.source] if environment else ())]
    tree: dict[Any, Any] = functools.reduce(merge, (*(layer.tree for layer in layers), extra), {})
    if requests:
        # As a dump in the field shows it: what was asked for, not what those files include.
        tree = {CONFIG_PATHS: [path for path, _ in requests], **tree}
    all_warnings = (*warnings, *(environment.warnings if environment else ()))
    return _Merged(tree, tuple(layers), all_warnings)


def _paths_of(overrides: Sequence[Override], *, strict_add: bool) -> tuple[str, ...]:
    paths: tuple[str, ...] = ()
    for override in overrides:
        if override.steps != (CONFIG_PATHS,):
            continue
        if override.value is ABSENT:
            raise ConfigError(
                "~config_paths: not supported; leave a file out by not listing it in +config_paths"
            )
        if strict_add and override.action is OverrideAction.CHANGE:
            raise ConfigError('config_paths=… needs a plus: "+config_paths=[a.yaml,b.yaml]"')
        paths += paths_in(override.value, where="override config_paths")
    return paths
