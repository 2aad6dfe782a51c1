"""Every client here trusts the tests' own authority, as a user's does: by SSL_CERT_FILE."""

from pathlib import Path

import pytest
from tls_authority import authority


@pytest.fixture(scope="session")
def authority_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority().cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(autouse=True)
def _trusting_the_authority(authority_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority_file))
