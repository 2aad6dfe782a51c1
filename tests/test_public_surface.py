"""What others rely on: the names of the package, its commands, and that importing it is light."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import palestra

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

COMMANDS = [
    "run",
    "status",
    "dump_config",
    "pip_list",
    "version",
    "help",
    "collect_rollouts",
    "e2e_collect_rollouts",
    "aggregate_rollouts",
    "reward_profile",
    "init_resources_server",
    "test",
    "test_all",
    "dev_test",
    "prepare_data",
    "materialize_prompts",
    "upload_dataset_to_hf",
    "download_dataset_from_hf",
    "upload_dataset_to_gitlab",
    "download_dataset_from_gitlab",
    "gitlab_to_hf_dataset",
    "delete_dataset_from_gitlab",
    "list_benchmarks",
    "prepare_benchmark",
]


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


def test_the_names_an_author_imports_are_these() -> None:
    assert palestra.__all__ == [
        "ResourcesServer",
        "RewardRules",
        "Session",
        "ToolError",
        "__version__",
        "environment",
        "tool",
    ]
    assert all(hasattr(palestra, name) for name in palestra.__all__)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_field_has_both_of_its_names(name: str) -> None:
    assert {f"ng_{name}", f"nemo_gym_{name}"} <= PROJECT["scripts"].keys()


def test_the_cluster_commands_have_their_names() -> None:
    assert {"nemo_gym_rollouts", "ns"} <= PROJECT["scripts"].keys()


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert modules_after("import palestra") & {"fastapi", "pydantic", "numpy", "aiohttp"} == set()


def test_the_command_line_starts_without_the_heavy_half() -> None:
    loaded = modules_after("import palestra.cli.main")

    assert loaded & {"fastapi", "pydantic", "numpy", "aiohttp", "omegaconf", "hydra"} == set()


def test_a_server_process_starts_without_ray_and_statistics() -> None:
    assert modules_after("import palestra.fleet.worker") & {"ray", "numpy"} == set()


def test_aiohttp_is_for_server_folders_of_the_field_alone() -> None:
    environments = "palestra.resources_servers"
    code = f"import palestra.fleet, {environments}.google_search.web, {environments}.openenv.app"

    assert "aiohttp" not in modules_after(code)


def test_without_aiohttp_such_a_folder_is_told_what_to_install() -> None:
    code = "import sys; sys.modules['aiohttp'] = None; import palestra.compat.http"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert "pip install 'palestra[nemo-gym]'" in done.stderr


def test_no_package_imports_its_program() -> None:
    # `python -m` would execute it a second time, and say so in the program's log.
    loaded = modules_after("import palestra.fleet, palestra.fleet.ray_clusters")

    assert loaded & {"palestra.fleet.worker", "palestra.fleet.ray_clusters.keeper"} == set()


def test_sandboxes_of_the_field_can_be_imported_alone() -> None:
    assert "palestra.compat.sandboxes" in modules_after("import palestra.compat.sandboxes")
