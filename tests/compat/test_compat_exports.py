"""Names and paths that are importable from `nemo_gym` itself."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palestra.compat import aliases, project

EXPORTS = {
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
        "AggregateMetrics",
        "AggregateMetricsRequest",
        "Domain",
        "ModelServerRef",
    ),
    "openai_utils": (
        "NeMoGymAsyncOpenAI",
        "NeMoGymChatCompletion",
        "NeMoGymChatCompletionCreateParamsNonStreaming",
        "NeMoGymResponse",
        "NeMoGymResponseCreateParamsNonStreaming",
    ),
    "server_utils": ("SESSION_ID_KEY", "ServerClient", "get_response_json", "raise_for_status"),
}


@pytest.fixture(autouse=True)
def _importable() -> None:
    aliases.install()


@pytest.fixture
def nemo_gym() -> Any:
    return importlib.import_module("nemo_gym")


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in EXPORTS.items() for name in names]
)
def test_the_package_exports_the_name_of_its_module(module: str, name: str, nemo_gym: Any) -> None:
    assert getattr(nemo_gym, name) is getattr(importlib.import_module(f"nemo_gym.{module}"), name)
    assert name in dir(nemo_gym)


def test_there_are_28_exports() -> None:
    assert sum(len(names) for names in EXPORTS.values()) == 28


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = (
        "import sys; from palestra.compat import aliases; aliases.install(); import nemo_gym; "
        "print([n for n in sys.modules if n.startswith('palestra.compat.nemo_gym.')])"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60)

    assert printed.strip() == "[]"


def test_root_dir_is_the_package_and_parent_dir_the_project(
    nemo_gym: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resources_servers" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "resources_servers" / "mine")

    assert Path(nemo_gym.__file__).parent == nemo_gym.ROOT_DIR
    assert tmp_path == nemo_gym.PARENT_DIR


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """An extra root, a working directory, and the project around it."""
    folders = {"extra": tmp_path / "extra", "project": tmp_path / "project"}
    folders["working"] = folders["project"] / "work"
    for folder in (*folders.values(), folders["project"] / "resources_servers"):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folders["working"])
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(folders["extra"]))
    return folders


def test_component_search_roots_has_the_extra_roots_first(
    roots: dict[str, Path], nemo_gym: Any
) -> None:
    assert nemo_gym.component_search_roots() == [
        roots["extra"],
        roots["working"],
        roots["project"],
    ]


@pytest.mark.parametrize("among", [["project"], ["working", "project"], ["extra", "working"]])
def test_resolve_under_cwd_or_install_takes_the_first_root_that_has_the_path(
    roots: dict[str, Path], nemo_gym: Any, among: list[str]
) -> None:
    for name in among:
        (roots[name] / "prompt.yaml").touch()

    found = nemo_gym._resolve_under_cwd_or_install("prompt.yaml")

    assert found == roots[among[0]] / "prompt.yaml"
    assert project.resolve(found) == found


def test_a_path_that_is_nowhere_is_one_of_the_working_directory(
    roots: dict[str, Path], nemo_gym: Any
) -> None:
    assert nemo_gym._resolve_under_cwd_or_install("x/y.yaml") == roots["working"] / "x/y.yaml"
