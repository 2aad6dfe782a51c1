"""Servers that use Ray themselves, on a real Ray of this machine."""

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fleet_world import free_port

from palestra.fleet.ray_clusters.place import RayPlace
from ray_programs import MARK, ray_folder, started_with

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

FIRST = """
import ray
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer

def half(number):
    return number / 2

@ray.remote
def spread(number):
    return half(number), ray.get_runtime_context().gcs_address

class First(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        reward, address = await spread.remote(1)
        named = self.server_client.tree["ray_head_node_address"]
        return self.reply(body, reward, address=address, named=named)
"""
LATE = """
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer

class Late(ResourcesServer):
    def verify(self, body: VerifyRequest) -> VerifyResponse:
        import ray

        address = ray.get(ray.remote(lambda: ray.get_runtime_context().gcs_address).remote())
        return self.reply(body, 0.5, address=address, named=address)
"""
PLAIN = """
import importlib.util
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer

assert importlib.util.find_spec("ray")

class Plain(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 0.5)
"""
BODY = {
    "responses_create_params": {"input": "hello"},
    "response": {"id": "r", "created_at": 0, "model": "m", "output": []},
}


class Servers:
    """A running `ng_run`, and what its servers answer."""

    def __init__(self, process: subprocess.Popen[str], head: str) -> None:
        self.process = process
        self._head = head

    def verified(self, name: str) -> dict[str, Any]:
        (url,) = [
            i["urls"][0] for i in _asked(self._head, "/server_instances") if i["name"] == name
        ]
        answer: dict[str, Any] = _asked(url, "/verify", BODY)
        return answer

    def configuration(self) -> str:
        text: str = _asked(self._head, "/global_config_dict_yaml")
        return text


def _asked(url: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=100) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        pytest.fail(error.read().decode())


def ng_run(work: Path, *overrides: str) -> list[str]:
    called = "import sys; from palestra.cli.ng import run; sys.argv[0] = 'ng_run'; run()"
    return [sys.executable, "-c", called, *overrides]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name, text in {"first": FIRST, "late": LATE, "plain": PLAIN}.items():
        folder = tmp_path / "resources_servers" / name
        folder.mkdir(parents=True)
        (folder / "app.py").write_text(text)
        (tmp_path / f"{name}.yaml").write_text(
            f"{name}: {{resources_servers: {{{name}: {{domain: other}}}}}}\n"
        )
    return tmp_path


@contextmanager
def fleet(
    work: Path, folder: str, names: str, *overrides: str, **variables: str
) -> Iterator[Servers]:
    port = free_port()
    paths = ",".join(f"{name}.yaml" for name in names.split())
    environment = {**os.environ, MARK: folder, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
    environment |= variables
    environment |= {"PALESTRA_RUN_DIR": str(work / "run"), "PALESTRA_CACHE_DIR": str(work)}
    overrides = (f"+config_paths=[{paths}]", f"++head_server.port={port}", *overrides)
    process = subprocess.Popen(
        ng_run(work, *overrides),
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed = []
        for line in process.stdout or ():
            printed.append(line)
            if "servers ready!" in line:
                break
        else:
            if "Ray cluster for this fleet did not start" in "".join(printed):
                pytest.skip("Ray itself did not start")
            pytest.fail("".join(printed))
        yield Servers(process, f"http://127.0.0.1:{port}")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_servers_that_import_ray_share_a_cluster_which_ends_with_their_fleet(work: Path) -> None:
    with ray_folder() as folder:
        with fleet(work, folder, "first late plain") as own:
            first, late = own.verified("first"), own.verified("late")
            address = first["address"]
            assert (first["reward"], late["reward"]) == (0.5, 0.5)
            assert {first["named"], late["address"]} == {address}
            assert f"ray_head_node_address: {address}" in own.configuration()

            named = f"++ray_head_node_address={address}"
            with fleet(work, folder, "first", named, RAY_AUTH_MODE="token") as guest:
                assert guest.verified("first")["address"] == address
            assert own.verified("first")["address"] == address

            own.process.kill()
        until = time.monotonic() + 30
        while started_with(folder) and time.monotonic() < until:
            time.sleep(0.1)
        assert started_with(folder) == []
        assert list(Path(folder).iterdir()) == []


def test_a_fleet_that_only_looks_for_ray_starts_none(work: Path) -> None:
    with ray_folder() as folder, fleet(work, folder, "plain") as servers:
        assert servers.verified("plain")["reward"] == 0.5
        assert list(Path(folder).iterdir()) == []
        assert "ray_head_node_address" not in servers.configuration()


@pytest.mark.parametrize("port", [None, "", ":", ":http"])
def test_an_address_that_does_not_answer_ends_the_command_before_a_server_starts(
    work: Path, port: str | None
) -> None:
    address = "127.0.0.1" + (f":{free_port()}" if port is None else port)

    done = subprocess.run(
        ng_run(work, "+config_paths=[first.yaml]", f"++ray_head_node_address={address}"),
        cwd=work,
        env={**os.environ, "PALESTRA_RUN_DIR": str(work / "run")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert f"the Ray cluster at {address} cannot be used" in done.stderr
    assert "[first]" not in done.stderr


class Importing:
    """A module `ray` whose import waits: the fake reaches it as `ray_import`."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importing]:
    (tmp_path / "ray.py").write_text(
        "import ray_import\n"
        "ray_import.began.set()\n"
        "ray_import.may_end.wait(20)\n"
        "def is_initialized():\n"
        "    return True\n"
    )
    made: Any = Importing()
    others = {name for name in sys.modules if name.partition(".")[0] == "ray"}
    for name in others:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray_import", made)
    monkeypatch.syspath_prepend(tmp_path)
    yield made
    sys.modules.pop("ray", None)


def test_a_server_waits_for_ray_which_another_one_is_importing(importing: Importing) -> None:
    async def connect() -> None:
        first = asyncio.create_task(asyncio.to_thread(importlib.import_module, "ray"))
        await asyncio.to_thread(importing.began.wait, 20)
        second = asyncio.create_task(
            RayPlace.of_fleet({"ray_head_node_address": "x"}).connect(None)
        )
        await asyncio.sleep(0)
        assert not second.done()
        importing.may_end.set()
        await asyncio.gather(first, second)

    asyncio.run(connect())
