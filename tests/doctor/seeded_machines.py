"""Faults of the machine: disks, limits, ports, packages, processes."""

import contextlib
import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest
from seeded_faults import Steps, many_tasks, seeded
from seeded_world import (
    World,
    task,
)


@contextlib.contextmanager
def small_disk(world: World, size: int) -> Iterator[None]:
    """The output's folder is a file system of `size` bytes."""
    folder = world.output.parent
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@seeded("infra.disk-full", "No space left on device")
def a_disk_that_fills(world: World) -> Steps:
    many_tasks(world)
    with small_disk(world, 65536):
        yield world.collect()
        remount = ["mount", "-o", "remount,size=8m", str(world.output.parent)]
        subprocess.run(remount, check=True)
        yield world.collect(resume_from_cache=True)


@seeded("infra.file-too-large", "File too large")
def a_limit_on_the_size_of_files(world: World) -> Steps:
    many_tasks(world)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        done = world.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    yield done
    yield world.collect(resume_from_cache=True)


@seeded("infra.port-in-use", "cannot listen on")
def a_port_that_another_holds(world: World) -> Steps:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        at = "++seeded_env.resources_servers.seeded_env"
        yield world.collect(f"{at}.placement=process", f"{at}.port={port}")
    yield world.collect()


@seeded("infra.not-writable", "cannot write to")
def an_output_in_a_folder_that_takes_none(world: World) -> Steps:
    yield world.collect(output_jsonl_fpath="/proc/nowhere/run.jsonl")
    yield world.collect()


@seeded("infra.not-installed", "nonesuch_lib")
def a_module_that_is_missing(world: World) -> Steps:
    app = "resources_servers/seeded_env/app.py"
    world.edit(app, "import math\n", "import math\nimport nonesuch_lib\n")
    yield world.collect()
    (world.folder / "resources_servers/seeded_env/nonesuch_lib.py").write_text("")
    world.edit(app, "import nonesuch_lib\n", "")
    yield world.collect()


@seeded("infra.no-sandbox", "sandbox service")
def a_sandbox_service_that_is_gone(world: World) -> Steps:
    code_gen = (
        "+config_paths=[configs/seeded.yaml,resources_servers/code_gen/configs/code_gen.yaml]"
    )
    os.environ.update(NEMO_SKILLS_SANDBOX_HOST="127.0.0.1", NEMO_SKILLS_SANDBOX_PORT="9")
    try:
        yield world.collect(code_gen)
    finally:
        del os.environ["NEMO_SKILLS_SANDBOX_HOST"], os.environ["NEMO_SKILLS_SANDBOX_PORT"]
    yield world.collect()


@seeded("infra.server-killed", "SIGKILL")
def a_server_that_is_killed(world: World) -> Steps:
    world.write("tasks.jsonl", [task("is killed")])
    yield world.collect("++seeded_env.resources_servers.seeded_env.placement=process")
    world.write("tasks.jsonl", [task()])
    yield world.collect(overwrite=True)
