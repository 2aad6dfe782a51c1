"""Submitting from a laptop, through a real OpenSSH server on this machine."""

import getpass
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cluster_runs import ENDPOINT_KEY, free_port
from slurm_site import wait_until

from palestra.cli.clustering.from_laptop import flags_of, submit_by_ssh
from palestra.cluster import CLUSTER_FILE, CODE, LoginNode, SshSettings, pack, send
from palestra.cluster.configs import ClusterConfig, find_cluster
from palestra.cluster.executors import ClusterUnreachable
from palestra.cluster.ledger import KnownRun, known_run, remember
from palestra.cluster.ports import answered
from palestra.errors import ConfigError

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="needs OpenSSH: openssh-server"
)


@dataclass(frozen=True)
class Site:
    """A login node: a real sshd, and a folder that jobs share with it."""

    folder: Path
    port: int

    @property
    def settings(self) -> SshSettings:
        return SshSettings(
            host="127.0.0.1",
            user=getpass.getuser(),
            port=self.port,
            identity=str(self.folder / "user_key"),
            options=(f"UserKnownHostsFile={self.folder / 'known_hosts'}",),
            palestra=f"{sys.executable} -m palestra",
        )

    @property
    def node(self) -> LoginNode:
        return LoginNode(self.settings, 30.0)

    def trust(self, key: str = "host_key") -> None:
        public = (self.folder / f"{key}.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, port = tmp_path_factory.mktemp("site"), free_port()
    for name in ("host_key", "user_key", "other_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, timeout=60)
    (folder / "user_key.pub").rename(folder / "authorized_keys")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host_key'}\n"
        f"AuthorizedKeysFile {folder / 'authorized_keys'}\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(folder / "sshd_config")])
    try:
        wait_until(lambda: answered("127.0.0.1", port), seconds=30, every=0.05)
        made = Site(folder, port)
        made.trust()
        yield made
    finally:
        server.terminate()
        server.wait(20)


@needs_sshd
@pytest.mark.slow
def test_a_command_runs_there_with_its_input_and_its_exit_code(site: Site) -> None:
    finished = site.node.run("cat; exit 3", data=b"sent along")

    assert (finished.code, finished.output) == (3, b"sent along")


@needs_sshd
@pytest.mark.slow
def test_a_host_key_that_has_changed_is_an_error_that_says_so(site: Site) -> None:
    site.trust("other_key")
    try:
        settings = site.settings.model_copy(
            update={"options": (*site.settings.options, "ControlPath=none")}
        )
        with pytest.raises(ConfigError, match=r"host key of 127\.0\.0\.1 is not the one") as caught:
            LoginNode(settings, 30.0).palestra(["cluster", "status", "it"], folder="/")
    finally:
        site.trust()
    assert "ssh-keygen -" in caught.value.hint
    assert f"[127.0.0.1]:{site.port}" in caught.value.hint


@needs_sshd
@pytest.mark.slow
def test_a_host_that_is_not_known_yet_is_reached_by_the_command_of_the_hint(site: Site) -> None:
    (site.folder / "known_hosts").write_text("")
    try:
        settings = site.settings.model_copy(
            update={"options": (*site.settings.options, "ControlPath=none")}
        )
        with pytest.raises(ConfigError, match="Host key verification failed") as caught:
            LoginNode(settings, 30.0).run("true")
        by_hand = shlex.split(caught.value.hint.partition("its key: ")[2])
        by_hand[1:1] = ["-o", "StrictHostKeyChecking=accept-new"]
        done = subprocess.run([*by_hand, "echo in"], capture_output=True, check=True, timeout=60)
    finally:
        site.trust()

    assert done.stdout == b"in\n"


def test_a_run_from_a_laptop_is_known_by_its_folder_on_the_cluster(tmp_path: Path) -> None:
    registry = tmp_path / "runs.jsonl"
    there = KnownRun("lap", "/jobs/lap/out", "slurm", login={"host": "login"}, typed="out")
    remember(there, registry)
    remember(KnownRun("here", "/jobs/here", "slurm"), registry)

    for name in ("lap", "out", "/jobs/lap/out"):
        run = known_run(name, registry)
        assert run is not None
        assert run.name == "lap"
    assert known_run("/jobs/here", registry) is None


@needs_sshd
@pytest.mark.slow
def test_a_login_node_that_does_not_answer_is_unreachable(site: Site) -> None:
    settings = site.settings.model_copy(update={"port": free_port()})

    with pytest.raises(ClusterUnreachable, match="refused"):
        LoginNode(settings, 30.0).run("true")


@needs_sshd
@pytest.mark.slow
def test_a_key_that_is_not_accepted_tells_how_to_log_in(site: Site) -> None:
    settings = site.settings.model_copy(
        update={
            "identity": str(site.folder / "other_key"),
            "options": (*site.settings.options, "ControlPath=none", "IdentitiesOnly=yes"),
        }
    )

    with pytest.raises(ConfigError, match="Permission denied") as caught:
        LoginNode(settings, 30.0).run("true")

    assert "log in once by hand" in caught.value.hint


def laptop(tmp_path: Path, site: Site) -> Path:
    """A checkout with a config file of its own, tasks that are not committed, and the cluster."""
    folder = tmp_path / "laptop"
    folder.mkdir()
    (folder / "policy.yaml").write_text(
        "policy_model:\n  responses_api_models:\n    openai_model:\n      entrypoint: app.py\n"
        "      openai_base_url: ${policy_base_url}\n      openai_api_key: ${policy_api_key}\n"
        "      openai_model: ${policy_model_name}\n"
    )
    git = ["git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    example = (
        Path(sys.modules["palestra"].__path__[0]) / "resources_servers/mcqa/data/example.jsonl"
    )
    shutil.copyfile(example, folder / "tasks.jsonl")
    tree = {
        "executor": "none",
        "ssh": site.settings.model_dump(mode="json"),
        "job_dir": str(tmp_path / "jobs"),
    }
    (folder / "far.yaml").write_text(yaml.safe_dump(tree))
    return folder


def palestra(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    state = folder.parent / "state"
    return subprocess.run(
        [sys.executable, "-m", "palestra", "cluster", *words],
        cwd=folder,
        env={**os.environ, "MY_KEY": ENDPOINT_KEY, "PALESTRA_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@needs_sshd
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_is_submitted_followed_and_read_from_a_laptop(
    tmp_path: Path, site: Site, endpoint: str
) -> None:
    folder = laptop(tmp_path, site)

    submitted = palestra(
        folder,
        "rollouts",
        "--cluster=far.yaml",
        "--expname=from-laptop",
        "--config-paths=resources_servers/mcqa/configs/mcqa.yaml",
        "--config-paths=policy.yaml",
        "--input-file=tasks.jsonl",
        "--agent-name=mcqa_simple_agent",
        "--output-dir=results",
        f"--server-address={endpoint}",
        "--model=scripted",
        "--policy-api-key-env=MY_KEY",
        "--limit=2",
    )
    status = palestra(folder, "status", "results", "--json")
    watched = palestra(folder, "status", "results", "--json", "--watch")
    logs = palestra(folder, "logs", "from-laptop", "--of=rollouts")

    assert submitted.returncode == 0, submitted.stderr
    assert "2 rollouts in 1 shards" in submitted.stdout
    assert (status.returncode, json.loads(status.stdout)["rollouts"]["scored"]) == (0, 2)
    assert [json.loads(line)["done"] for line in watched.stdout.splitlines()] == [True]
    assert "requested 2 = scored 2" in logs.stdout
    jobs = tmp_path / "jobs"
    assert (jobs / "from-laptop/results/rollouts.jsonl").exists()
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    for name in ("rollouts_done.json", "rollouts_manifest.json"):
        assert commit in (jobs / "from-laptop/results" / name).read_text()
    written = [path for path in jobs.rglob("*") if path.is_file()]
    assert [path for path in written if ENDPOINT_KEY.encode() in path.read_bytes()] == []


@needs_sshd
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_program_that_is_not_there_is_named_before_anything_is_sent(
    tmp_path: Path, site: Site
) -> None:
    folder = laptop(tmp_path, site)
    tree = yaml.safe_load((folder / "far.yaml").read_text())
    tree["ssh"]["palestra"] = "/nowhere/palestra"
    (folder / "far.yaml").write_text(yaml.safe_dump(tree))

    submitted = palestra(folder, "run-cmd", "--cluster=far.yaml", "true")

    assert submitted.returncode == 2
    assert "/nowhere/palestra is not there" in submitted.stderr
    assert not (tmp_path / "jobs").exists()


def test_flags_are_written_as_they_were_given() -> None:
    options = {
        "num_chunks": 2,
        "exclusive": False,
        "dry_run": True,
        "sbatch": ("a=b", "c"),
        "x": None,
    }

    assert list(flags_of(options)) == [
        "--num-chunks=2",
        "--no-exclusive",
        "--dry-run",
        "--sbatch=a=b",
        "--sbatch=c",
    ]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"ssh": {"host": "login"}}, "set both"),
        ({"job_dir": "/jobs"}, "set both"),
        ({"ssh": {"host": "login"}, "job_dir": "jobs"}, "absolute path"),
        ({"ssh": {"hots": "login"}, "job_dir": "/jobs"}, "hots"),
    ],
)
def test_settings_of_a_login_node_that_cannot_be_are_refused(
    tree: dict[str, object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        find_cluster(tree)


def test_an_upload_holds_named_files_and_the_clusters_file_without_ssh(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    cluster = ClusterConfig(
        ssh=SshSettings(host="login"), job_dir="/jobs", env={"A": "b"}, executor="slurm"
    )

    first, second = (
        pack("none", tmp_path, ["tasks.jsonl", "/data/on-the-cluster.jsonl", "missing"], cluster)
        for _ in range(2)
    )

    assert first.name == second.name
    assert b"tasks.jsonl" in first.archive
    assert b"executor: slurm" in first.archive
    assert b"login" not in first.archive


@dataclass(frozen=True)
class HereNode(LoginNode):
    """A login node that is here: it runs a line of sh, with `programs` first on its PATH."""

    programs: Path = Path("/bin")

    @property
    def argv(self) -> list[str]:
        return ["env", f"PATH={self.programs}:{os.environ['PATH']}", "sh", "-c"]


HERE = HereNode(SshSettings(host="here"))


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_a_killed_command_has_left_of_an_upload_is_not_in_the_next_one(tmp_path: Path) -> None:
    upload = pack("none", tmp_path, [], ClusterConfig())
    (tmp_path / "jobs/x.part").mkdir(parents=True)
    (tmp_path / "jobs/x.part/torn").touch()

    for _ in range(2):
        send(upload, HERE, str(tmp_path), str(tmp_path / "jobs/x"))

    assert contents(tmp_path / "jobs/x") == {CLUSTER_FILE, CODE}


def test_of_two_uploads_at_once_the_first_one_stays(tmp_path: Path) -> None:
    upload, folder = pack("none", tmp_path, [], ClusterConfig()), tmp_path / "jobs/x"
    (tmp_path / "bin").mkdir()
    tar = tmp_path / "bin/tar"
    tar.write_text(f'#!/bin/sh\n{shutil.which("tar")} "$@" && mkdir {folder} && touch {folder}/1\n')
    tar.chmod(0o755)
    node = HereNode(SshSettings(host="here"), programs=tar.parent)

    send(upload, node, str(tmp_path), str(folder))

    assert contents(tmp_path / "jobs") == {"x", "x/1"}


@pytest.mark.parametrize("name", ["../x", "/x", "12"])
def test_a_name_that_is_no_folder_of_job_dir_is_refused_before_anything_is_sent(name: str) -> None:
    nowhere = ClusterConfig(ssh=SshSettings(host="nowhere.invalid"), job_dir="/jobs")

    with pytest.raises(ConfigError, match="--expname"):
        submit_by_ssh("rollouts", {"expname": name}, [], nowhere)


def test_the_lines_of_a_command_come_while_it_runs(tmp_path: Path) -> None:
    waits = f"for i in $(seq 200); do test -e {tmp_path}/go && echo 2 && exit 3; sleep 0.05; done"
    program = shlex.join(["sh", "-c", f"echo 1; {waits}"])
    lines: list[bytes] = []

    def on_line(line: bytes) -> None:
        lines.append(line)
        (tmp_path / "go").touch()

    node = HereNode(SshSettings(host="here", palestra=program))
    finished = node.palestra([], folder="/", on_line=on_line)

    assert (finished.code, lines) == (3, [b"1\n", b"2\n"])


def test_a_command_ends_when_nobody_takes_its_lines() -> None:
    def on_line(line: bytes) -> None:
        raise BrokenPipeError

    node = HereNode(SshSettings(host="here", palestra="sh -c 'echo 1; sleep 600'"))
    with pytest.raises(BrokenPipeError):
        node.palestra([], folder="/", on_line=on_line)


def test_a_file_outside_the_folder_cannot_be_sent_along(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    (tmp_path / "inner").mkdir()

    with pytest.raises(ConfigError, match="outside"):
        pack("none", tmp_path / "inner", ["../tasks.jsonl"], ClusterConfig())
