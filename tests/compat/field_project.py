"""The project in the style of the field, and running its tests and its rows."""

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from local_wheels import write_wheel

FIELD = Path(__file__).parent / "field"
CONFIGS = (
    "responses_api_agents/loop_agent/configs/field.yaml",
    "responses_api_models/script_model/configs/script_model.yaml",
)
MODEL = ("--model-type", "script_model")
"""The flags that choose the model whose answers are in the rows."""

LENGTHS = """
METRES = {"km": 1000.0, "m": 1.0, "cm": 0.01}


def to_metres(text):
    number, _, unit = text.strip().partition(" ")
    if unit not in METRES:
        raise ValueError(f"no length: {text!r}")
    return float(number) * METRES[unit]
"""
"""The package that only the server `unit_lengths` requires."""


@dataclass(frozen=True)
class FieldFolder:
    """A folder of the field, its suite and its example rows."""

    path: str
    passed: int
    """How many tests its suite has."""
    rewards: tuple[float, ...]
    """The reward of each scored row, in the order of the rows."""
    select: tuple[str, ...]
    """The flags that choose its config."""
    split: str = "example"
    failed: int = 0
    """How many rows end as a failure."""
    needs_isolation: bool = False


def environment_folder(name: str, passed: int, rewards: tuple[float, ...]) -> FieldFolder:
    """A folder of `resources_servers`."""
    return FieldFolder(f"resources_servers/{name}", passed, rewards, ("--resources-server", name))


FOLDERS = {
    "plain verify": environment_folder("plain_match", 5, (1.0, 0.0, 1.0)),
    "tools with a session": environment_folder("counter_tools", 3, (1.0, 0.0)),
    "judge": environment_folder("judged_answers", 2, (1.0, 1.0)),
    "gymnasium": environment_folder("guess_number", 6, (0.75, -0.75)),
    "requirements": environment_folder("unit_lengths", 4, (1.0, 0.0)),
    "mcp": environment_folder("lookup_tools", 3, (1.0, 0.0)),
    "sandbox": FieldFolder(
        "resources_servers/shell_answers",
        7,
        (1.0, 1.0, 0.0),
        ("--resources-server", "shell_answers"),
        needs_isolation=True,
    ),
    "agent": FieldFolder(
        "responses_api_agents/loop_agent",
        3,
        (1.0, 1.0),
        ("--config", "responses_api_agents/loop_agent/configs/loop_agent.yaml"),
        failed=1,
    ),
    "model server": FieldFolder(
        "responses_api_models/script_model",
        6,
        (1.0,),
        ("--config", "responses_api_models/script_model/configs/script_model_rows.yaml"),
    ),
    "benchmark": FieldFolder(
        "benchmarks/capitals",
        4,
        (1.0, 1.0, 0.0, 0.0),
        ("--benchmark", "capitals"),
        split="benchmark",
    ),
}
"""One folder of each kind that the field has."""


def free_port() -> int:
    """A port that no program listens at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def copied_project(folder: Path) -> Path:
    """Copy the project to `folder`, with the wheel that one of its servers requires."""
    shutil.copytree(FIELD, folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    wheels = folder / "resources_servers" / "unit_lengths" / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "field_lengths", LENGTHS)
    return folder


def run_tests(
    folder: Path, *more: str, python: str | Path = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Pytest in `folder`, as a project there would call it, with our plugin."""
    plugin = ["-p", "palestra.compat.nemo_gym", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [python, "-B", "-m", "pytest", "-q", *plugin, f"--rootdir={folder}", *more],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
