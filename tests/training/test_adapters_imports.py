"""Adapters are there without what they adapt to."""

import subprocess
import sys

import pytest

HEAVY = "torch", "ray", "trl", "verl", "skyrl", "transformers"


@pytest.mark.slow
@pytest.mark.parametrize(
    "adapter",
    ["ray", "trl", "verl", "verl_loop", "skyrl", "nemo_rl", "nemo_rl_environment", "verifiers"],
)
def test_an_adapter_imports_no_trainer(adapter: str) -> None:
    program = (
        f"import sys, palestra.training.adapters.{adapter}; "
        f"print(sorted({set(HEAVY)} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.stdout == "[]\n", done.stderr
