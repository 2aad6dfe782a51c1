"""Bad input in every form: one clear error, exit code 2, and the disk as it was."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_upstream import FakeUpstream, serving, steady
from fault_plan import prompt_of
from faults_world import PALESTRA, Done, World, tasks

from forked_commands import ForkedCommands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TASKS = 3
MIB = 1 << 20


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving(FakeUpstream(steady())) as url:
        yield url


@pytest.fixture
def world(tmp_path: Path, base_url: str, commands: ForkedCommands | None) -> World:
    """A world with three tasks."""
    folder = tmp_path / "project"
    made = World.make(folder, base_url=base_url, steadily=True, commands=commands)
    made.write_rows("tasks.jsonl", tasks(TASKS))
    return made


@pytest.fixture(scope="module")
def once_finished(
    tmp_path_factory: pytest.TempPathFactory, base_url: str, commands: ForkedCommands | None
) -> World:
    folder = tmp_path_factory.mktemp("finished") / "it"
    made = World.make(folder, base_url=base_url, steadily=True, commands=commands)
    made.write_rows("tasks.jsonl", tasks(TASKS))
    done = made.run(*made.steady())
    assert done.code == 0, done.said
    return made


@pytest.fixture
def finished(once_finished: World, tmp_path: Path) -> World:
    """A world in which the run has come to its end."""
    shutil.copytree(once_finished.folder, tmp_path / "project")
    return replace(once_finished, folder=tmp_path / "project")


def refused(world: World, *arguments: str) -> str:
    """What the command says to this; it must have changed nothing."""
    before = everything(world)
    error = world.run(*world.steady(*arguments)).refused()
    assert everything(world) == before
    return error


def everything(world: World) -> dict[str, bytes]:
    """Every file below the world's folder, its logs and Python's own left out."""
    return {
        str(path.relative_to(world.folder)): path.read_bytes()
        for path in sorted(world.folder.rglob("*"))
        if path.is_file() and not {".run", "__pycache__"} & set(path.parts)
    }


def row(**params: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": prompt_of(0), **params}}


# Outputs that are there already


@pytest.mark.parametrize("left", ["run.jsonl", "run_failures.jsonl", "run_manifest.json"])
def test_any_file_of_an_earlier_run_keeps_a_new_one_from_starting(world: World, left: str) -> None:
    (world.folder / left).write_text("{}\n")
    error = refused(world)

    assert f"{left} exists already" in error
    assert "--resume" in error
    assert "--overwrite" in error


# Manifests


def changed_manifest(**fields: Any) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps({**json.loads(data), **fields}).encode()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed_manifest(format=99), "written by a newer Palestra (format 99"),
        (changed_manifest(format="99"), "is not a manifest"),
        (changed_manifest(requested="three"), "is not a manifest"),
        (changed_manifest(semantics=None), "is not a manifest"),
        (lambda data: data[:100], "is not a manifest"),
        (lambda _: b"", "is not a manifest"),
        (lambda _: b"[1, 2]", "is not a manifest"),
        (lambda _: b"\xff\xfe\x00rubbish", "is not a manifest"),
    ],
    ids=["newer", "format", "counts", "semantics", "torn", "empty", "list", "binary"],
)
def test_a_manifest_that_cannot_be_read_is_said_to_be_so(
    finished: World, change: Callable[[bytes], bytes], says: str
) -> None:
    path = finished.folder / "run_manifest.json"
    path.write_bytes(change(path.read_bytes()))
    error = refused(finished, "--resume")

    assert "run_manifest.json" in error
    assert says in error
    assert "--overwrite" in error


# Journals


def failure(task: int = 0, **fields: Any) -> bytes:
    row = {
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "_ng_failure_class": "infra_error",
        "_ng_failure_terminal": False,
        "message": "reset",
        **fields,
    }
    return json.dumps(row).encode() + b"\n"


def test_a_torn_last_failure_is_dropped_with_a_notice(finished: World) -> None:
    torn = failure()[:-9]
    (finished.folder / "run_failures.jsonl").write_bytes(failure(1) + torn)
    done = finished.run(*finished.steady("--resume"))

    assert done.code == 0, done.said
    assert f"run_failures.jsonl: dropped a torn last line of {len(torn)} bytes" in done.err


@pytest.mark.parametrize(
    "rubbish",
    [
        b"rubbish\n",
        b"[1]\n",
        b"\xff\xfe\n",
        b"{}\n",
        b"null\n",
        failure(_ng_failure_class="nonsense"),
        failure(_ng_failure_class=7),
        failure(_ng_task_index="one"),
        failure(_ng_task_index=[1]),
        failure(_ng_rollout_index=None),
    ],
    ids=repr,
)
def test_rubbish_among_the_failures_is_named_with_its_line(finished: World, rubbish: bytes) -> None:
    (finished.folder / "run_failures.jsonl").write_bytes(failure(1) + rubbish + failure(2))

    assert "run_failures.jsonl line 2 is not a row of a run" in refused(finished, "--resume")


@pytest.mark.parametrize(
    "fields",
    [
        {"reward": None},
        {"reward": "1.0"},
        {"reward": [1]},
        {"_ng_task_index": "0"},
        {"_ng_task_index": {}},
    ],
    ids=str,
)
def test_rubbish_among_the_scored_rows_is_named_with_its_line(
    finished: World, fields: dict[str, Any]
) -> None:
    path = finished.folder / "run.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    rows[1].update(fields)
    finished.write_rows("run.jsonl", rows)

    assert "run.jsonl line 2 is not a row of a run" in refused(finished, "--resume")


@pytest.mark.parametrize(
    "response", ["text", {"usage": "many"}, {"usage": {"output_tokens": "5"}}], ids=str
)
def test_a_response_of_any_shape_is_resumed(finished: World, response: Any) -> None:
    rows = [{**row, "response": response} for row in finished.rows("run.jsonl")]
    finished.write_rows("run.jsonl", rows)
    done = finished.run(*finished.steady("--resume", "++disable_aggregation=true"))

    assert done.code == 0, done.said
    assert f"requested {TASKS} = scored {TASKS}" in done.out


@pytest.mark.parametrize("name", ["run.jsonl", "run_failures.jsonl"])
def test_rows_of_another_run_are_not_counted_as_ours(finished: World, name: str) -> None:
    [first, *_] = finished.rows("run.jsonl")
    foreign = {**first, "_ng_task_index": 999}
    row = foreign if name == "run.jsonl" else json.loads(failure(999, _ng_failure_terminal=True))
    with (finished.folder / name).open("ab") as file:
        file.write(json.dumps(row).encode() + b"\n")
    error = refused(finished, "--resume")

    assert name in error
    assert "999" in error


# Numbers


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--num-repeats", "0"], "--num-repeats: "),
        (["--num-repeats=-2"], "--num-repeats: "),
        (["--limit=-1"], "--limit: "),
        (["--max-attempts", "0"], "--max-attempts: "),
        (["--rollout-timeout", "0"], "--rollout-timeout: "),
        (["--rollout-timeout", "nan"], "--rollout-timeout: "),
        (["--rollout-timeout", "inf"], "--rollout-timeout: "),
        (["--min-coverage", "1.5"], "--min-coverage: "),
        (["--min-coverage", "nan"], "--min-coverage: "),
        (["--concurrency", "0"], "--concurrency: "),
    ],
    ids=" ".join,
)
def test_a_number_out_of_range_is_named(world: World, arguments: list[str], says: str) -> None:
    assert says in refused(world, *arguments)


def test_a_limit_of_zero_is_a_run_of_nothing(world: World) -> None:
    done = world.run(*world.steady("--limit", "0"))
    manifest = json.loads((world.folder / "run_manifest.json").read_bytes())

    assert done.code == 0, done.said
    assert "requested 0 = scored 0 + failed 0" in done.out
    assert (world.rows("run.jsonl"), world.rows("run_materialized_inputs.jsonl")) == ([], [])
    assert (manifest["requested"], manifest["tasks"]) == (0, 0)
    assert world.run(*world.steady("--limit", "0", "--resume")).code == 0


# Rows


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (7, "line 2: not a JSON object"),
        ([], "line 2: not a JSON object"),
        ({}, "line 2: no `responses_create_params`"),
        ({"responses_create_params": "text"}, "/responses_create_params is not an object"),
        (row(input=7), "line 2: /responses_create_params/input"),
        (row(input=[7]), "line 2: /responses_create_params/input/0"),
        (row(input=[{"role": 7, "content": "x"}]), "/responses_create_params/input/0/role"),
        (row(temperature="hot"), "line 2: /responses_create_params/temperature"),
        (row(tools={}), "line 2: /responses_create_params/tools"),
        (row(metadata=[]), "line 2: /responses_create_params/metadata"),
        ({**row(), "_ng_task_index": "7"}, "line 2: /_ng_task_index"),
        ({**row(), "agent_ref": {"name": 7}}, "line 2: /agent_ref/name"),
        ({**row(), "agent_ref": {"name": "nobody"}}, "line 2: agent 'nobody' does not exist"),
    ],
    ids=str,
)
def test_a_row_of_the_wrong_shape_is_named_with_its_line_and_field(
    world: World, bad: Any, says: str
) -> None:
    [first, *_] = tasks(1)
    world.write_rows("tasks.jsonl", [first, bad, first])

    assert says in refused(world)


# Files


def test_a_folder_is_no_input(world: World) -> None:
    (world.folder / "tasks.jsonl").unlink()
    (world.folder / "tasks.jsonl").mkdir()

    assert "tasks.jsonl: Is a directory" in refused(world)


def test_a_missing_input_is_named(world: World) -> None:
    (world.folder / "tasks.jsonl").unlink()

    assert "tasks.jsonl does not exist" in refused(world)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_input_is_named(world: World) -> None:
    (world.folder / "tasks.jsonl").chmod(0)

    assert "tasks.jsonl: Permission denied" in refused(world)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (gzip.compress(json.dumps(row()).encode() * 100, mtime=0)[:-9], "compressed"),
        (json.dumps(row()).encode("utf-16"), "UTF-16"),
        (b"\x00" * 5000, "line 1: not JSON"),
        (json.dumps([row()], indent=1).encode(), "line 1"),
        (b"\n\n\n", "has no rows"),
        (json.dumps(row()).encode()[:-9], "line 1: not JSON"),
    ],
    ids=["gzip", "utf-16", "nuls", "a list", "blank", "torn"],
)
def test_a_file_that_is_no_jsonl_is_said_to_be_none(world: World, data: bytes, says: str) -> None:
    (world.folder / "tasks.jsonl").write_bytes(data)
    error = refused(world)

    assert "tasks.jsonl" in error
    assert says in error
    assert len(error) < 5000


@pytest.mark.parametrize(
    "output", ["tasks.jsonl/run.jsonl", "/proc/nowhere/run.jsonl", "configs", "x" * 300 + ".jsonl"]
)
def test_a_place_that_takes_no_output_is_named(world: World, output: str) -> None:
    error = refused(world, "--output", output)

    assert output[:40].removesuffix("/run.jsonl") in error


def test_a_read_only_disk_takes_no_output(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        error = refused(world, "--output", str(folder / "run.jsonl"))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

    assert f"cannot write to {folder}: Read-only file system" in error


# Sizes


def test_a_row_that_is_too_large_is_named_and_never_held_in_memory(world: World) -> None:
    [first, *_] = tasks(1)
    path = world.write_rows("tasks.jsonl", [first])
    with path.open("ab") as file:
        file.write(b'{"responses_create_params": {"input": "')
        file.truncate(1024 * MIB)  # a hole in the file: it takes no room on the disk
    done, most_mib = measured(world)
    error = done.refused()

    assert "tasks.jsonl: 1 row cannot be used" in error
    assert "line 2: " in error
    assert "bytes; the limit of a row is 134,217,728" in error
    assert most_mib < 600
    assert not (world.folder / "run.jsonl").exists()


# Started by a process that is small itself: a child's peak counts the memory of whoever forked it.
MEASURING = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:], timeout=60)
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(done.returncode)
"""


def measured(world: World) -> tuple[Done, int]:
    """The command, and how much memory its process took at most."""
    peak = world.folder / "peak_kib"
    process = subprocess.run(
        [sys.executable, "-c", MEASURING, peak, PALESTRA, *world.steady()],
        cwd=world.folder,
        env=world.env(),
        capture_output=True,
        check=False,
        timeout=90,
    )
    done = Done(process.returncode, process.stdout.decode(), process.stderr.decode(), 0.0)
    return done, int(peak.read_text()) // 1024
