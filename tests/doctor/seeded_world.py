"""A world that is broken on purpose, and commands run in it as their users run them.

Commands run inside the test's process, with what they print kept as the log that a user would
have of them; so a broken run and its diagnosis together take a fraction of a second.
"""

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if str(HERE.parent / "faults") not in sys.path:
    sys.path.insert(0, str(HERE.parent / "faults"))

from fake_upstream import (  # noqa: E402
    Asked,
    Cut,
    Deed,
    FakeUpstream,
    Hang,
    Plan,
    Reply,
    completion,
    json_reply,
    serving,
)

from palestra.cli.collecting import collect  # noqa: E402
from palestra.cli.console import _set_up_logging, show_error  # noqa: E402
from palestra.cli.doctoring import doctor  # noqa: E402
from palestra.errors import PalestraError  # noqa: E402

__all__ = [
    "KEY",
    "Asked",
    "Cut",
    "Deed",
    "Done",
    "Hang",
    "Plan",
    "Reply",
    "SeededUpstream",
    "World",
    "completion",
    "fine",
    "json_reply",
    "new_world",
    "serving",
    "task",
]

KEY = "sk-a-key-of-the-seeded-faults"
RIGHT = "[[A=B]]"


def fine(asked: Asked) -> Deed:
    """The judge finds all equal; the policy answers."""
    return json_reply(completion(RIGHT if asked.body["model"] == "judge" else "It is 42."))


class SeededUpstream(FakeUpstream):
    """Two models, `tiny` and `judge`; `plan` says what becomes of a request."""

    def _read(self, path: str, body: dict[str, Any]) -> Asked:
        self.asked[0, 0] += 1
        return Asked(path, body, 0, 0, self.asked[0, 0])

    async def _models(self, writer: Any) -> bool:
        listed = [{"id": name, "object": "model"} for name in ("tiny", "judge")]
        await self._do(json_reply({"object": "list", "data": listed}), writer)
        return True


def task(deed: str = "fine", **fields: Any) -> dict[str, Any]:
    """A row that makes the environment do something."""
    asked = {"input": [{"role": "user", "content": f"Task: what is it? ({deed})"}]}
    return {"responses_create_params": asked, "deed": deed, **fields}


@dataclass
class Done:
    """A command that has ended."""

    code: int
    said: str


@dataclass
class World:
    """One folder, with the seeded project in it, and an endpoint that does as it is told."""

    folder: Path
    upstream: SeededUpstream
    url: str
    asked: tuple[tuple[str, ...], dict[str, Any]] = ((), {})
    """What the last collection was asked for."""

    @property
    def log(self) -> Path:
        """What the last command printed, as a user would have kept it."""
        return self.folder / "run.log"

    @property
    def output(self) -> Path:
        """Where the run writes."""
        return self.folder / "out" / "run.jsonl"

    def write(self, name: str, rows: Sequence[Any]) -> Path:
        """A file of rows, or of lines as they are."""
        path = self.folder / name
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file of the project."""
        path = self.folder / name
        assert old in path.read_text(), name
        path.write_text(path.read_text().replace(old, new))

    def arguments(self, *overrides: str) -> list[str]:
        """The overrides of a run that nothing is wrong with, then others."""
        return [
            "+config_paths=[configs/seeded.yaml]",
            f"++policy_base_url={self.url}",
            f"++judge_base_url={self.url}",
            f"++policy_api_key={KEY}",
            "++policy_model_name=tiny",
            "++head_server.port=0",
            *overrides,
        ]

    def settings(self, **given: Any) -> dict[str, Any]:
        """The settings of such a run, and others."""
        return {
            "agent_name": "seeded_agent",
            "input_jsonl_fpath": "tasks.jsonl",
            "output_jsonl_fpath": str(self.output),
            "max_attempts": 1,
            "rollout_timeout": 20,
            "progress": "none",
            "model_endpoint_readiness_timeout_seconds": 0,
            **given,
        }

    def collect(self, *overrides: str, **given: Any) -> Done:
        """`palestra collect`, with its output kept as the log."""
        self.asked = (overrides, given)
        return self.does(
            lambda: collect(
                self.arguments(*overrides), ng=False, extra=self.settings(**given), fleet="own"
            )
        )

    def doctor(self) -> dict[str, Any]:
        """`palestra doctor --json` with the arguments of the last collection, before a new run."""
        overrides, given = self.asked
        extra = self.settings(**{"overwrite": True, **given})
        done = self.does(lambda: doctor(self.arguments(*overrides), extra=extra, as_json=True))
        told: dict[str, Any] = json.loads(done.said[done.said.index("{") :])
        return told

    def does(self, command: Callable[[], int]) -> Done:
        """Run a command as `palestra` does, in this folder."""
        kept = io.StringIO()
        self._forget_modules()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(kept),
            contextlib.redirect_stderr(kept),
        ):
            _set_up_logging()
            try:
                code = command()
            except PalestraError as error:
                code = show_error(error)
        self.log.write_text(kept.getvalue())
        return Done(code, kept.getvalue())

    def _forget_modules(self) -> None:
        """Each command of a user is a process of its own, which reads the code as it is then."""
        inside = str(self.folder)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(inside):
                del sys.modules[name]
        for kept in self.folder.rglob("__pycache__"):
            shutil.rmtree(kept)


def new_world(folder: Path, upstream: SeededUpstream, url: str) -> World:
    """A copy of the seeded project, with one task in it."""
    shutil.copytree(HERE / "seeded", folder)
    world = World(folder, upstream, url)
    world.write("tasks.jsonl", [task()])
    upstream.plan = fine
    return world
