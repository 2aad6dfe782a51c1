"""The replacement for `import nemo_gym` when that package is not installed; also a pytest plugin.

    pytest -p palestra.compat.nemo_gym

makes `nemo_gym.*` and the servers of the project importable in tests, and runs `async def` tests.
The names that authors use most are also importable from the package itself. Their modules are
imported when the names are used.
"""

import importlib
from pathlib import Path
from typing import Any, Final

import palestra

__version__ = palestra.__version__
__package_name__ = "nemo_gym"

pytest_plugins = ("palestra.compat.pytest_plugin",)

ROOT_DIR: Final = Path(__file__).resolve().parent
"""The folder of this package. The project, with the servers' folders, is `PARENT_DIR`."""

EXPORTS: Final = {
    "base_resources_server": (
        "BaseResourcesServer",
        "BaseResourcesServerConfig",
        "BaseRunRequest",
        "BaseSeedSessionRequest",
        "BaseSeedSessionResponse",
        "BaseVerifyRequest",
        "BaseVerifyResponse",
        "ReverifyMode",
        "SimpleResourcesServer",
    ),
    "base_responses_api_agent": (
        "BaseResponsesAPIAgent",
        "BaseResponsesAPIAgentConfig",
        "SimpleResponsesAPIAgent",
    ),
    "base_responses_api_model": (
        "BaseResponsesAPIModel",
        "BaseResponsesAPIModelConfig",
        "SimpleResponsesAPIModel",
    ),
    "config_types": (
        "AgentServerRef",
        "AggregateMetrics",
        "AggregateMetricsRequest",
        "Domain",
        "ModelServerRef",
        "ResourcesServerRef",
    ),
    "openai_utils": (
        "NeMoGymAsyncOpenAI",
        "NeMoGymChatCompletion",
        "NeMoGymChatCompletionCreateParamsNonStreaming",
        "NeMoGymChatCompletionMessage",
        "NeMoGymChoice",
        "NeMoGymResponse",
        "NeMoGymResponseCreateParamsNonStreaming",
    ),
    "server_utils": (
        "SESSION_ID_KEY",
        "ServerClient",
        "get_response_json",
        "raise_for_status",
    ),
}
"""The names that are importable from the package itself, by the module that defines them."""


def component_search_roots() -> list[Path]:
    """Return the folders in which configs, prompts, data and skills are searched, in order: the
    extra roots of `NEMO_GYM_EXTRA_ROOTS`, the working directory, the project.
    """
    from palestra.compat import project

    return project.component_search_roots()


def _resolve_under_cwd_or_install(path: str | Path) -> Path:
    """Return the first existing path of `path` in `component_search_roots()`.

    When none exists: `path` in the working directory. An absolute path is returned unchanged.
    """
    from palestra.compat import project

    return project.resolve(path)


def __getattr__(name: str) -> Any:
    # Found when asked for: the project is the one that runs, not where this file is.
    from palestra.compat.project import root

    if name == "PARENT_DIR":
        return root()
    if name == "WORKING_DIR":
        return Path.cwd()
    if name in {"CACHE_DIR", "RESULTS_DIR"}:
        return root() / name.removesuffix("_DIR").lower()
    for module, names in EXPORTS.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module 'nemo_gym' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(
        {*globals(), "PARENT_DIR", *(name for names in EXPORTS.values() for name in names)}
    )
