"""The walk-through of a Slurm of one's own, typed as it stands in the document."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_site import why_not

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "topics" / "cluster.md"


def block(language: str, holds: str) -> str:
    found = re.findall(
        rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL
    )
    return next(text for text in found if holds in text)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_reader_with_a_slurm_of_their_own_gets_a_profile(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the document's model is the local one")
    if reason := why_not():
        pytest.skip(reason)
    (tmp_path / "tests").symlink_to(REPOSITORY / "tests")
    (tmp_path / "my-slurm.yaml").write_text(block("yaml", "# my-slurm.yaml"))
    # The sockets of its daemons need a short path.
    site = {"LOCAL_SLURM_DIR": f"/tmp/slurm-doc-{os.getpid()}", "LOCAL_SLURM_PREFIX": "doc"}
    env = {
        **os.environ,
        **site,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PALESTRA_STATE_DIR": str(tmp_path / "state"),
    }

    printed = tmp_path / "printed"
    try:
        with printed.open("wb") as file:
            done = subprocess.run(
                ["bash", "-e", "-c", block("sh", "local-slurm up")],
                cwd=tmp_path,
                env=env,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=200,
            )
    except subprocess.TimeoutExpired:
        logs = [p.read_text() for p in sorted((tmp_path / "slurm").rglob("*.log"))]
        pytest.fail("\n".join([printed.read_text(), *logs]))
    finally:
        down = [REPOSITORY / "tests/cluster/local-slurm", "down"]
        subprocess.run(down, env=env, capture_output=True, check=False, timeout=100)

    assert done.returncode == 0, printed.read_text()
    assert "rollouts expected 2 = scored 2 + failed 0" in printed.read_text()
    assert (tmp_path / "slurm" / "rollouts_reward_profiling.jsonl").exists()
