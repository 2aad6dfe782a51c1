"""Ports of a node that several jobs, of several users, share."""

import os
import socket
import threading
from pathlib import Path

import pytest
from cluster_runs import service, world

from palestra.cluster import ports
from palestra.cluster.ports import PortLocks, answered, listeners_on
from palestra.cluster.supervisor.context import Context
from palestra.cluster.supervisor.services import Service
from palestra.cluster.supervisor.steps import read_task


def test_two_jobs_of_a_user_never_choose_the_same_port(tmp_path: Path) -> None:
    one, other = PortLocks(tmp_path / "locks"), PortLocks(tmp_path / "locks")

    chosen = {one.choose((21_800, 21_803)), *(other.choose((21_800, 21_803)) for _ in range(3))}

    assert chosen == {21_800, 21_801, 21_802, 21_803}
    with pytest.raises(ports.NoFreePort):
        one.choose((21_800, 21_803))
    for locks in (one, other):
        locks.close()


def test_the_kernel_gives_no_other_process_a_port_that_a_job_has_chosen(tmp_path: Path) -> None:
    with_ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not with_ephemeral.exists():
        pytest.skip("the range of ephemeral ports is only known on Linux")
    first_ephemeral = int(with_ephemeral.read_text().split()[0])
    locks = PortLocks(tmp_path / "locks")

    assert {locks.choose(None) < first_ephemeral for _ in range(20)} == {True}
    locks.close()


def test_a_folder_of_locks_that_is_another_users_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12_345)

    assert PortLocks(folder).choose(None)
    assert list(folder.iterdir()) == []


def test_who_listens_is_told_apart_by_what_ours_were_started_with() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        assert answered("127.0.0.1", port)
        assert listeners_on(port, "NOBODY=has this").strangers == [os.getpid()]
        mark = Path("/proc/self/environ").read_bytes().split(b"\0")[0].decode()
        assert listeners_on(port, mark).ours
    assert not answered("127.0.0.1", port)


def test_a_service_whose_port_was_taken_gets_another(tmp_path: Path) -> None:
    made = world(tmp_path, service(("python3", "-c", "import sys; sys.exit(1)", "{port}")))
    context = Context(
        read_task(made.submission.plan, "shards", 0), dict(os.environ), PortLocks(tmp_path)
    )
    context.files.folder.mkdir(parents=True)
    started = Service(context, context.task.job.services[0])
    started.start()
    with socket.create_server(("127.0.0.1", started._port)):
        while not started.ended():
            threading.Event().wait(0.05)
        first = started._port
        assert started.look() is None

        assert started.restarts == 0
        assert started._port != first
    started.stop()
    context.ports.close()


def test_what_stands_for_a_token_may_look_like_another() -> None:
    from palestra.cluster.supervisor.steps import replaced

    tokens = {"{plan}": "/a/{job}/plan.json", "{job}": "collect"}

    assert replaced("{plan} {job} {other}", tokens) == "/a/{job}/plan.json collect {other}"
