"""The code that travels with a run, and what never does."""

from pathlib import Path

import pytest
from planning import write

from palestra.cluster.packaging import snapshot


@pytest.mark.parametrize("secret", [".env", ".env.local", "deep/.env.production", "env.yaml"])
def test_files_of_secrets_stay_where_they_are(tmp_path: Path, secret: str) -> None:
    here = tmp_path / "here"
    for name in (secret, "deep/code.py", ".environment"):
        write(here / name, "KEY=sk-canary-1234567")

    snapshot("dir", here, tmp_path / "there")

    copied = {str(p.relative_to(tmp_path / "there")) for p in (tmp_path / "there").rglob("*")}
    assert copied == {"deep", "deep/code.py", ".environment"}
