"""Selectors: the flags of `gym` that name a config file: `--benchmark`, `--environment`,
`--resources-server` and `--model-type`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    folder = "/".join(path.parts[1:-1])
    name = path.parents[1].name if len(path.parts) == _CONFIG_PARTS else folder
    for selector in SELECTORS.values():
        for candidate in filter(None, (name, f"{name}/{path.stem}", folder)):
            if path.as_posix() in selector.files(candidate):
                return f"{selector.flag} {candidate}"
    return ""
