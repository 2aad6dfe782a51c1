"""The configuration keys that have a fixed meaning."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from palestra.config.capture import CAPTURE_KEYS

RESERVED_KEYS: Final = frozenset(
    {
        # as in the field
        "config_paths",
        "default_host",
        "disallowed_ports",
        "dry_run",
        "entrypoint",
        "head_server",
        "head_server_deps",
        "hf_token",
        "nemo_gym_log_dir",
        "pip_install_verbose",
        "port_range_high",
        "port_range_low",
        "python_version",
        "ray_head_node_address",
        "skip_venv_if_present",
        "skip_verification",
        "skip_verification_reward",
        "use_absolute_ip",
        "uv_cache_dir",
        "uv_pip_set_python",
        "uv_venv_dir",
        "verbose",
        # ours, or read by ours
        "error_on_almost_servers",
        "fleet_token",
        "global_aiohttp_client_request_debug",
        "global_aiohttp_connector_limit",
        "global_aiohttp_connector_limit_per_host",
        "judge_api_key",
        "judge_base_url",
        "judge_model_name",
        "model_endpoint_readiness_timeout_seconds",
        "model_providers",
        "policy_api_key",
        "policy_base_url",
        "policy_model_name",
        "profiling_enabled",
        "profiling_results_dirpath",
        "start_timeout",
        *CAPTURE_KEYS,
    }
)
"""Top-level keys that are settings of the whole fleet, never a server instance."""

FLEET_KEYS: Final = frozenset(
    {
        "datasets",
        "description",
        "domain",
        "entrypoint",
        "host",
        "num_workers",
        "placement",
        "port",
        "value",
        "verified",
    }
)
"""Keys of an instance that describe or control how it runs. All other keys are the server's own."""


_NO_TRACKER: Final = "Palestra uploads no rollouts to Weights & Biases"
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "pass_threshold": "pass@k is the expected best reward, without a threshold",
    "upload_rollouts": _NO_TRACKER,
    "upload_rollouts_to_wandb": _NO_TRACKER,
    "wandb_api_key": _NO_TRACKER,
    "wandb_entity": _NO_TRACKER,
    "wandb_name": _NO_TRACKER,
    "wandb_project": _NO_TRACKER,
}
"""Settings of NeMo Gym that have no effect here -> the reason."""


class Domain(StrEnum):
    """The subject area of a resources server, such as math or coding."""

    MATH = "math"
    CODING = "coding"
    AGENT = "agent"
    KNOWLEDGE = "knowledge"
    INSTRUCTION_FOLLOWING = "instruction_following"
    LONG_CONTEXT = "long_context"
    SAFETY = "safety"
    GAMES = "games"
    TRANSLATION = "translation"
    E2E = "e2e"
    RLHF = "rlhf"
    OTHER = "other"


PLACEMENTS: Final = ("embedded", "process", "remote")

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_HEAD_PORT: Final = 11000
DEFAULT_PORT_RANGE: Final = (10001, 20000)
"""The first and the last port, both included, for servers without a configured port."""
