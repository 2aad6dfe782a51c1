"""One folder of each kind that the field has: its suite passes unchanged, and its rows are scored."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from field_project import FOLDERS, MODEL, FieldFolder, copied_project, free_port, run_tests

from palestra.errors import ConfigError
from palestra.fleet import interpreter_for
from palestra.sandbox import Sandbox, SandboxSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

KINDS = pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_project(tmp_path_factory.mktemp("field") / "project")


@KINDS
def test_the_suite_of_a_folder_passes_unchanged(folder: FieldFolder, project: Path) -> None:
    place = project / folder.path
    python = asyncio.run(interpreter_for(place, cache=project / "cache" / "venvs"))

    ended = run_tests(place, python=python)

    assert f"{folder.passed} passed" in ended.stdout, ended.stdout + ended.stderr
    assert ended.returncode == 0


@KINDS
def test_every_row_of_a_folder_is_scored_or_a_typed_failure(
    folder: FieldFolder, project: Path, tmp_path: Path
) -> None:
    if folder.needs_isolation:
        _need_isolation()
    output = tmp_path / "rollouts.jsonl"
    if folder.split == "benchmark":
        _gym(project, "eval", "prepare", *folder.select)

    done = _gym(
        project,
        *("eval", "run", *folder.select, *MODEL, "--split", folder.split),
        *("--output", str(output), f"++head_server.port={free_port()}"),
        code=1 if folder.failed else 0,
    )

    rows = sorted(_rows(output), key=_place)
    assert tuple(row["reward"] for row in rows) == folder.rewards, done.stderr
    failures = _rows(output.with_name("rollouts_failures.jsonl"))
    assert [row["_ng_failure_class"] for row in failures] == ["agent_error"] * folder.failed


def test_the_requirements_of_a_folder_are_installed_for_it_alone(project: Path) -> None:
    folder = project / FOLDERS["requirements"].path

    python = asyncio.run(interpreter_for(folder, cache=project / "cache" / "venvs"))

    assert python != Path(sys.executable)
    assert asyncio.run(interpreter_for(folder.with_name("plain_match"), cache=project)) == Path(
        sys.executable
    )


def test_the_manifest_of_a_benchmark_of_the_field_is_valid(project: Path) -> None:
    _gym(project, "env", "validate", "capitals")


def _gym(project: Path, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    variables = {
        "PALESTRA_RUN_DIR": str(project / "run"),
        "PALESTRA_CACHE_DIR": str(project / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [Path(sys.executable).with_name("palestra"), "gym", *words],
        cwd=project,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _rows(path: Path) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["_ng_task_index"], row["_ng_rollout_index"]


def _need_isolation() -> None:
    """Skip where nothing isolates, unless it must, as on CI."""

    async def start() -> None:
        async with Sandbox(SandboxSettings(backend="bubblewrap")):
            pass

    try:
        asyncio.run(start())
    except ConfigError as error:
        if os.environ.get("PALESTRA_REQUIRE_SANDBOX"):
            raise
        pytest.skip(error.message)
