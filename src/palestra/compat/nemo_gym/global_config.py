"""`nemo_gym.global_config`: the resolved configuration of the fleet that this process serves.

Names of its keys that are not listed follow the rule `SOME_KEY_NAME = "some"`.
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
_held: list[DictConfig] = []


def set_global_config_dict(tree: ConfigTree) -> DictConfig:
    """Make `tree` the configuration that this process answers with."""
    config = OmegaConf.create(dict(tree))
    _held[:] = [config]
    return config


def get_global_config_dict(*_asked: Any, **_how: Any) -> DictConfig:
    """The configuration; of a process that serves no fleet, what its environment says, or none."""
    if _held:
        return _held[0]
    text = os.environ.get(NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME)
    return OmegaConf.create(yaml.safe_load(text) if text else {})


def get_first_server_config_dict(global_config_dict: Any, top_level_path: str) -> Any:
    """The settings of the instance `top_level_path`: below its server type and implementation."""
    by_type = global_config_dict[top_level_path]
    by_implementation = next(iter(by_type.values()))
    return next(iter(by_implementation.values()))


def find_open_port(*_how: Any, **_more: Any) -> int:
    """A port of this machine that nothing listens on."""
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def __getattr__(name: str) -> Any:
    if name.endswith(_KEY_NAME) and name.isupper():
        return name.removesuffix(_KEY_NAME).lower()
    raise AttributeError(f"module 'nemo_gym.global_config' has no attribute {name!r}")
