"""The journal cut at every byte: whatever is left of it, a resumed run ends as an uncut one."""

import multiprocessing
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from faults_world import long_run
from scripted_runs import ScriptedAgent, collect, prepared, read_rows, task, write_rows

from palestra.errors import InfraError, VerifierError
from palestra.rollouts import Collected
from palestra.schema import RolloutKey, key_of

TASKS, ATTEMPTS = 20, 2
REPEATS = {"scored": 10, "failed": 7}
"""Both make a file of 200 rows or a few more: a failed rollout takes a row and a half."""
QUICK = 300
"""Cuts of such a file in the quick form."""
REPEATS_OF_ALL_CUTS = long_run("FAULTS_CUTS", 1)
"""Of each of the 20 tasks, for a file that is cut at every byte. Cuts times rows is what it costs."""
SHARES = 8
"""Parts of the file, in the slow form; processes take one after the other."""
IN_MEMORY = Path("/dev/shm")


def good(key: RolloutKey, _attempt: int) -> float:
    """Every rollout is scored, each with a reward of its own."""
    return (key.task * 10 + key.rollout) / 100


def mixed(key: RolloutKey, attempt: int) -> float:
    """Two attempts for most rollouts: some fail for good, some at first, a few not at all."""
    match (key.task + key.rollout) % 10:
        case 0:
            return 1.0
        case 1 | 2:
            if attempt == 1:
                raise InfraError(f"reset at {key}")
            return 0.5
        case 3:
            raise VerifierError(f"raised at {key}")
    raise InfraError(f"gone at {key}")


SCRIPTS = {"scored": good, "failed": mixed}


def write_tasks(folder: Path) -> None:
    write_rows(folder / "tasks.jsonl", [task(n) for n in range(TASKS)])


def ended_for_good(folder: Path) -> Counter[RolloutKey]:
    """The rollouts that failed and will not be tried again."""
    rows = read_rows(folder / "run_failures.jsonl")
    return Counter(key_of(row) for row in rows if row["_ng_failure_terminal"])


@dataclass(frozen=True)
class Uncut:
    """A run that nothing disturbed."""

    script: str
    repeats: int
    files: dict[str, bytes] = field(default_factory=dict)
    failed: Counter[RolloutKey] = field(default_factory=Counter)

    @classmethod
    def make(cls, script: str, repeats: int, folder: Path) -> "Uncut":
        write_tasks(folder)
        unknown = cls(script, repeats)
        unknown.run(folder)
        files = {path.name: path.read_bytes() for path in folder.glob("run*")}
        return replace(unknown, files=files, failed=ended_for_good(folder))

    def run(self, folder: Path, *, resume: bool = False) -> Collected:
        agent = ScriptedAgent(SCRIPTS[self.script])
        return collect(
            folder,
            agent,
            num_repeats=self.repeats,
            max_attempts=ATTEMPTS,
            resume_from_cache=resume,
        )

    @property
    def cut_file(self) -> str:
        return "run.jsonl" if self.script == "scored" else "run_failures.jsonl"

    @property
    def data(self) -> bytes:
        return self.files[self.cut_file]

    def check(self, sizes: Iterable[int], folder: Path) -> int:
        """Cut to each of `sizes`, resume, compare with the run that was not cut; how many.

        What is prepared is compared for every cut. Cuts that leave the same whole rows and
        prepare the same are one case, which is run to its end once.
        """
        write_tasks(folder)
        cases: dict[int, Any] = {}
        checked = list(sizes)
        for size in checked:
            self._write(size, folder)
            ready = prepared(
                folder, num_repeats=self.repeats, max_attempts=ATTEMPTS, resume_from_cache=True
            )
            whole = self.data.rfind(b"\n", 0, size) + 1
            assert (folder / self.cut_file).read_bytes() == self.data[:whole], size
            found = (ready.done, ready.attempts, ready.accounting.line())
            if whole not in cases:
                self._run(size, folder)
            assert cases.setdefault(whole, found) == found, size
        return len(checked)

    def _write(self, size: int, folder: Path) -> None:
        for name, data in self.files.items():
            (folder / name).write_bytes(data[:size] if name == self.cut_file else data)

    def _run(self, size: int, folder: Path) -> None:
        self._write(size, folder)
        accounting = self.run(folder, resume=True).accounting
        assert accounting.requested == accounting.scored + accounting.failed, size
        rows = (folder / "run.jsonl").read_bytes().splitlines()
        assert sorted(rows) == sorted(self.files["run.jsonl"].splitlines()), size
        assert ended_for_good(folder) == self.failed, size
        assert {path.name for path in folder.glob("run*")} == set(self.files), size


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory where there is one: the disk is not what is tested here."""
    made = tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made)


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as made:
        yield made


@pytest.fixture(params=SCRIPTS)
def uncut(request: pytest.FixtureRequest, folder: Path) -> Uncut:
    """A run whose journal has at least 200 rows."""
    made = Uncut.make(request.param, REPEATS[request.param], folder)
    assert made.data.count(b"\n") >= 200
    return made


def some_cuts(data: bytes) -> Sequence[int]:
    """The ends of the file, a few rows' ends and the bytes beside them, and any bytes."""
    dice = random.Random(len(data))
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    beside = [end + by for end in dice.sample(ends, 30) for by in (-2, -1, 0, 1)]
    anywhere = dice.sample(range(len(data)), QUICK - len(beside) - 2)
    return sorted({0, *(at for at in beside if at <= len(data)), *anywhere, len(data)})


@pytest.mark.slow
def test_a_journal_cut_anywhere_is_resumed_as_if_it_were_not(uncut: Uncut, folder: Path) -> None:
    sizes = some_cuts(uncut.data)

    assert uncut.check(sizes, folder) == len(sizes)


@pytest.mark.slow
@pytest.mark.alone  # it takes every core
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_journal_cut_at_every_byte_is_resumed_as_if_it_were_not(
    script: str, folder: Path
) -> None:
    uncut = Uncut.make(script, REPEATS_OF_ALL_CUTS, folder)
    bounds = range(0, len(uncut.data) + 2, len(uncut.data) // SHARES + 1)
    shares = [range(a, b) for a, b in pairwise([*bounds, len(uncut.data) + 1])]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        checked = pool.map(every_cut, [uncut] * len(shares), shares)
        assert sum(checked) == len(uncut.data) + 1


def every_cut(uncut: Uncut, sizes: range) -> int:
    """These cuts, in a process and a folder of its own; how many they were."""
    with in_memory() as folder:
        return uncut.check(sizes, folder)


@pytest.mark.slow
def test_both_files_cut_at_once_are_resumed(uncut: Uncut, folder: Path) -> None:
    dice = random.Random(7)
    for _ in range(50):
        for name, data in uncut.files.items():
            whole = name == "run_manifest.json" or not name.endswith("l")
            size = len(data) if whole or "inputs" in name else dice.randint(0, len(data))
            (folder / name).write_bytes(data[:size])
        accounting = uncut.run(folder, resume=True).accounting
        assert accounting.requested == accounting.scored + accounting.failed
        rows = (folder / "run.jsonl").read_bytes().splitlines()
        assert len(rows) == len(set(rows)) == accounting.scored


@pytest.mark.parametrize("share", [0, 0.5, 0.999])
def test_materialized_inputs_that_were_cut_are_made_again(
    uncut: Uncut, folder: Path, share: float
) -> None:
    inputs = uncut.files["run_materialized_inputs.jsonl"]
    for name, data in uncut.files.items():
        (folder / name).write_bytes(b"" if name == uncut.cut_file else data)
    (folder / "run_materialized_inputs.jsonl").write_bytes(inputs[: int(len(inputs) * share)])
    accounting = uncut.run(folder, resume=True).accounting

    assert accounting.remaining == 0
    assert (folder / "run_materialized_inputs.jsonl").read_bytes() == inputs
