"""`nemo_gym.global_config`: the resolved configuration of the fleet that this process serves, and
the parser that resolves one.

A name `SOME_KEY_NAME` that this module does not define has the value `"some"`.
"""

import os
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml
from omegaconf import DictConfig, OmegaConf, flag_override
from pydantic import BaseModel, ConfigDict

from palestra.compat.project import around, resolve
from palestra.config import (
    ConfigTree,
    ResolvedConfig,
    allocate_ports,
    compose,
    load_config,
    read_settings,
    redact,
)
from palestra.schema import (
    AGENT_REF,
    ATTEMPT_INDEX,
    ROLLOUT_ID,
    ROLLOUT_INDEX,
    SKILLS_REF,
    TASK_INDEX,
)

TASK_INDEX_KEY_NAME: Final = TASK_INDEX
ROLLOUT_INDEX_KEY_NAME: Final = ROLLOUT_INDEX
ATTEMPT_INDEX_KEY_NAME: Final = ATTEMPT_INDEX
ROLLOUT_ID_KEY_NAME: Final = ROLLOUT_ID
AGENT_REF_KEY_NAME: Final = AGENT_REF
AGENT_REF_KEY: Final = AGENT_REF
SKILLS_REF_KEY_NAME: Final = SKILLS_REF
NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME: Final = "NEMO_GYM_CONFIG_DICT"
NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME: Final = "NEMO_GYM_CONFIG_PATH"
NEMO_GYM_RESERVED_TOP_LEVEL_KEYS: Final = (
    "config_paths",
    "entrypoint",
    "default_host",
    "head_server",
    "disallowed_ports",
)
DEFAULT_HEAD_SERVER_PORT: Final = 11000
OFFLINE_PORT: Final = -1
"""The port of every server in a configuration that was resolved offline."""

_KEY_NAME = "_KEY_NAME"

# Authors ask for the configuration without saying of what; a process serves one fleet's.
_configs: list[DictConfig] = []


class GlobalConfigDictParserConfig(BaseModel):
    """The options of `GlobalConfigDictParser`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    dotenv_path: Path | None = None
    """The file to read in place of `env.yaml`. It may be missing."""
    initial_global_config_dict: Any = None
    """Settings from code, a mapping. They override files, and the command line overrides them."""
    skip_load_from_cli: bool = False
    skip_load_from_dotenv: bool = False
    hide_secrets: bool = False
    """Whether to replace every secret by `****` in the result."""
    offline: bool = False
    """Whether to leave the machine alone: no port is tested, and every server gets the port -1."""

    NO_MODEL_GLOBAL_CONFIG_DICT: ClassVar[DictConfig] = OmegaConf.create(
        {
            "policy_base_url": "",
            "policy_api_key": "",
            "policy_model_name": "",
            "policy_model": {
                "responses_api_models": {"dummy_model": {"entrypoint": "app.py"}},
            },
        }
    )
    """Settings for a configuration that is read but not started, and so needs no model."""


class GlobalConfigDictParser:
    """Resolves a configuration: config files, composition directives, missing values, references
    and ports.
    """

    def parse(self, config: GlobalConfigDictParserConfig | None = None) -> DictConfig:
        """Return the configuration of the command line, `env.yaml` and the files that they name.

        Every server and the head server have a host and a port. Raises ConfigError, which lists
        every problem.
        """
        options = config or GlobalConfigDictParserConfig()
        return self._resolved(options, required=None)

    def parse_no_environment(self, initial_global_config_dict: Any = None) -> DictConfig:
        """Return the configuration of the given settings and the files that they name.

        Neither the command line nor `env.yaml` is read. Raises ConfigError.
        """
        options = GlobalConfigDictParserConfig(
            initial_global_config_dict=initial_global_config_dict,
            skip_load_from_cli=True,
            skip_load_from_dotenv=True,
        )
        return self.parse(options)

    def parse_incomplete(self, config: GlobalConfigDictParserConfig) -> DictConfig:
        """Return the same as `parse`, but settings without a value are empty texts, and references
        may lead nowhere.
        """
        return self._resolved(config, required=())

    def _resolved(
        self, options: GlobalConfigDictParserConfig, *, required: tuple[str, ...] | None
    ) -> DictConfig:
        initial = _plain(options.initial_global_config_dict)
        has_own_file = options.dotenv_path is not None
        if has_own_file and not options.skip_load_from_dotenv:
            initial = {**_read_dotenv(options.dotenv_path), **initial}
        project = around()
        if paths := initial.pop("config_paths", None):
            initial["config_paths"] = [_config_path(path, project) for path in paths]
        resolved = load_config(
            overrides=() if options.skip_load_from_cli else _overrides_of(sys.argv[1:]),
            extra=initial,
            cwd=project,
            use_env_yaml=not (options.skip_load_from_dotenv or has_own_file),
            need_folders=False,
            required=required,
        )
        tree = _with_addresses(resolved, offline=options.offline)
        return OmegaConf.create(redact(tree, resolved.secrets) if options.hide_secrets else tree)

    def _recursively_swap_keys(self, cfg: DictConfig) -> None:
        """Carry out the composition directives of `cfg` in place: `_inherit_from`, `_copy`,
        `${inherit_from:…}`, `${copy:…}` and `_delete_key`.
        """
        composed = compose(_plain(cfg)).tree
        with flag_override(cfg, ["readonly", "struct"], [False, False]):
            for key in list(cfg):
                del cfg[key]
            for key, value in composed.items():
                cfg[key] = value


def _overrides_of(arguments: list[str]) -> tuple[str, ...]:
    """Return the overrides of a command line: `key=value` with or without a plus, and `~key`."""
    return tuple(a for a in arguments if a[:1] != "-" and ("=" in a or a[:1] == "~"))


def _config_path(path: str, project: Path) -> str:
    """Return `path` unchanged when it is in the project, else where it is."""
    return path if (project / path).exists() else str(resolve(path))


def _read_dotenv(path: Path | None) -> dict[Any, Any]:
    if path is None or not path.is_file():
        return {}
    return dict(yaml.safe_load(path.read_text()) or {})


def _plain(config: Any) -> dict[Any, Any]:
    if isinstance(config, DictConfig):
        config = OmegaConf.to_container(config, resolve=False)
    return dict(config or {})


def _with_addresses(config: ResolvedConfig, *, offline: bool) -> dict[str, Any]:
    """Return the tree of `config`, with host and port of each server and of the head server."""
    tree: dict[str, Any] = deepcopy(dict(config.tree))
    ports = dict.fromkeys(config.instances, OFFLINE_PORT) if offline else allocate_ports(config)
    for name, instance in config.instances.items():
        settings = tree[name][str(instance.type)][instance.implementation]
        settings["host"] = instance.host
        settings["port"] = ports[name] if instance.port is None else instance.port
    host = tree.get("default_host") or "127.0.0.1"
    head_server = tree.get("head_server")
    address = head_server if isinstance(head_server, Mapping) else {}
    tree["head_server"] = {"host": host, "port": DEFAULT_HEAD_SERVER_PORT, **address}
    return tree


def set_global_config_dict(tree: ConfigTree) -> DictConfig:
    """Set `tree` as this process's configuration and return it."""
    config = OmegaConf.create(dict(tree))
    _configs[:] = [config]
    return config


def maybe_get_global_config_dict() -> DictConfig | None:
    """Return this process's configuration; None when it has none.

    A configuration in the environment variable `NEMO_GYM_CONFIG_DICT` becomes this process's. The
    command line is never read.
    """
    if not _configs and (text := os.environ.get(NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME)):
        set_global_config_dict(yaml.safe_load(text))
    return _configs[0] if _configs else None


def get_global_config_dict(
    global_config_dict_parser_config: GlobalConfigDictParserConfig | None = None,
    global_config_dict_parser_cls: type[GlobalConfigDictParser] = GlobalConfigDictParser,
) -> DictConfig:
    """Return this process's configuration.

    Without one, it is parsed with the given options, and kept; without options it is empty.
    """
    config = maybe_get_global_config_dict()
    if config is not None:
        return config
    if global_config_dict_parser_config is None:
        return OmegaConf.create({})
    return set_global_config_dict(
        _plain(global_config_dict_parser_cls().parse(global_config_dict_parser_config))
    )


def get_hf_token() -> str | None:
    """Return the setting `hf_token` of this process's configuration; None when it is not set.

    In a process without configuration, `env.yaml` and the files that it names are read, and never
    the command line or the variable `HF_TOKEN`.
    """
    config = maybe_get_global_config_dict()
    settings = read_settings(["hf_token"]) if config is None else config
    token = settings.get("hf_token")
    return str(token) if token else None


def get_first_server_config_dict(global_config_dict: Any, top_level_path: str) -> Any:
    """Return the settings of the instance `top_level_path`, which lie below its server type and
    implementation.
    """
    by_type = global_config_dict[top_level_path]
    by_implementation = next(iter(by_type.values()))
    return next(iter(by_implementation.values()))


def find_open_port(*_how: Any, **_options: Any) -> int:
    """Return a free port of this machine."""
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def __getattr__(name: str) -> Any:
    if name.endswith(_KEY_NAME) and name.isupper():
        return name.removesuffix(_KEY_NAME).lower()
    raise AttributeError(f"module 'nemo_gym.global_config' has no attribute {name!r}")
