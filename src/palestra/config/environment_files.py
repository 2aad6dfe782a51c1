"""An environment in one Python file, as a part of a configuration.

`shelf.py`, or `shelf.py:Shelf` where the file has several, stands for two instances: the resources
server `shelf` and its agent `shelf_agent`. The file is parsed here, but not imported.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from palestra.config.keys import RESERVED_KEYS
from palestra.config.resolved import InstanceConfig, ServerType
from palestra.errors import ConfigError

ENVIRONMENT_FILE: Final = "environment_file"
"""The resources server that runs an environment written as one file."""
ENVIRONMENT_AGENT: Final = "environment_agent"
"""Its agent: it runs tools, and takes turns where the environment does."""
POLICY: Final = "policy_model"
SETTINGS: Final = "settings"
_JUDGE: Final = "judge"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """What `shelf.py:Shelf` names: a file, and a class in it (empty: the only one)."""

    path: str
    class_name: str = ""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parts of `FILE.py` or `FILE.py:CLASS`; None when `text` names no Python file."""
        path, colon, class_name = text.rpartition(":")
        if not colon or not path.endswith(".py"):
            path, class_name = text, ""
        return cls(path, class_name) if path.endswith(".py") else None

    def __str__(self) -> str:
        return f"{self.path}:{self.class_name}" if self.class_name else self.path


def environment_tree(path: Path, class_name: str = "") -> dict[Any, Any]:
    """Return the configuration of the environment in the file `path`.

    Its dataset of type example is the file itself. Raises ConfigError: the file's name cannot be
    the name of an instance.
    """
    name = path.stem
    if name in RESERVED_KEYS or name == POLICY:
        raise ConfigError(
            f"{path}: an environment cannot be named {name}, which is a key of the configuration",
            hint="rename the file: its name is the environment's name",
        )
    settings: dict[str, Any] = {"entrypoint": "app.py", "path": str(path.absolute())}
    if class_name:
        settings["class_name"] = class_name
    if _asks_judge(path):
        settings["judge_model_server"] = {"type": ServerType.MODEL.value, "name": POLICY}
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": ServerType.RESOURCES.value, "name": name},
        "model_server": {"type": ServerType.MODEL.value, "name": POLICY},
        "datasets": [{"name": name, "type": "example", "jsonl_fpath": str(path.absolute())}],
    }
    return {
        name: {ServerType.RESOURCES.value: {ENVIRONMENT_FILE: settings}},
        f"{name}_agent": {ServerType.AGENT.value: {ENVIRONMENT_AGENT: agent}},
    }


def environment_of(instance: InstanceConfig) -> NamedFile | None:
    """Return the file of an environment's instance; None for any other instance."""
    path = instance.settings.get("path")
    if instance.implementation != ENVIRONMENT_FILE or not path:
        return None
    return NamedFile(str(path), str(instance.settings.get("class_name") or ""))


def file_server_settings(block: Any) -> Mapping[str, Any] | None:
    """Return the settings of the server of an environment in one file, from its top-level entry of a
    configuration; None for any other entry.
    """
    servers = block.get(ServerType.RESOURCES.value) if isinstance(block, Mapping) else None
    if not isinstance(servers, Mapping) or ENVIRONMENT_FILE not in servers:
        return None
    return servers[ENVIRONMENT_FILE] if isinstance(servers[ENVIRONMENT_FILE], Mapping) else {}


def _asks_judge(path: Path) -> bool:
    """Whether the file uses an attribute `judge`, such as `self.judge`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False  # its import says what is wrong
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return any(node.attr == _JUDGE for node in attributes)
