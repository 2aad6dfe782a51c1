"""Fleets that `ng_run` starts in a project in the style of the field."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from field_project import free_port


def ng_command(name: str, *arguments: str) -> list[str]:
    called = f"import sys; from palestra.cli.ng import {name}; sys.argv[0] = 'ng'; {name}()"
    return [sys.executable, "-B", "-c", called, *arguments]


@contextmanager
def running_fleet(
    project: Path, environment: dict[str, str], configs: Sequence[str], *overrides: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The override that leads to the head of a fleet that runs in `project`, and its process."""
    override = f"++head_server.port={free_port()}"
    fleet = subprocess.Popen(
        ng_command("run", f"+config_paths=[{','.join(configs)}]", override, *overrides),
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert fleet.stdout is not None
    said = []
    for line in fleet.stdout:  # ends with the process: the test's timeout bounds it
        said.append(line)
        if "servers ready!" in line:
            break
    else:
        pytest.fail("".join(said))
    yield override, fleet
    if fleet.poll() is None:
        fleet.send_signal(signal.SIGINT)
    fleet.communicate(timeout=20)
