"""What others rely on: the names of the package and of the packages in it, its commands, and that
importing it is light.
"""

import ast
import importlib
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import palestra

REPOSITORY = Path(__file__).parents[1]
PACKAGE = Path(palestra.__file__).parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
RECORDED_NAMES = (REPOSITORY / "tests" / "public_names.txt").read_text().split()

WITHOUT_A_DOOR = {"resources_servers", "responses_api_agents", "responses_api_models", "compat"}
"""Packages of folders that are entered one by one: servers, and frameworks."""

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
    "viewer",
]


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


def test_the_names_an_author_imports_are_these() -> None:
    assert palestra.__all__ == [
        "Environment",
        "Limits",
        "Model",
        "Program",
        "ResourcesServer",
        "RewardRules",
        "Run",
        "Session",
        "ToolError",
        "__version__",
        "acollect",
        "aevaluate",
        "agents",
        "call",
        "collect",
        "compare",
        "environment",
        "environments",
        "evaluate",
        "merge",
        "models",
        "open_run",
        "runs",
        "scores",
        "tool",
    ]
    assert all(hasattr(palestra, name) for name in palestra.__all__)


def test_the_names_in_the_packages_doors_are_those_on_record() -> None:
    public_names = runpy.run_path(str(REPOSITORY / "scripts" / "public_names.py"))["public_names"]

    names = list(public_names(PACKAGE))
    assert names == RECORDED_NAMES, "a door changed; if on purpose: make names"


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] for name in RECORDED_NAMES}))
def test_every_name_in_a_door_leads_to_something(package: str) -> None:
    door = importlib.import_module(package)
    names = {name.rpartition(".")[2] for name in RECORDED_NAMES if name.startswith(f"{package}.")}

    assert sorted(names - set(dir(door))) == []


def imports_past_a_door() -> Iterator[str]:
    """Imports of a package's inner modules that another package makes."""
    for path in sorted(PACKAGE.rglob("*.py")):
        inside, *_ = path.relative_to(PACKAGE).parts
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palestra."):
                _, package, *inner = (node.module or "").split(".")
                if inner and package != inside and package not in WITHOUT_A_DOOR:
                    yield f"{path.relative_to(PACKAGE)}: {node.module}"


def test_a_package_is_entered_by_its_door() -> None:
    # `python -m palestra` is the console script, and `cli` offers nothing to anybody else.
    assert list(imports_past_a_door()) == ["__main__.py: palestra.cli.entry"]


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


@pytest.mark.slow
def test_a_server_process_starts_without_ray_and_statistics() -> None:
    assert modules_after("import palestra.fleet.worker") & {"ray", "numpy"} == set()


@pytest.mark.slow
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
    name = "palestra.compat.nemo_gym.sandbox"
    assert name in modules_after(f"import {name}")
