"""A folder with the faulty project in it, and commands run there as real processes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_plan import prompt_of

from forked_commands import ForkedCommands
from palestra.system import children_of

HERE = Path(__file__).parent
PALESTRA = Path(sys.executable).parent / "palestra"
KEY = "sk-a-key-of-the-faults"
EXTRA_S = 10.0
"""How long a program may take to end beyond the deadlines of its rollouts."""


def long_run(name: str, quick: int) -> int:
    """How many trials: `quick`, unless the environment variable `name` says otherwise."""
    return int(os.environ.get(name) or quick)


Limits = Sequence[str]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str
    took_s: float

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    def refused(self) -> str:
        """The one clear error of bad input, from its beginning on."""
        assert self.code == 2, self.said
        return self.one_error()

    def one_error(self) -> str:
        """The one clear error, from its beginning on."""
        assert "Traceback" not in self.said, self.said
        assert len(self.errors) == 1, self.said
        return self.err[self.err.index("error: ") :]

    @property
    def said(self) -> str:
        return f"exit code {self.code} after {self.took_s:.1f} s\n{self.out}\n{self.err}"


@dataclass
class World:
    """One folder. `base_url` is where its model endpoint is."""

    folder: Path
    base_url: str = "http://127.0.0.1:9/v1"
    steadily: bool = False
    """Whether its environment never breaks."""
    commands: ForkedCommands | None = None
    """What runs commands that have no limits; none: they are started."""

    @classmethod
    def make(cls, folder: Path, **fields: Any) -> "World":
        """A new folder with the faulty project in it."""
        shutil.copytree(HERE / "project", folder)
        (folder / ".run").mkdir()
        return cls(folder, **fields)

    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(paths),
            "PALESTRA_RUN_DIR": str(self.folder / ".run"),
            "COLUMNS": "200",
            **({"FAULTS_ONLY": "fine"} if self.steadily else {}),
        }

    def policy(self) -> list[str]:
        return [
            f"++policy_base_url={self.base_url}",
            f"++policy_api_key={KEY}",
            "++policy_model_name=tiny",
            # No fleet that runs elsewhere on this machine is ours.
            "++head_server.port=0",
        ]

    def steady(
        self, *arguments: str, output: str = "run.jsonl", tasks: str = "tasks.jsonl"
    ) -> list[str]:
        """A collection in which nothing breaks by itself, one rollout a task."""
        return [
            *("collect", "--config", "configs/steady.yaml", *self.policy()),
            *("--agent", "steady_agent", "--input", tasks, "--output", output),
            *arguments,
        ]

    def run(self, *arguments: str, timeout_s: float = 50, limits: Limits = ()) -> Done:
        """Run `palestra` to its end, which must come in time; `limits` are those of `prlimit`."""
        started = time.monotonic()
        if self.commands is not None and not limits:
            ended = self.commands.run(
                "palestra", arguments, cwd=self.folder, env=self.env(), timeout_s=timeout_s
            )
            return Done(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - started)
        done = subprocess.run(
            [*(["prlimit", *limits, "--"] if limits else []), PALESTRA, *arguments],
            cwd=self.folder,
            env=self.env(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        took_s = time.monotonic() - started
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return Done(done.returncode, out, err, took_s)

    def start(self, *arguments: str, log: str = "log") -> "Running":
        """Start `palestra`; what it says goes to the file `log`."""
        path = self.folder / ".run" / log
        with path.open("wb") as file:
            process = subprocess.Popen(
                [PALESTRA, *arguments],
                cwd=self.folder,
                env=self.env(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Running(process, path)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a JSONL file; none when it does not exist."""
        path = self.folder / name
        return (
            [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
        )

    def write_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def sorted_lines(self, name: str) -> list[bytes]:
        return sorted((self.folder / name).read_bytes().splitlines(keepends=True))

    def outputs(self) -> dict[str, bytes]:
        """What the run has on disk."""
        return {
            path.name: path.read_bytes()
            for path in sorted(self.folder.glob("run*"))
            if path.is_file()
        }


@dataclass
class Running:
    """A command that runs, with what it has said so far."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, says: str, *, timeout_s: float = 30) -> None:
        """Wait until it has said `says`."""
        until(lambda: says in self.text() or self.process.poll() is not None, timeout_s=timeout_s)
        assert says in self.text(), self.text()

    def ended(self, *, timeout_s: float) -> int:
        """Its exit code, which must come in time."""
        try:
            return self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.text()}") from None

    def children(self) -> list[int]:
        """The run, which a guard watches, and the processes of that run."""
        runs = children_of(self.pid)
        return [*runs, *(server for run in runs for server in children_of(run))]

    def end(self) -> None:
        """End it and everything in its group, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def ended_at_last(running: Running) -> Iterator[Running]:
    """`running`, which is gone when the body ends."""
    try:
        yield running
    finally:
        running.end()


def until(holds: Callable[[], bool], *, timeout_s: float = 20) -> None:
    """Wait for something outside of this process; there is no event to wait on."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def tasks(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Task rows whose prompts name them."""
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": prompt_of(n)}]},
            "name": f"task {n}",
            **fields,
        }
        for n in range(count)
    ]


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
