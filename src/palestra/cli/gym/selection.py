"""Find the config files that the values of selectors, such as `--benchmark NAME`, name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palestra.cli.gym.grammar import Invocation, UsageError, as_item
from palestra.config import SearchPaths, nearest, parse_overrides, renamed
from palestra.programs import CONFIG_PATHS, SELECTORS, Selector


def select(selector: Selector, name: str, paths: SearchPaths) -> tuple[str, str]:
    """Return the config file that `name` means, relative to its root, and a warning.

    The warning names the other roots that have such a file; it is empty when there is none. Raises
    UsageError, with the most similar name and the roots: no root has such a file.
    """
    matches = [
        (relative, root / variant)
        for root in paths.roots
        for relative in selector.files(name)
        for variant in _variants(relative)
        if (root / variant).is_file()
    ]
    if not matches:
        raise _missing(selector, name, paths)
    relative, chosen = matches[0]
    others = [path for _, path in matches[1:] if not path.samefile(chosen)]
    hidden = ", ".join(str(path) for path in others if not _is_in_root_of(chosen, path, paths))
    warning = f"{selector.flag} {name} is {chosen}; not used: {hidden}" if hidden else ""
    return relative, warning


def _variants(relative: str) -> tuple[str, ...]:
    """Return the path, and the path under its folder's new name."""
    newer = renamed(relative)
    return (relative,) if newer is None else (relative, newer.path)


def _is_in_root_of(chosen: Path, path: Path, paths: SearchPaths) -> bool:
    """Whether two files are in the same root: two spellings of one name, of which the first counts."""
    root = next(root for root in paths.roots if chosen.is_relative_to(root))
    return path.is_relative_to(root)


def _missing(selector: Selector, name: str, paths: SearchPaths) -> UsageError:
    near = nearest(name, selector.names(paths.roots))
    flags_with_name = [
        candidate.flag
        for candidate in SELECTORS.values()
        if candidate is not selector and name in set(candidate.names(paths.roots))
    ]
    searched = ", ".join(str(root / selector.tree) for root in paths.roots)
    return UsageError(
        f"{selector.flag} {name}: there is no {selector.files(name)[0]}"
        + (f". Did you mean {near}?" if near else ""),
        hint="; ".join(
            [
                *(f"{flag} {name} exists" for flag in flags_with_name),
                f"searched: {searched}; --search-dir adds a folder",
            ]
        ),
    )


def with_config_files(
    invocation: Invocation, paths: SearchPaths, *, report: Callable[[str], object] = lambda _: None
) -> Invocation:
    """Return the invocation with one `+config_paths` that holds the files of `--config`, of the
    selectors, and of the typed `+config_paths`, in this order.

    `report`: gets a warning for each name that several roots have. Raises UsageError: a name is
    unknown.
    """
    files: list[str] = list(_paths_of(invocation, "config"))
    for key, selector in SELECTORS.items():
        for name in _paths_of(invocation, key):
            file, warning = select(selector, name, paths)
            files.append(file)
            if warning:
                report(f"warning: {warning}")
    if not files:
        return invocation
    typed, others = _split(invocation.overrides)
    joined = ",".join(as_item(file) for file in (*files, *typed))
    return replace(invocation, overrides=(f"+{CONFIG_PATHS}=[{joined}]", *others))


def _paths_of(invocation: Invocation, key: str) -> tuple[str, ...]:
    """Return the values of a repeatable flag. A flag of this name that takes one text selects no
    config file.
    """
    values = invocation.flags.get(key)
    return values if isinstance(values, tuple) else ()


def _split(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files of the typed `config_paths` overrides, and all other overrides."""
    files: list[str] = []
    others: list[str] = []
    for text in overrides:
        if not text.lstrip("+").startswith(f"{CONFIG_PATHS}="):
            others.append(text)
            continue
        [override] = parse_overrides([text])
        files += _listed(override.value)
    return files, others


def _listed(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
