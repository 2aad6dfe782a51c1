"""Whatever happens to a run, every requested rollout ends exactly once."""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scripted_runs import ScriptedAgent, collect, paths, read_rows, task, write_rows

from palestra.errors import CallError, InfraError, ModelError, RowError, VerifierError
from palestra.schema import RolloutKey, key_of

MAX_ATTEMPTS = 2
ENDINGS: tuple[Callable[[], float | CallError], ...] = (
    lambda: 1.0,
    lambda: 0.0,
    lambda: InfraError("reset"),
    lambda: ModelError("502"),
    lambda: RowError("422"),
    lambda: VerifierError("raised"),
)


def chaotic(seed: int) -> ScriptedAgent:
    """Each attempt ends in its own way, after a while of its own."""

    async def end(key: RolloutKey, attempt: int) -> float:
        dice = random.Random(f"{seed} {key} {attempt}")
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        ending = dice.choice(ENDINGS)()
        if isinstance(ending, CallError):
            raise ending
        return ending

    return ScriptedAgent(end)


def ended(folder: Path) -> tuple[Counter[RolloutKey], Counter[RolloutKey]]:
    """How often each rollout was scored, and how often it failed."""
    files = paths(folder).output, paths(folder).failures
    scored, failed = (Counter(key_of(row) for row in read_rows(path)) for path in files)
    return scored, failed


def check(folder: Path, count: int, repeats: int) -> None:
    """Every rollout is scored once, or has failed for good, and nothing else is there."""
    scored, failed = ended(folder)
    wanted = {RolloutKey(t, r) for t in range(count) for r in range(repeats)}
    assert scored.keys() | failed.keys() == wanted
    assert set(scored.values()) <= {1}
    assert max(failed.values(), default=0) <= MAX_ATTEMPTS
    last = [row for row in read_rows(paths(folder).failures) if row["_ng_failure_terminal"]]
    assert {key_of(row) for row in last} == wanted - scored.keys()
    assert len(last) == len(wanted) - len(scored)


@pytest.mark.slow
@given(
    count=st.integers(1, 6),
    repeats=st.integers(1, 3),
    bound=st.none() | st.integers(1, 4),
    seed=st.integers(0, 1000),
    cut=st.floats(0, 1),
)
@hypothesis_settings(max_examples=60, deadline=None)
def test_every_rollout_ends_once_also_after_a_cut_anywhere(
    count: int, repeats: int, bound: int | None, seed: int, cut: float
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "tasks.jsonl", [task(n) for n in range(count)])
        asked = {
            "num_repeats": repeats,
            "num_samples_in_parallel": bound,
            "max_attempts": MAX_ATTEMPTS,
        }
        first = collect(folder, chaotic(seed), **asked).accounting
        assert first.requested == first.scored + first.failed == count * repeats
        check(folder, count, repeats)

        for path in (paths(folder).output, paths(folder).failures):
            if path.exists():
                path.write_bytes(path.read_bytes()[: int(cut * path.stat().st_size)])
        again = collect(folder, chaotic(seed), resume_from_cache=True, **asked).accounting
        assert again.requested == again.scored + again.failed == count * repeats
        check(folder, count, repeats)
