"""Runs of a cluster as its tests need them: small plans, written as a submission writes them."""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palestra.cluster.layout import RunFiles, SubmissionFiles
from palestra.cluster.plan import (
    After,
    Allocation,
    Collect,
    Component,
    OnExit,
    PlannedJob,
    Policy,
    Probe,
    Role,
    Run,
    to_json,
)
from palestra.cluster.shard import count, write_done
from palestra.cluster.stamping import shards_of, stamp
from palestra.cluster.writing import supervisor_zip
from palestra.rollouts import prepare
from palestra.settings import CollectSettings, GivenRows, InputFile, Share

SERVER_PROGRAM = Path(__file__).with_name("answering_server.py")
ENDPOINT_KEY = "sk-canary-0123456789"
"""The key of the fixture `endpoint`. No file that a run writes may contain it."""
AGENT = "mcqa_simple_agent"
CONFIGS = (
    "resources_servers/mcqa/configs/mcqa.yaml",
    "responses_api_models/openai_model/configs/openai_model.yaml",
)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def python(code: str) -> tuple[str, ...]:
    """A component's command that runs some Python."""
    return (sys.executable, "-c", code)


def service(argv: tuple[str, ...], **changes: Any) -> Component:
    """A model server; by default it must answer within a minute."""
    probe = Probe("/v1/models", expect_model="scripted", deadline_s=60, interval_s=0.2)
    return Component("server", Role.SERVER, argv, probe=changes.pop("probe", probe), **changes)


def model_server(*arguments: str, **changes: Any) -> Component:
    """The answering server."""
    own = ("--port", "{port}", "--host", "{host}")
    env = {"PALESTRA_SERVER_KEY": "{nonce}"}
    return service((sys.executable, str(SERVER_PROGRAM), *own, *arguments), env=env, **changes)


def driver(argv: tuple[str, ...] = (), **changes: Any) -> Component:
    """What collects a shard; by default, Palestra."""
    own = (sys.executable, "-m", "palestra", "cluster", "drive", "{plan}", "{shard}")
    return Component("driver", Role.DRIVER, argv or own, **changes)


def restarting(times: int) -> OnExit:
    return OnExit("restart", times)  # type: ignore[arg-type]


@dataclass
class World:
    """One output folder with a submission in it."""

    folder: Path
    run: Run
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> RunFiles:
        return RunFiles(Path(self.run.output_dir))

    @property
    def submission(self) -> SubmissionFiles:
        return self.files.submission(self.run.submission)

    def write(self, **changes: Any) -> "World":
        """Write the plan (with changes) and what stands beside it."""
        self.run = dataclasses.replace(self.run, **changes)
        self.submission.folder.mkdir(parents=True, exist_ok=True)
        self.submission.plan.write_bytes(to_json(self.run))
        self.submission.supervisor.write_bytes(supervisor_zip())
        return self

    def command(self, job: str = "shards", task: int = 0) -> list[str]:
        submission = self.submission
        return [
            sys.executable,
            str(submission.supervisor),
            str(submission.plan),
            job,
            "--task",
            str(task),
        ]

    def start(self, job: str = "shards", task: int = 0) -> "subprocess.Popen[str]":
        """Start a supervisor; the caller waits for it."""
        return subprocess.Popen(
            self.command(job, task),
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def supervise(self, job: str = "shards", task: int = 0) -> tuple[int, str]:
        """Run a job to its end; its exit code, and what its supervisor said."""
        process = self.start(job, task)
        said, _ = process.communicate(timeout=150)
        return process.returncode, said

    def result(self, job: str = "shards", task: int | None = None) -> Mapping[str, Any]:
        """What the job left in its result file."""
        found: Mapping[str, Any] = json.loads(self.submission.job(job, task).result.read_bytes())
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = self.files.ledger.read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def done(self, shard: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.files.shard(shard).done.read_bytes())
        return found

    def logs(self) -> list[str]:
        return sorted(path.name for path in Path(self.run.log_dir).iterdir())


def world(
    folder: Path,
    *components: Component,
    tasks: int = 4,
    seeds: tuple[int, ...] | None = None,
    chunks: int | None = None,
    repeats: int = 1,
    executor: str = "local",
    **changes: Any,
) -> World:
    """A run of example questions: its shards are the tasks of one job, `shards`."""
    out = folder / "out"
    out.mkdir(parents=True, exist_ok=True)
    source = folder / "tasks.jsonl"
    source.write_text("".join(json.dumps(question(number)) + "\n" for number in range(tasks)))
    settings = CollectSettings(
        (InputFile(source),), out / "unused.jsonl", agent_name=AGENT, num_repeats=repeats
    )
    files = RunFiles(out)
    stamped = stamp(settings, shards_of(seeds, chunks), files, agents={AGENT}, seeded=True)
    names = tuple(shard.name for shard in stamped.shards)
    parts = components or (model_server(), driver())
    jobs = (
        PlannedJob("shards", parts, (Allocation(),), shards=names, array=len(names) > 1),
        _gathering("merge", Role.MERGE, "merge-shards", "shards"),
        _gathering("profile", Role.PROFILE, "profile-merged", "merge"),
    )
    run = Run(
        name="tests",
        output_dir=str(out),
        log_dir=str(out / "logs"),
        submission="0001",
        executor=executor,
        runtime="none",
        python=sys.executable,
        collect=Collect(CONFIGS, str(source), AGENT, num_repeats=repeats),
        policy=Policy("scripted", server="server"),
        shards=stamped.shards,
        jobs=jobs,
        input_digest=stamped.input_digest,
        tasks=stamped.tasks,
        rollouts=stamped.rollouts,
        code_version="tests",
    )
    return World(folder, run).write(**changes)


def _gathering(name: str, role: Role, command: str, after: str) -> PlannedJob:
    argv = (sys.executable, "-m", "palestra", "cluster", command, "{plan}")
    return PlannedJob(
        name, (Component(name, role, argv),), (Allocation(),), after=(After(job=after),)
    )


def question(number: int) -> dict[str, Any]:
    """One task; each is another one."""
    text = (
        f"Answer with a letter as \\boxed{{letter}}.\n\nQuestion {number}?\nA: 1\nB: 2\nC: 3\nD: 4"
    )
    return {
        "responses_create_params": {"input": [{"role": "user", "content": text}]},
        "options": [{"A": "1"}, {"B": "2"}, {"C": "3"}, {"D": "4"}],
        "expected_answer": "ABCD"[number % 4],
        "grading_mode": "strict_single_letter_boxed",
        "uuid": f"question-{number}",
    }


def collected(made: World, shard: str, *, but: int = 0, failed: int = 0) -> None:
    """What a driver leaves of a shard: scores of all rows but the last `but`, some failed for good."""
    run, files = made.run, made.files.shard(shard)
    settings = CollectSettings(
        (InputFile(made.files.given_inputs(shard)),),
        files.output,
        given=GivenRows(run.input_digest, run.rollouts or 0, run.tasks or 0),
        shard=Share([one.name for one in run.shards].index(shard), len(run.shards)),
    )
    prepare(settings, agents={AGENT}, semantics={}, version="tests")
    rows = [json.loads(line) for line in files.materialized_inputs.read_text().splitlines()]
    ended = [
        {name: row[name] for name in ("_ng_task_index", "_ng_rollout_index", "agent_ref")}
        for row in rows[: len(rows) - but]
    ]
    bad, good = ended[:failed], ended[failed:]
    files.output.write_text("".join(json.dumps({**row, "reward": 1.0}) + "\n" for row in good))
    if bad:
        why = {"_ng_failure_class": "data_error", "attempt": 1, "_ng_failure_terminal": True}
        files.failures.write_text("".join(json.dumps({**row, **why}) + "\n" for row in bad))


def finish(made: World, shard: str) -> None:
    """The done file of a shard whose rows are there."""
    files = made.files.shard(shard)
    write_done(files, count(files), {"shard": shard})


HANGING = "resources_servers/hanging/app.py"
_HANGING_APP = """
import re

from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Asked(VerifyRequest):
    uuid: str = ""


class Hanging(ResourcesServer):
    KIND verify(self, body: Asked) -> VerifyResponse:
        if body.uuid == "question-2":
            re.match(r"(a+)+$", "a" * 40 + "b")
        return self.reply(body, 1.0)
"""
_HANGING_CONFIG = """
hanging: {resources_servers: {hanging: {}}}
mcqa_simple_agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: hanging}
      model_server: {type: responses_api_models, name: policy_model}
"""


def hanging_environment(folder: Path, kind: str) -> Path:
    """The configuration of an environment in `folder` whose `verify` never returns for question 2.

    `kind`: `def` or `async def`.
    """
    app = folder / HANGING
    app.parent.mkdir(parents=True)
    app.write_text(_HANGING_APP.replace("KIND", kind))
    config = folder / "hanging.yaml"
    config.write_text(_HANGING_CONFIG)
    return config
