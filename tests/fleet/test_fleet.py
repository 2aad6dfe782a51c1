"""One fleet, wherever its servers live: the same rollout, and nothing left behind."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from fleet_world import (
    ENVIRONMENT_APP,
    FLEET,
    X_ALONE,
    Project,
    children_of,
    eventually,
    exists,
    free_port,
    is_listening,
    ports_of,
    rollout,
    starting,
    without_pid,
)

from local_wheels import write_wheel
from palestra.config import ResolvedConfig
from palestra.errors import ConfigError, ServerDied
from palestra.fleet import EMBEDDED, PROCESS, REMOTE, Fleet, InstanceState
from palestra.fleet.orders import WorkOrder
from palestra.fleet.sockets import listen
from palestra.transport import HttpClient, HttpRequest, worker_cookie

X = "x.resources_servers.x"
AGENT = "agent.responses_api_agents.simple_agent"


async def ran(config: ResolvedConfig, placement: str = EMBEDDED) -> dict[str, Any]:
    """One rollout's result; leaving the fleet must leave nothing."""
    before = children_of(os.getpid())
    async with Fleet(config, default_placement=placement) as fleet:
        result = await rollout(fleet)
        ports = ports_of(fleet)
    assert not any(is_listening(port) for port in ports)
    assert children_of(os.getpid()) <= before
    return without_pid(result)


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def refused(config: ResolvedConfig, placement: str = EMBEDDED) -> Exception:
    """What starting the fleet raises; nothing may be left of it."""

    async def start() -> None:
        async with Fleet(config, default_placement=placement):
            pytest.fail("it started")

    before = children_of(os.getpid())
    with pytest.raises((ConfigError, ServerDied)) as caught:
        asyncio.run(start())
    assert children_of(os.getpid()) <= before
    return caught.value


def test_an_embedded_fleet_runs_a_rollout_without_a_socket(project: Project) -> None:
    async def run() -> tuple[dict[str, Any], list[int]]:
        async with Fleet(project.load()) as fleet:
            return await rollout(fleet), ports_of(fleet)

    result, ports = asyncio.run(run())

    assert (result["reward"], result["total"]) == (1.0, 42)
    assert [item["type"] for item in result["response"]["output"]] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    assert result["response"]["usage"]["total_tokens"] == 4
    assert result["pid"] == os.getpid()
    assert ports == []


def test_a_later_fleet_of_the_same_process_runs_the_edited_file(project: Project) -> None:
    before = asyncio.run(ran(project.load()))
    project.environment(ENVIRONMENT_APP.replace("float(right)", "0.25 * right"))
    after = asyncio.run(ran(project.load()))

    assert (before["reward"], after["reward"]) == (1.0, 0.25)


def test_a_fleet_of_processes_serves_its_embedded_servers_to_commands_beside_it(
    project: Project,
) -> None:
    async def run() -> list[int]:
        config = project.load(X_ALONE, f"++{X}.placement=embedded")
        async with Fleet(config, default_placement=PROCESS) as fleet:
            return [port for port in ports_of(fleet) if is_listening(port)]

    assert len(asyncio.run(run())) == 1


@pytest.mark.slow
def test_servers_in_processes_give_the_same_rollout(project: Project) -> None:
    config = project.load()

    assert asyncio.run(ran(config, PROCESS)) == asyncio.run(ran(config))


@pytest.mark.slow
def test_the_command_line_of_a_server_process_names_its_instance(project: Project) -> None:
    async def run() -> list[str]:
        async with Fleet(project.load(X_ALONE), default_placement=PROCESS) as fleet:
            return command_line(fleet.instances["x"].pid or 0)

    assert asyncio.run(run())[-2:] == ["palestra.fleet.worker", "x"]


@pytest.mark.slow
def test_an_agent_in_a_process_reaches_an_embedded_environment(project: Project) -> None:
    mixed = project.load(FLEET, f"++{AGENT}.placement=process")

    assert asyncio.run(ran(mixed)) == asyncio.run(ran(project.load()))


@pytest.mark.slow
def test_an_environment_in_a_process_serves_an_embedded_agent(project: Project) -> None:
    mixed = project.load(FLEET, f"++{X}.placement=process")

    assert asyncio.run(ran(mixed)) == asyncio.run(ran(project.load()))


@pytest.mark.slow
def test_a_remote_environment_gives_the_same_rollout(project: Project) -> None:
    async def run() -> dict[str, Any]:
        async with Fleet(project.load(X_ALONE), default_placement=PROCESS) as other:
            [port] = ports_of(other)
            remote = (f"++{X}.placement=remote", f"++{X}.host=127.0.0.1", f"++{X}.port={port}")
            async with Fleet(project.load(FLEET, *remote)) as fleet:
                assert fleet.instances["x"].placement == REMOTE
                return await rollout(fleet)

    assert without_pid(asyncio.run(run())) == asyncio.run(ran(project.load()))


@pytest.mark.slow
def test_two_workers_share_the_load_and_keep_their_sessions(project: Project) -> None:
    async def run() -> list[dict[str, Any]]:
        async with Fleet(project.load(FLEET, f"++{X}.num_workers=2")) as fleet:
            assert fleet.instances["x"].placement == PROCESS
            assert len(fleet.instances["x"].urls) == 2
            return await asyncio.gather(*(rollout(fleet, start) for start in range(24)))

    results = asyncio.run(run())

    assert [(result["reward"], result["total"]) for result in results] == [
        (1.0, start + 2) for start in range(24)
    ]
    assert len({result["pid"] for result in results}) == 2


async def by_cookies(fleet: Fleet, start: int) -> tuple[int, str]:
    """One rollout's session, continued by its cookies alone: its total, and what served it."""
    client = fleet.client
    reply = await client.post("x", "/seed_session", json={"start": start})
    cookies = reply.cookies
    for amount in (1, 2):
        reply = await client.post("x", "/add", json={"amount": amount}, cookies=cookies)
        cookies |= reply.cookies
    return int((await reply.text()).removeprefix("the total is ")), cookies[worker_cookie("x")]


@pytest.mark.slow
def test_two_hundred_sessions_of_three_workers_go_on_by_cookies_alone(project: Project) -> None:
    async def run() -> list[tuple[int, str]]:
        async with Fleet(project.load(X_ALONE, f"++{X}.num_workers=3")) as fleet:
            return await asyncio.gather(*(by_cookies(fleet, 100 * n) for n in range(200)))

    found = asyncio.run(run())

    assert [total for total, _ in found] == [100 * n + 3 for n in range(200)]
    assert {worker for _, worker in found} == {"0", "1", "2"}


@pytest.mark.slow
def test_an_agent_s_loop_continues_a_session_of_three_workers(project: Project) -> None:
    async def turn(fleet: Fleet, start: int) -> str:
        seeded = await fleet.client.post("x", "/seed_session", json={"start": start})
        asked = {"input": "Add."}
        reply = await fleet.client.post(
            "agent", "/v1/responses", json=asked, cookies=seeded.cookies
        )
        output = (await reply.json())["output"]
        return str(output[-1]["content"][0]["text"])

    async def run() -> list[str]:
        config = project.load(FLEET, f"++{X}.num_workers=3")
        async with Fleet(config, default_placement=PROCESS) as fleet:
            return await asyncio.gather(*(turn(fleet, 10 * n) for n in range(30)))

    assert asyncio.run(run()) == [f"the total is {10 * n + 2}" for n in range(30)]


@pytest.mark.slow
def test_a_session_that_strays_to_another_worker_is_said_to_have(project: Project) -> None:
    async def run() -> Any:
        async with Fleet(project.load(X_ALONE, f"++{X}.num_workers=2")) as fleet:
            seeded = await fleet.client.post("x", "/seed_session", json={"start": 1})
            held = int(seeded.cookies[worker_cookie("x")])
            url = fleet.instances["x"].urls[1 - held]
            body = b'{"amount": 1}'
            request = HttpRequest("POST", url + "/add", body=body, cookies=seeded.cookies)
            return held, await fleet.client.http.send(request)

    held, reply = asyncio.run(run())
    error = orjson.loads(reply.body)["error"]

    assert error["type"] == "infra_error"
    assert f"belongs to worker {held} of x, but another worker" in error["message"]


@pytest.mark.slow
def test_leaving_a_fleet_of_processes_takes_less_than_the_five_seconds_promised(
    project: Project,
) -> None:
    async def run() -> float:
        async with Fleet(project.load(), default_placement=PROCESS):
            started = time.monotonic()
        return time.monotonic() - started

    assert asyncio.run(run()) < 5


# Dying


@pytest.mark.slow
def test_a_killed_server_is_named_with_its_signal_and_its_last_lines(project: Project) -> None:
    lines: list[tuple[str, str]] = []

    async def run() -> None:
        config = project.load(X_ALONE, f"++nemo_gym_log_dir={project.path / 'logs'}")
        fleet = Fleet(
            config, default_placement=PROCESS, on_line=lambda who, line: lines.append((who, line))
        )
        async with fleet:
            os.kill(fleet.instances["x"].pid or 0, signal.SIGKILL)
            try:
                async with asyncio.timeout(10):
                    await fleet.watch()
            finally:
                assert fleet.instances["x"].state is InstanceState.DEAD
                assert fleet.instances["x"].reason == "signal SIGKILL"

    key = "sk-very-secret-1234"
    project.environment(starting(f"print('x is here with {key}', flush=True)"))
    with pytest.raises(ServerDied, match="server x ended with signal SIGKILL") as caught:
        asyncio.run(run())

    log = (project.path / "logs" / "x.log").read_text()
    said = [caught.value.message, log, "\n".join(line for _, line in lines)]
    assert all("x is here with" in text for text in said)
    assert not any(key in text for text in said)
    assert "out-of-memory" in caught.value.hint


@pytest.mark.parametrize("placement", [EMBEDDED, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_a_server_that_raises_at_start_is_named_with_its_message(
    project: Project, placement: str
) -> None:
    project.environment(starting("raise RuntimeError('no database at db:5432')"))
    error = refused(project.load(X_ALONE), placement)

    assert isinstance(error, ServerDied)
    assert error.message.startswith("x could not start: RuntimeError: no database at db:5432, at ")
    assert re.search(r"resources_servers/x/app\.py:\d+ in start$", error.message)


@pytest.mark.parametrize("placement", [EMBEDDED, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_a_server_that_raises_when_it_is_made_is_named_with_its_line(
    project: Project, placement: str
) -> None:
    made = "    def model_post_init(self, context):\n        raise KeyError('no such table')\n"
    project.environment(ENVIRONMENT_APP + "\n" + made)
    error = refused(project.load(X_ALONE), placement)

    line = len((ENVIRONMENT_APP + "\n" + made).splitlines())
    assert error.message.startswith("x could not start: KeyError: 'no such table', at ")
    assert error.message.endswith(f"resources_servers/x/app.py:{line} in model_post_init")
    assert error.hint == "correct that line of the server's code"


@pytest.mark.parametrize("placement", [EMBEDDED, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_a_server_that_is_never_ready_ends_with_the_start_deadline(
    project: Project, placement: str
) -> None:
    project.environment(starting("import asyncio; await asyncio.Event().wait()"))
    error = refused(project.load(X_ALONE, "++start_timeout=0.5"), placement)

    assert isinstance(error, ServerDied)
    assert error.message == "x was not ready within 0.5 s"


@pytest.mark.slow
@pytest.mark.parametrize("placement", [EMBEDDED, PROCESS])
def test_an_import_that_does_not_end_is_told_with_its_line(
    project: Project, placement: str
) -> None:
    text = (
        f"{ENVIRONMENT_APP}\nimport time\nuntil = time.time() + 9\nwhile time.time() < until: pass"
    )
    project.environment(text)
    error = refused(project.load(X_ALONE, "++start_timeout=4"), placement)

    assert isinstance(error, ServerDied)
    assert error.file.endswith("resources_servers/x/app.py")
    assert error.line == len(text.splitlines())


def test_an_app_that_cannot_be_made_is_found_before_any_row(project: Project) -> None:
    broken = "    def setup_webserver(self):\n        raise KeyError('a route')\n"
    project.environment(ENVIRONMENT_APP + "\n" + broken)

    assert "x could not start: KeyError: 'a route'" in str(refused(project.load(X_ALONE)))


@pytest.mark.parametrize("placement", [EMBEDDED, pytest.param(PROCESS, marks=pytest.mark.slow)])
def test_a_server_that_exits_when_it_is_made_is_named_with_its_line(
    project: Project, placement: str
) -> None:
    made = "    def model_post_init(self, context):\n        raise SystemExit('no data')\n"
    project.environment(ENVIRONMENT_APP + "\n" + made)
    error = refused(project.load(X_ALONE), placement)

    line = len((ENVIRONMENT_APP + "\n" + made).splitlines())
    assert error.message.startswith("x could not start: SystemExit: no data, at ")
    assert error.message.endswith(f"resources_servers/x/app.py:{line} in model_post_init")


def test_a_setup_webserver_without_its_app_is_named_with_its_line(project: Project) -> None:
    project.environment(ENVIRONMENT_APP + "\n    def setup_webserver(self):\n        pass\n")
    error = refused(project.load(X_ALONE))

    line = (ENVIRONMENT_APP + "\n").count("\n") + 1
    assert f"app.py:{line}: setup_webserver returned None" in error.message
    assert isinstance(error, ConfigError)


@pytest.mark.slow
def test_wrong_settings_are_said_by_the_process_that_reads_them(project: Project) -> None:
    error = refused(project.load(X_ALONE, f"++{X}.colour=red"), PROCESS)

    assert "x: colour is not a setting" in str(error)
    assert "Traceback" not in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("placement", [PROCESS, EMBEDDED])
def test_wrong_settings_of_a_file_are_said_with_their_line(
    project: Project, placement: str
) -> None:
    error = refused(project.load(X_ALONE.replace("x: {}", "x:\n      colour: red")), placement)

    assert "/x.yaml:5: x: colour is not a setting" in str(error)


def test_an_order_has_the_files_of_the_settings() -> None:
    order = WorkOrder(
        "x", {}, {}, 3, "s", "t", None, None, "", {"a": "a.yaml"}, "b.yaml", {"a": ("c.yaml", "d")}
    )

    decoded = WorkOrder.decode(order.encode())

    assert (decoded.setting_files, decoded.file) == ({"a": "a.yaml"}, "b.yaml")
    assert [*decoded.setting_references["a"]] == ["c.yaml", "d"]


def test_a_wrong_setting_of_an_embedded_server_is_a_config_error(project: Project) -> None:
    error = refused(project.load(X_ALONE, f"++{X}.colour=red"))

    assert isinstance(error, ConfigError)
    assert "x: colour is not a setting" in error.message


@pytest.mark.slow
def test_one_that_fails_stops_those_that_already_run(project: Project) -> None:
    project.environment(starting("raise RuntimeError('no')"))
    ports = {"policy_model.responses_api_models.scripted": free_port(), AGENT: free_port()}
    overrides = [f"++{path}.port={port}" for path, port in ports.items()]
    refused(project.load(FLEET, *overrides), PROCESS)

    assert not any(is_listening(port) for port in ports.values())


PARENT = """
import asyncio, sys
from palestra.config import load_config
from palestra.fleet import PROCESS, Fleet

async def main():
    config = load_config(config_paths=["resources_servers/x/configs/x.yaml"])
    async with Fleet(config, default_placement=PROCESS) as fleet:
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_killed_parent_leaves_no_server(project: Project) -> None:
    project.load()
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    try:
        assert parent.stdout.readline() == "ready\n"
        servers = children_of(parent.pid)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()

    assert len(servers) == 3
    assert asyncio.run(eventually(lambda: not any(exists(pid) for pid in servers)))


# Ports, hosts and environments


def test_a_busy_port_names_its_holder_and_leaves_no_socket(project: Project) -> None:
    with listen("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        exposed = (f"++{X}.port={port}", f"++{X}.placement=process")
        error = refused(project.load(FLEET, *exposed))

    assert isinstance(error, ConfigError)
    assert f"x cannot listen on 127.0.0.1:{port}" in error.message
    assert f"process {os.getpid()} (" in error.message


@pytest.mark.parametrize("port", ["", "++{}.port=12345"])
def test_a_host_that_is_not_this_machine_blames_no_program(project: Project, port: str) -> None:
    host = (f"++{X}.host=192.0.2.1", f"++{X}.placement=process", "++fleet_token=t", port.format(X))
    error = refused(project.load(FLEET, *filter(None, host)))

    assert isinstance(error, ConfigError)
    assert "x cannot listen on 192.0.2.1:" in error.message
    assert error.hint.startswith("`host` (or default_host) must be an address of this machine")


def test_a_host_that_others_reach_is_refused_without_a_token(project: Project) -> None:
    error = refused(project.load(X_ALONE, f"++{X}.host=0.0.0.0"))

    assert "not on loopback, and no token to protect it: x (0.0.0.0)" in str(error)


@pytest.mark.slow
def test_a_host_that_others_reach_is_protected_by_the_fleet_s_token(project: Project) -> None:
    async def run() -> tuple[int, int]:
        options = (f"++{X}.host=0.0.0.0", "++fleet_token=tok-1234567890")
        async with Fleet(project.load(X_ALONE, *options), default_placement=PROCESS) as fleet:
            [announced] = fleet.instances["x"].urls
            assert "0.0.0.0" not in announced
            inside = await fleet.client.post("x", "/seed_session", json={"start": 1})
            http = HttpClient()
            url = f"http://127.0.0.1:{ports_of(fleet)[0]}/seed_session"
            outside = await http.send(HttpRequest("POST", url, body=b'{"start": 1}'))
            await http.aclose()
            return inside.status, outside.status

    assert asyncio.run(run()) == (200, 401)


def test_a_folder_whose_requirements_are_satisfied_runs_here(project: Project) -> None:
    project.write("resources_servers/x/requirements.txt", "pydantic>=2\n")

    assert asyncio.run(ran(project.load()))["reward"] == 1.0


@pytest.mark.slow
def test_a_folder_that_needs_another_package_runs_in_an_environment_of_its_own(
    project: Project,
) -> None:
    project.write(
        "resources_servers/x/requirements.txt", "--no-index\n./only_for_x-1.0-py3-none-any.whl\n"
    )
    project.environment(f"import only_for_x\n{ENVIRONMENT_APP}")
    write_wheel(project.path / "resources_servers" / "x", "only_for_x")

    async def run() -> dict[str, Any]:
        async with Fleet(project.load()) as fleet:
            assert fleet.instances["x"].placement == PROCESS
            assert fleet.instances["agent"].placement == EMBEDDED
            return await rollout(fleet)

    assert asyncio.run(run())["reward"] == 1.0
    assert len(list((project.path / "cache" / "venvs").glob("*/complete"))) == 1


def test_two_instances_of_one_folder_start_at_once(project: Project) -> None:
    async def run() -> list[bool]:
        two = X_ALONE + X_ALONE.replace("x:\n  res", "y:\n  res").split("policy_api_key")[0]
        async with Fleet(project.load(two)) as fleet:
            return [fleet.server(name) is not None for name in ("x", "y", "z")]

    assert asyncio.run(run()) == [True, True, False]
