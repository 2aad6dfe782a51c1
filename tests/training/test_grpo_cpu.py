"""A few steps of examples/grpo_cpu: TRL's real trainer, a real model server, real rollouts."""

import json
import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "grpo_cpu"
STEPS = 3


def python_with_trl() -> str:
    """The interpreter that `make test-trl` installs TRL for; skips without it."""
    given = os.environ.get("PALESTRA_TRL_PYTHON")
    path = Path(given) if given else REPOSITORY / ".venv-trl" / "bin" / "python"
    if not path.is_file():
        pytest.skip(f"TRL is not installed in {path}; `make test-trl` installs it")
    return str(path)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_trls_trainer_trains_on_rollouts_and_the_reward_is_plotted(tmp_path: Path) -> None:
    line = [python_with_trl(), "-W", "ignore", str(EXAMPLE / "train.py"), "--seeds", "0"]
    line += ["--steps", str(STEPS), "--warm-up", "100", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}

    done = subprocess.run(
        line, capture_output=True, text=True, timeout=230, check=False, env=environment
    )

    assert "seed 0:" in done.stdout, done.stderr
    (curve,) = json.loads((tmp_path / "out" / "rewards.json").read_text())
    assert len(curve["rewards"]) == STEPS
    assert all(0 < reward < 1 for reward in curve["rewards"])
    assert "<svg" in (tmp_path / "out" / "rewards.svg").read_text()
    assert done.returncode in {0, 1}, done.stderr  # whether it rose in so few steps is chance
