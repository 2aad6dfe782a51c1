"""Selectors: the config files that `--benchmark`, `--environment`, `--resources-server` and
`--model-type` name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from palestra.cli.gym.grammar import Invocation, UsageError, as_item
from palestra.config import SearchPaths, nearest, parse_overrides, renamed

CONFIG_PATHS: Final = "config_paths"
CONFIG: Final = "config.yaml"
_CONFIG_PARTS: Final = 4
"""How many names the path of a component's config has: tree, folder, `configs`, file."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A flag whose value is the name of a component, and the folder of such components."""

    flag: str
    tree: str
    has_configs_folder: bool
    """Whether the configs are in `<name>/configs`, and not `<name>/config.yaml`."""

    def files(self, name: str) -> tuple[str, ...]:
        """Return the paths that `name` can mean, relative to a root, in order of preference."""
        folder, slash, flavour = name.rpartition("/")
        if self.has_configs_folder:
            return (f"{self.tree}/{folder or name}/configs/{flavour}.yaml",)
        files = [f"{self.tree}/{name}/{CONFIG}"]
        return (*files, f"{self.tree}/{name}.yaml") if slash else tuple(files)

    def names(self, roots: Sequence[Path]) -> Iterator[str]:
        """Yield every name that the selector takes."""
        for root in roots:
            tree = root / self.tree
            if self.has_configs_folder:
                for path in sorted(tree.glob("*/configs/*.yaml")):
                    folder = path.parents[1].name
                    yield folder if path.stem == folder else f"{folder}/{path.stem}"
            else:
                for path in sorted(tree.glob(f"**/{CONFIG}")):
                    yield path.parent.relative_to(tree).as_posix()


SELECTORS: Final = {
    "benchmark": Selector("--benchmark", "benchmarks", has_configs_folder=False),
    "environment": Selector("--environment", "environments", has_configs_folder=False),
    "resources_server": Selector(
        "--resources-server", "resources_servers", has_configs_folder=True
    ),
    "model_type": Selector("--model-type", "responses_api_models", has_configs_folder=True),
}
"""The selectors by the name of their flag, in the order in which their files are read."""


def flag_of_override(override: str) -> str:
    """Return the selector that adds the only file of a `+config_paths` override, such as
    `--model-type openai_model`; empty when there is none.
    """
    match = re.fullmatch(rf"\+{CONFIG_PATHS}=\[([^,\]]+)\]", override)
    path = Path(match[1]) if match else Path()
    for selector in SELECTORS.values():
        name = path.parents[1].name if len(path.parts) == _CONFIG_PARTS else ""
        for candidate in (name, f"{name}/{path.stem}") if name else ():
            if path.as_posix() in selector.files(candidate):
                return f"{selector.flag} {candidate}"
    return ""


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
