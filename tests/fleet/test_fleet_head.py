"""The head server and its run file: a command finds its own fleet, and never another one's."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from fleet_world import X_ALONE, Project

from palestra.config import ResolvedConfig
from palestra.errors import ConfigError, ServerDied
from palestra.fleet import (
    AttachedFleet,
    ConfigOrigins,
    Fleet,
    HeadAddress,
    InstanceState,
    NoFleet,
    attach,
    check_head_port,
    config_origins,
    head_server,
    probe,
    summary_line,
)
from palestra.fleet.runfile import (
    ENDED_KEPT_S,
    EndedFleet,
    RunFile,
    live_run_files,
    read_ended_fleet,
    read_run_file,
    remove_run_file,
    write_ended_fleet,
    write_run_file,
)
from palestra.fleet.sockets import http_url, listen, serving
from palestra.system import run_dir
from palestra.transport import HttpClient, HttpRequest

ANY_PORT = "++head_server.port=0"


@asynccontextmanager
async def headed(config: ResolvedConfig) -> AsyncIterator[tuple[RunFile, HttpClient]]:
    """A fleet with its head, and a client beside it."""
    http = HttpClient()
    try:
        async with Fleet(config) as fleet, head_server(fleet) as run:
            yield run, http
    finally:
        await http.aclose()


def address(run: RunFile) -> HeadAddress:
    return HeadAddress(run.host, run.port)


async def got(http: HttpClient, run: RunFile, path: str, token: str = "") -> Any:
    headers = {"authorization": f"Bearer {token}"}
    return json.loads((await http.send(HttpRequest("GET", run.url + path, headers))).body)


def test_the_head_tells_the_configuration_with_secrets_masked(project: Project) -> None:
    config = project.load(X_ALONE, ANY_PORT, "++fleet_token=tok-1234567890")

    async def asked() -> tuple[Any, Any]:
        async with headed(config) as (run, http):
            token = "tok-1234567890"
            return (
                await got(http, run, "/", token),
                await got(http, run, "/global_config_dict_yaml", token),
            )

    status, text = asyncio.run(asked())

    assert status["status"] == "ok"
    assert "resources_servers" in text
    assert "policy_api_key" in text
    assert "sk-very-secret-1234" not in text
    assert "tok-1234567890" not in text


def test_the_head_lists_the_instances_with_all_their_fields(project: Project) -> None:
    async def asked() -> Any:
        async with headed(project.load(X_ALONE, ANY_PORT)) as (run, http):
            return await got(http, run, "/server_instances")

    [instance] = asyncio.run(asked())

    assert instance.pop("start_time") > 1e9
    assert 0 <= instance.pop("uptime_seconds") < 60
    assert instance == {
        "process_name": "x",
        "name": "x",
        "server_type": "resources_servers",
        "type": "resources_servers",
        "implementation": "x",
        "placement": "embedded",
        "url": "",
        "urls": [],
        "host": "",
        "port": None,
        "pid": None,
        "status": "healthy",
        "reason": "",
        "is_shipped": False,
    }


def test_a_head_with_a_token_answers_only_who_knows_it(project: Project) -> None:
    config = project.load(X_ALONE, ANY_PORT, "++fleet_token=tok-1234567890")

    async def asked() -> tuple[int, int]:
        async with headed(config) as (run, http):
            known = HeadAddress(run.host, run.port, "tok-1234567890")
            fleet = await attach(known, http)
            with pytest.raises(ConfigError, match="asks for its token"):
                await attach(address(run), http)
            reply = await http.send(HttpRequest("GET", run.url + "/global_config_dict_yaml"))
            return len(fleet.instances), reply.status

    assert asyncio.run(asked()) == (1, 401)


def test_the_head_tells_where_its_secrets_came_from(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = X_ALONE + "y:\n  _inherit_from: z\nz:\n  resources_servers:\n    x: {}\n"
    policy = (
        "policy_model:\n  responses_api_models:\n    openai_model:\n      openai_api_key: k\n"
        "      openai_base_url: http://127.0.0.1:1/v1\n      openai_model: m\n"
    )
    config = project.load(taken + policy, ANY_PORT, "++fleet_token=tok-1234567890")
    file = "resources_servers/x/configs/x.yaml"

    async def asked() -> tuple[ConfigOrigins, ConfigOrigins]:
        async with headed(config) as (run, http):
            fleet = await attach(HeadAddress(run.host, run.port, "tok-1234567890"), http)
            project.write(file, "")  # what it was started with counts
            told = await config_origins(fleet, http)
            return told, await config_origins(replace(fleet, address=address(run)), http)

    told, without_token = asyncio.run(asked())

    assert told.of_secrets("policy_model") == [f"openai_api_key ({file}:14)"]
    assert told.takers_from_here() == {"z": f"{file}:7: y._inherit_from"}
    assert without_token == ConfigOrigins()
    monkeypatch.chdir("/")
    assert told.of_secrets("policy_model") == [f"openai_api_key ({file}:14) in {project.path}"]


def test_a_head_that_tells_no_origins_is_no_fault(project: Project) -> None:
    """As that of an earlier version."""

    async def asked() -> ConfigOrigins:
        head = FastAPI()
        sock = listen("127.0.0.1", 0)
        http = HttpClient()
        try:
            async with serving(head, sock):
                place = HeadAddress("127.0.0.1", sock.getsockname()[1])
                return await config_origins(AttachedFleet(place, "", ()), http)
        finally:
            await http.aclose()

    assert asyncio.run(asked()) == ConfigOrigins()


def test_a_fleet_that_listens_everywhere_is_announced_where_it_can_be_called(
    project: Project,
) -> None:
    outside = (ANY_PORT, "++default_host=0.0.0.0", "++fleet_token=tok-1234567890")
    placed = "++x.resources_servers.x.placement=embedded"
    config = project.load(X_ALONE, *outside, placed)

    async def asked() -> tuple[str, str]:
        async with headed(config) as (run, http):
            here = HeadAddress("127.0.0.1", run.port, "tok-1234567890")
            assert (await attach(here, http)).instances
            announced = HeadAddress.from_tree({**config.tree, "head_server": {"port": run.port}})
            assert (await attach(announced, http)).instances
            return run.url, run.host

    url, bound = asyncio.run(asked())

    assert "0.0.0.0" not in url
    assert bound == "0.0.0.0"


@pytest.mark.usefixtures("project")
def test_a_run_file_of_this_machine_says_nothing_about_another_one() -> None:
    async def asked() -> None:
        with listen("127.0.0.1", 0) as sock:
            port = sock.getsockname()[1]
            write_run_file(run_file(host="192.0.2.7", port=port, nonce="mine"))
            app = FastAPI()
            app.add_api_route("/", lambda: {"nonce": "theirs"})
            async with serving(app, sock):
                await attach_to(port)

    with pytest.raises(ConfigError, match="belongs to another user or run directory"):
        asyncio.run(asked())


def test_the_head_answers_what_it_does_not_know_with_an_envelope(project: Project) -> None:
    async def asked() -> Any:
        async with headed(project.load(X_ALONE, ANY_PORT)) as (run, http):
            return await got(http, run, "/server_instance")

    error = asyncio.run(asked())["error"]

    assert error["type"] == "infra_error"
    assert error["message"] == (
        "head server has no endpoint GET /server_instance; did you mean '/server_instances'?"
    )


def test_the_run_file_appears_with_the_head_and_goes_with_it(project: Project) -> None:
    async def served() -> tuple[RunFile, RunFile | None, int]:
        async with headed(project.load(X_ALONE, ANY_PORT)) as (run, _):
            mode = (run_dir() / f"{run.port}.json").stat().st_mode & 0o777
            return run, read_run_file(run.port), mode

    run, read, mode = asyncio.run(served())

    assert run_dir() == project.path / "run"
    assert read == run
    assert run.pid == os.getpid()
    assert mode == 0o600
    assert read_run_file(run.port) is None


def test_what_the_body_raises_comes_out_as_it_is(project: Project) -> None:
    async def served() -> None:
        async with headed(project.load(X_ALONE, ANY_PORT)):
            raise ServerDied("x ended")

    with pytest.raises(ServerDied, match="x ended"):
        asyncio.run(served())
    assert list(run_dir().glob("*.json")) == []


@pytest.mark.parametrize(
    ("raised", "says", "hint"),
    [
        (ConfigError("no endpoint answers", hint="start it"), "no endpoint answers", "start it"),
        (KeyError("x"), "KeyError: 'x'", "palestra run"),
        (KeyboardInterrupt(), "was stopped", "start the fleet again"),
        (asyncio.CancelledError(), "was stopped", "start the fleet again"),
    ],
)
def test_a_fleet_leaves_word_of_what_its_command_raised(
    project: Project, raised: BaseException, says: str, hint: str
) -> None:
    runs: list[RunFile] = []

    async def served() -> None:
        async with Fleet(project.load(X_ALONE, ANY_PORT)) as fleet:
            # Caught here: the loop itself would end for a KeyboardInterrupt.
            with contextlib.suppress(type(raised)):
                async with head_server(fleet) as run:
                    runs.append(run)
                    raise raised

    asyncio.run(served())
    [run] = runs
    ended = read_ended_fleet(run)

    assert ended is not None
    assert says in ended.message
    assert hint in ended.hint
    assert ended.servers_lived


@pytest.mark.usefixtures("project")
def test_what_a_fleet_left_long_ago_goes_when_another_one_ends() -> None:
    for port, age_s in ((1, 2 * ENDED_KEPT_S), (2, 0.0)):
        write_ended_fleet(run_file(port=port), EndedFleet("n", "stopped", ""))
        path = run_dir() / f"{port}.ended"
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
    write_ended_fleet(run_file(port=3), EndedFleet("n", "stopped", ""))

    assert {path.name for path in run_dir().iterdir()} == {"2.ended", "3.ended"}


# Finding a fleet


def found(config: ResolvedConfig, find: Callable[[RunFile, HttpClient], Awaitable[Any]]) -> Any:
    """What a command beside the running fleet finds."""

    async def asked() -> Any:
        async with headed(config) as (run, http):
            return await find(run, http)

    return asyncio.run(asked())


def test_a_command_finds_its_fleet_by_its_port(project: Project) -> None:
    async def find(run: RunFile, http: HttpClient) -> AttachedFleet:
        return await attach(address(run), http)

    fleet = found(project.load(X_ALONE, ANY_PORT), find)

    assert [item["name"] for item in fleet.instances] == ["x"]
    assert "resources_servers" in fleet.config_yaml
    assert fleet.targets()["x"].server_type == "resources_servers"


def test_port_0_means_the_only_fleet_that_runs(project: Project) -> None:
    async def find(run: RunFile, http: HttpClient) -> tuple[int, int]:
        return (await attach(HeadAddress("127.0.0.1", 0), http)).address.port, run.port

    attached, running = found(project.load(X_ALONE, ANY_PORT), find)

    assert attached == running


def test_port_0_among_several_fleets_asks_which(project: Project) -> None:
    async def find(run: RunFile, http: HttpClient) -> None:
        write_run_file(replace(run, port=1))
        await attach(HeadAddress("127.0.0.1", 0), http)

    with pytest.raises(ConfigError, match="several fleets are running; their head ports: "):
        found(project.load(X_ALONE, ANY_PORT), find)


def test_another_nonce_is_another_fleet(project: Project) -> None:
    async def find(run: RunFile, http: HttpClient) -> None:
        write_run_file(replace(run, nonce="of an earlier fleet"))
        await attach(address(run), http)

    with pytest.raises(ConfigError, match="is not the one that was started in this run directory"):
        found(project.load(X_ALONE, ANY_PORT), find)


def test_a_fleet_of_another_run_directory_is_not_ours(project: Project) -> None:
    async def find(run: RunFile, http: HttpClient) -> None:
        remove_run_file(run)
        await attach(address(run), http)

    with pytest.raises(ConfigError, match="belongs to another user or run directory"):
        found(project.load(X_ALONE, ANY_PORT), find)


async def attach_to(port: int) -> AttachedFleet:
    http = HttpClient()
    try:
        return await attach(HeadAddress("127.0.0.1", port), http)
    finally:
        await http.aclose()


@pytest.mark.usefixtures("project")
def test_a_foreign_server_on_the_head_s_port_is_said_to_be_one() -> None:
    async def asked() -> None:
        with listen("127.0.0.1", 0) as sock:
            async with serving(FastAPI(), sock):
                await attach_to(sock.getsockname()[1])

    with pytest.raises(ConfigError, match="is not the head server of a fleet"):
        asyncio.run(asked())


@pytest.mark.usefixtures("project")
def test_where_nothing_answers_there_is_no_fleet() -> None:
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]

    with pytest.raises(NoFleet, match=f"no fleet answers at http://127.0.0.1:{port}"):
        asyncio.run(attach_to(port))
    with pytest.raises(NoFleet, match="no Palestra servers of yours are running"):
        asyncio.run(attach_to(0))


# The head's address


def test_a_busy_head_port_names_the_fleet_that_holds_it(project: Project) -> None:
    async def find(run: RunFile, _http: HttpClient) -> None:
        check_head_port(project.load(X_ALONE, f"++head_server.port={run.port}").tree)

    says = f"another fleet (process {os.getpid()}, started 0 min ago) uses this port"
    with pytest.raises(ConfigError, match=re.escape(says)):
        found(project.load(X_ALONE, ANY_PORT), find)


def test_a_busy_head_port_names_the_process_that_holds_it(project: Project) -> None:
    with listen("127.0.0.1", 0) as sock:
        config = project.load(X_ALONE, f"++head_server.port={sock.getsockname()[1]}")
        with pytest.raises(ConfigError, match=rf"process {os.getpid()} \(.*\) uses this port"):
            check_head_port(config.tree)


def test_a_head_that_others_reach_needs_the_fleet_s_token(project: Project) -> None:
    outside = (ANY_PORT, "++head_server.host=0.0.0.0")

    with pytest.raises(ConfigError, match=r"would listen on 0\.0\.0\.0 without a token"):
        check_head_port(project.load(X_ALONE, *outside).tree)
    check_head_port(project.load(X_ALONE, *outside, "++fleet_token=tok-1234567890").tree)


def test_an_address_of_ip_6_is_written_in_brackets() -> None:
    assert http_url("::1", 80) == "http://[::1]:80"
    assert http_url("localhost", 80) == "http://localhost:80"


# Run files


def run_file(**fields: Any) -> RunFile:
    made = {"host": "127.0.0.1", "port": 7, "nonce": "n", "pid": os.getpid(), "started": 1.0}
    return RunFile(**{**made, **fields})


@pytest.mark.usefixtures("project")
def test_run_files_of_dead_fleets_do_not_count() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], check=True, capture_output=True
    )
    write_run_file(run_file(port=1, pid=int(done.stdout)))
    write_run_file(run_file(port=2, started=5.0))
    write_run_file(run_file(port=3, started=9.0))

    assert [run.port for run in live_run_files()] == [3, 2]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"host": 1, "unknown": 2}'])
def test_a_run_file_that_cannot_be_read_counts_as_none(text: str) -> None:
    run_dir().mkdir()
    (run_dir() / "7.json").write_text(text)

    assert read_run_file(7) is None
    assert live_run_files() == []


@pytest.mark.usefixtures("project")
def test_a_run_file_that_another_fleet_has_taken_over_stays() -> None:
    mine, theirs = run_file(nonce="mine"), run_file(nonce="theirs")
    write_run_file(theirs)
    remove_run_file(mine)

    assert read_run_file(7) == theirs


# Status


def attached(*instances: dict[str, Any]) -> AttachedFleet:
    made = [
        {"name": name, "server_type": "resources_servers", "url": "", "status": "healthy"} | given
        for name, given in zip("abc", instances, strict=False)
    ]
    return AttachedFleet(HeadAddress("127.0.0.1", 1), "", tuple(made))


async def probed(fleet: AttachedFleet) -> Any:
    http = HttpClient()
    try:
        return await probe(fleet, http)
    finally:
        await http.aclose()


def test_a_model_server_tells_of_its_endpoint() -> None:
    async def asked() -> Any:
        app = FastAPI()

        @app.get("/endpoint")
        async def endpoint() -> dict[str, str]:
            return {"endpoint": "http://x/v1 is reachable"}

        with listen("127.0.0.1", 0) as sock:
            async with serving(app, sock):
                url = http_url("127.0.0.1", sock.getsockname()[1])
                model = {"url": url, "server_type": "responses_api_models"}
                return await probed(attached(model, {"url": url}))

    assert [one.endpoint for one in asyncio.run(asked())] == ["http://x/v1 is reachable", ""]


def test_a_probe_asks_every_server_now() -> None:
    async def asked() -> Any:
        app = FastAPI()

        @app.get("/")
        async def status() -> dict[str, str]:
            return {"status": "ok"}

        with listen("127.0.0.1", 0) as gone:
            refusing = http_url("127.0.0.1", gone.getsockname()[1])
        with listen("127.0.0.1", 0) as sock:
            async with serving(app, sock):
                url = http_url("127.0.0.1", sock.getsockname()[1])
                return await probed(attached({"url": url}, {"url": refusing}, {"status": "dead"}))

    statuses = asyncio.run(asked())

    assert [one.state for one in statuses] == [
        InstanceState.HEALTHY,
        InstanceState.UNHEALTHY,
        InstanceState.DEAD,
    ]
    assert "refused" in statuses[1].reason or "Connect call failed" in statuses[1].reason
    assert summary_line(statuses) == "3 servers found (1 healthy, 2 unhealthy)"


def test_a_server_that_fails_at_its_root_is_unhealthy() -> None:
    async def asked() -> Any:
        app = FastAPI()

        @app.get("/", status_code=503)
        async def status() -> dict[str, str]:
            return {"status": "starting"}

        with listen("127.0.0.1", 0) as sock:
            async with serving(app, sock):
                url = http_url("127.0.0.1", sock.getsockname()[1])
                return await probed(attached({"url": url}))

    [one] = asyncio.run(asked())

    assert (one.healthy, one.reason) == (False, "GET / answered 503")


@pytest.mark.parametrize(
    ("states", "line"),
    [
        ([], "0 servers found (0 healthy, 0 unhealthy)"),
        (["healthy"], "1 servers found (1 healthy, 0 unhealthy)"),
        (["healthy", "starting", "dead"], "3 servers found (1 healthy, 2 unhealthy)"),
    ],
)
def test_the_summary_line_is_the_one_that_scripts_look_for(states: list[str], line: str) -> None:
    statuses = asyncio.run(probed(attached(*({"status": state} for state in states))))

    assert summary_line(statuses) == line
