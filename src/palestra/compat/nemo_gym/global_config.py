"""`nemo_gym.global_config`: the resolved configuration of the fleet that this process serves.

A name `SOME_KEY_NAME` that this module does not define has the value `"some"`.
"""

import os
from typing import Any, Final

import yaml
from omegaconf import DictConfig, OmegaConf

from palestra.config import ConfigTree
from palestra.schema import AGENT_REF, ROLLOUT_INDEX, TASK_INDEX

TASK_INDEX_KEY_NAME: Final = TASK_INDEX
ROLLOUT_INDEX_KEY_NAME: Final = ROLLOUT_INDEX
ATTEMPT_INDEX_KEY_NAME: Final = "_ng_attempt_index"
ROLLOUT_ID_KEY_NAME: Final = "_ng_rollout_id"
AGENT_REF_KEY_NAME: Final = AGENT_REF
AGENT_REF_KEY: Final = AGENT_REF
SKILLS_REF_KEY_NAME: Final = "skills_ref"
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

_KEY_NAME = "_KEY_NAME"

# Authors ask for the configuration without saying of what; a process serves one fleet's.
_configs: list[DictConfig] = []


def set_global_config_dict(tree: ConfigTree) -> DictConfig:
    """Set `tree` as this process's configuration and return it."""
    config = OmegaConf.create(dict(tree))
    _configs[:] = [config]
    return config


def get_global_config_dict(*_arguments: Any, **_how: Any) -> DictConfig:
    """Return this process's configuration.

    Without one, it is read from the environment variable `NEMO_GYM_CONFIG_DICT`; empty when that is
    unset.
    """
    if _configs:
        return _configs[0]
    text = os.environ.get(NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME)
    return OmegaConf.create(yaml.safe_load(text) if text else {})


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
