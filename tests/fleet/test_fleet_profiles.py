"""Profiles of servers: each has its own table, wherever it lives; and off, there is nothing."""

import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from fleet_world import FLEET, Project, rollout

from palestra.errors import ConfigError
from palestra.fleet import EMBEDDED, PROCESS, Fleet
from palestra.fleet.server_profiles.attributed import NOBODY, Attributed, running
from palestra.fleet.server_profiles.picture import Callee, FunctionTimes, flame_chart
from palestra.fleet.server_profiles.profiler import callgrind_of, table_of
from palestra.transport import HttpRequest

PROFILED = ("+profiling_enabled=true", "+profiling_results_dirpath=profiles")
SERVERS = ("policy_model", "x", "agent")


def times(index: int, function: str, *callees: Callee, tsub: float = 0.1) -> FunctionTimes:
    return FunctionTimes(index, "/app.py", index, function, 2, tsub, 0.4, callees)


def functions_in(folder: Path, server: str, kind: str = "all.log") -> list[str]:
    lines = (folder / f"{server}.{kind}").read_text().splitlines()
    assert lines[0].split() == ["name", "ncall", "tsub", "ttot", "tavg"]
    return [line.rsplit(maxsplit=4)[0].split(" ")[-1] for line in lines[1:]]


async def nested() -> list[int]:
    seen = []

    async def inner() -> None:
        seen.append(running.get())
        await asyncio.sleep(0)
        seen.append(running.get())

    async def outer() -> None:
        waiting = asyncio.ensure_future(asyncio.sleep(0))
        await Attributed(2, inner())
        seen.append(running.get())
        await waiting

    await Attributed(1, outer())
    return [*seen, running.get()]


def test_code_belongs_to_the_innermost_server_for_as_long_as_it_runs() -> None:
    assert asyncio.run(nested()) == [2, 2, 1, NOBODY]


def test_what_a_call_raises_or_is_cancelled_with_passes_through() -> None:
    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise LookupError(running.get())

    async def cancelled() -> None:
        task = asyncio.ensure_future(Attributed(7, fails()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(LookupError, match="7"):
        asyncio.run(cancelled())


def test_the_table_has_the_most_expensive_functions_first() -> None:
    cheap = FunctionTimes(1, "/app.py", 1, "cheap", 1, 0.2, 0.2)
    table = table_of([cheap, times(2, "dear")])

    assert table.splitlines()[0].split() == ["name", "ncall", "tsub", "ttot", "tavg"]
    assert [line.split()[1] for line in table.splitlines()[1:]] == ["dear", "cheap"]
    assert table.splitlines()[1].split()[2:] == ["2", "0.100000", "0.400000", "0.200000"]


def test_a_servers_own_code_is_its_folder_and_what_is_installed_nowhere() -> None:
    folder = Path(asyncio.__file__).parent

    def is_own(module: str) -> bool:
        return FunctionTimes(1, module, 1, "f", 1, 0.0, 0.0).is_of(folder)

    assert is_own(asyncio.__file__)
    assert is_own("/home/me/my_env.py")
    assert not is_own(subprocess.__file__)
    assert not is_own(pytest.__file__)
    assert not is_own("<frozen importlib._bootstrap>")


def test_callgrind_names_each_function_once_and_every_call() -> None:
    text = callgrind_of([times(1, "caller", Callee(2, 3, 0.2)), times(2, "callee")])

    assert text.count("/app.py:2 callee") == 1
    assert "cfn=(2) /app.py:2 callee\ncalls=3 0\n1 200000\n" in text


def test_the_picture_is_well_formed_and_survives_recursion() -> None:
    chart = flame_chart(
        "<x>", [times(1, "<lambda>", Callee(2, 1, 0.2)), times(2, "b", Callee(1, 1, 0.1))]
    )

    labels = [text.text for text in ET.fromstring(chart).iter() if text.text]
    assert "<x>: 0.200 CPU seconds" in labels


async def played(project: Project, *overrides: str, placement: str) -> str:
    """One rollout; what `GET /stats` of the environment says, where it can be asked."""
    config = project.load(FLEET, *overrides)
    async with Fleet(config, default_placement=placement) as fleet:
        await rollout(fleet)
        urls = fleet.instances["x"].urls
        if not urls:
            return await (await fleet.client.get("x", "/stats")).text()
        reply = await fleet.client.http.send(HttpRequest("GET", urls[0] + "/stats"))
        return reply.body.decode()


@pytest.mark.skipif(not find_spec("yappi"), reason="needs yappi")
def test_servers_that_share_a_process_have_tables_of_their_own(
    project: Project, tmp_path: Path
) -> None:
    stats = asyncio.run(played(project, *PROFILED, placement=EMBEDDED))

    tables = {server: set(functions_in(tmp_path / "profiles", server)) for server in SERVERS}
    assert {"X.verify", "X.add", "X.seed_session"} <= tables["x"]
    assert "Scripted.responses" in tables["policy_model"]
    assert {"X.verify", "X.add"}.isdisjoint(tables["policy_model"] | tables["agent"])
    assert "Scripted.responses" not in tables["x"] | tables["agent"]
    assert "X.verify" in stats
    files = {path.name for path in (tmp_path / "profiles").iterdir()}
    assert files == {
        f"{s}.{kind}" for s in SERVERS for kind in ("log", "all.log", "callgrind", "svg")
    }


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("yappi"), reason="needs yappi")
def test_servers_in_processes_have_tables_of_their_own(project: Project, tmp_path: Path) -> None:
    stats = asyncio.run(played(project, *PROFILED, placement=PROCESS))

    assert "X.verify" in functions_in(tmp_path / "profiles", "x")
    assert "Scripted.responses" in functions_in(tmp_path / "profiles", "policy_model")
    assert "X.verify" in stats


def test_profiling_without_a_folder_is_refused(project: Project) -> None:
    with pytest.raises(ConfigError, match="profiling_results_dirpath"):
        Fleet(project.load(FLEET, "+profiling_enabled=true"))


@pytest.mark.slow
def test_without_profiling_nothing_of_it_is_there(project: Project) -> None:
    async def local_of() -> object:
        async with Fleet(project.load(FLEET)) as fleet:
            return fleet.client.targets["x"].local is fleet.server("x")

    assert asyncio.run(local_of())
    code = "import palestra.server, sys; print('yappi' in sys.modules, 'palestra.fleet.server_profiles' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
