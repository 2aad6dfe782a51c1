"""What diagnose quotes holds no secret of whoever reads it."""

import contextlib
import io
from pathlib import Path

import pytest

from palestra.cli.diagnosing import diagnose
from palestra.settings import DiagnoseArgs

SECRET = "hunter2-hunter2"


def shown(folder: Path, log: str, *, as_json: bool = False) -> str:
    (folder / "run.log").write_text(log)
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        diagnose(DiagnoseArgs(run="run.log", as_json=as_json))
    return said.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "env_yaml", [f"my_api_key: {SECRET}\n", f"my_api_key: {SECRET}\nbroken: [1,\n"]
)
def test_a_secret_of_env_yaml_is_masked(tmp_path: Path, env_yaml: str, *, as_json: bool) -> None:
    (tmp_path / "env.yaml").write_text(env_yaml)

    said = shown(tmp_path, f"error: x answered 401: bad key {SECRET}\n", as_json=as_json)

    assert "answered 401: bad key ****" in said
    assert SECRET not in said


def test_a_secret_of_the_environment_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)

    assert SECRET not in shown(tmp_path, f"ValueError: {SECRET}\n")


def test_the_password_of_a_url_is_masked(tmp_path: Path) -> None:
    said = shown(tmp_path, "error: http://me:some-word@host/v1/models: Connection refused\n")

    assert "http://me:****@host" in said


def test_the_line_of_a_config_is_quoted_without_its_secret(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(f"my_api_key: '{SECRET}\n")

    said = shown(tmp_path, f"error: {config}, line 1, column 14: found no end of a string\n")

    assert "config.bad-yaml" in said
    assert SECRET not in said
