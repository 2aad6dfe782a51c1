"""Datasets in GitLab's registry: a fake that answers as GitLab does, and a real MLflow server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sharing_world import Moves, jsonl, rows

from faulty_http import Fault
from palestra.datasets.registry.access import Registry, RegistryAddress, open_registry
from palestra.datasets.registry.artifacts import Stored, download_from_registry, upload_to_registry
from palestra.datasets.registry.catalogue import Catalogue
from palestra.datasets.transfer.outgoing import outgoing
from palestra.datasets.transfer.patience import TransferPatience
from palestra.errors import ConfigError, CredentialsRejected, InfraError, RunFailed
from palestra.settings import GitlabDownload, GitlabUpload
from registry_fakes import TOKEN, FakeGitlab, fake_gitlab, mlflow_server

LARGE = jsonl(rows(3000))
SMALL = jsonl(rows(2))


@dataclass
class User:
    """Someone with a folder and a registry."""

    folder: Path
    uri: str
    token: str = TOKEN
    moves: Moves = field(default_factory=Moves)
    pauses: list[float] = field(default_factory=list)
    now: float = 0.0

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    @contextmanager
    def registry(self) -> Iterator[Registry]:
        """Waits without waiting: the clock only runs while it pauses."""
        patience = TransferPatience(
            30.0, answer_timeout_s=20.0, clock=lambda: self.now, sleep=self._sleep
        )
        with open_registry(RegistryAddress(self.uri, self.token), patience) as registry:
            yield registry

    def upload(self, data: bytes, name: str = "letters", version: str = "0.0.1") -> Stored:
        path = self.folder / "train.jsonl"
        path.write_bytes(data)
        settings = GitlabUpload(dataset_name=name, version=version, input_jsonl_fpath=str(path))
        with self.registry() as registry:
            return upload_to_registry(outgoing(path), settings, registry, self.moves)

    def download(self, **settings: Any) -> bytes:
        output = self.folder / "out" / "rows.jsonl"
        given = {"dataset_name": "letters", "version": "0.0.1", "artifact_fpath": "train.jsonl"}
        asked = GitlabDownload.model_validate({**given, "output_fpath": str(output), **settings})
        with self.registry() as registry:
            download_from_registry(asked, registry, self.moves)
        return output.read_bytes()

    def left(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "out").glob("*"))


@pytest.fixture
def gitlab() -> Iterator[FakeGitlab]:
    pytest.importorskip("mlflow")
    with fake_gitlab() as gitlab:
        yield gitlab


@pytest.fixture
def user(tmp_path: Path, gitlab: FakeGitlab) -> User:
    return User(tmp_path, gitlab.uri)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("sqlalchemy", reason="the server is in mlflow, not in mlflow-skinny")
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as uri:
        yield uri


@pytest.mark.slow
def test_a_file_goes_up_and_comes_back(user: User, gitlab: FakeGitlab) -> None:
    stored = user.upload(LARGE)

    assert not stored.unchanged
    assert gitlab.file("letters", "0.0.1", "train.jsonl") == LARGE
    assert user.download() == LARGE
    assert user.left() == ["rows.jsonl"]


def test_the_same_file_goes_up_once(user: User, gitlab: FakeGitlab) -> None:
    user.upload(SMALL)

    assert user.upload(SMALL).unchanged
    assert gitlab.count("PUT") == 1


def test_a_version_does_not_change(user: User, gitlab: FakeGitlab) -> None:
    user.upload(SMALL)

    with pytest.raises(ConfigError, match=r"has a file train.jsonl with other content"):
        user.upload(LARGE)

    assert gitlab.file("letters", "0.0.1", "train.jsonl") == SMALL


def test_an_upload_that_was_stopped_goes_on(user: User, gitlab: FakeGitlab) -> None:
    gitlab.faults = [Fault("PUT", status=400)]
    with pytest.raises(RunFailed, match="answered 400"):
        user.upload(SMALL)

    user.upload(SMALL)

    assert gitlab.file("letters", "0.0.1", "train.jsonl") == SMALL
    assert len(gitlab.models["letters"]) == 1


def test_an_upload_of_which_other_bytes_arrive_fails(user: User, gitlab: FakeGitlab) -> None:
    gitlab.faults = [Fault("GET .*/files/", status=404), Fault("GET .*/files/", corrupt=True)]

    with pytest.raises(RunFailed, match="has the sha256"):
        user.upload(SMALL)


def test_progress_tells_the_bytes_of_both_ways(user: User) -> None:
    user.upload(LARGE)
    user.download()

    assert user.moves.started == [("train.jsonl", len(LARGE), 0)] * 2
    assert user.moves.moved == 2 * len(LARGE)


def test_a_download_that_is_cut_goes_on_where_it_was(user: User, gitlab: FakeGitlab) -> None:
    user.upload(LARGE)
    gitlab.faults = [
        Fault("GET .*/files/", times=1, cut_after=1),
        Fault("GET .*/files/", times=1, cut_after=200_000),
    ]
    gitlab.asked.clear()

    assert user.download() == LARGE
    spans = [sent.get("Range", "") for sent in gitlab.sent[-3:]]
    assert any(span not in {"", "bytes=0-0", "bytes=0-"} for span in spans)


def test_other_bytes_than_were_uploaded_are_not_kept(user: User, gitlab: FakeGitlab) -> None:
    user.upload(SMALL)
    gitlab.faults = [Fault("GET .*/files/", corrupt=True, times=5)]

    with pytest.raises(InfraError, match="and should have"):
        user.download()

    assert user.left() == []


def test_a_page_to_log_in_never_becomes_the_file(user: User, gitlab: FakeGitlab) -> None:
    user.upload(SMALL)
    page = Fault("GET .*/files/", status=200, headers={"Content-Type": "text/html"}, times=9)
    gitlab.faults = [page]

    with pytest.raises(CredentialsRejected, match="web page instead of the file"):
        user.download()

    assert not (user.folder / "out" / "rows.jsonl").exists()


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_trouble_that_passes_is_waited_for(user: User, gitlab: FakeGitlab, status: int) -> None:
    gitlab.faults = [
        Fault("registered-models/get", status=status),
        Fault("PUT", status=status),
        Fault("GET .*/files/", status=status),
    ]

    user.upload(SMALL)

    assert len(user.pauses) == 3
    assert gitlab.file("letters", "0.0.1", "train.jsonl") == SMALL


def test_trouble_that_lasts_is_reported_after_the_deadline(user: User, gitlab: FakeGitlab) -> None:
    gitlab.faults = [Fault("model-versions/get", status=503, times=1000)]

    with pytest.raises(InfraError, match=r"gave up after .* tries"):
        user.upload(SMALL)

    assert sum(user.pauses) <= 30


def test_a_registry_that_nobody_answers_for_is_reported(user: User) -> None:
    user.uri = "http://127.0.0.1:9/ml/mlflow"

    with pytest.raises(InfraError, match="the connection to the registry failed"):
        user.upload(SMALL)


def test_a_token_that_is_refused_is_told_with_where_to_put_one(user: User) -> None:
    user.token = "glpat-unknown-canary"

    with pytest.raises(CredentialsRejected, match="rejects the token") as refused:
        user.upload(SMALL)

    assert "mlflow_tracking_token" in refused.value.hint


def test_a_version_that_is_not_there_is_told_with_those_that_are_known(user: User) -> None:
    user.upload(SMALL)

    with pytest.raises(ConfigError, match=r"has no version 9.9.9") as refused:
        user.download(version="9.9.9")

    assert refused.value.hint == "known: 0.0.1"


def test_names_are_case_sensitive(user: User, gitlab: FakeGitlab) -> None:
    user.upload(SMALL, "Letters")

    with pytest.raises(ConfigError, match="no dataset 'letters'; did you mean 'Letters'"):
        user.download()

    with user.registry() as registry:
        assert not Catalogue(registry).has("letters")


def test_a_dataset_is_deleted_with_its_versions(user: User, gitlab: FakeGitlab) -> None:
    user.upload(SMALL)

    with user.registry() as registry:
        Catalogue(registry).delete("letters")

    assert gitlab.models == {}


def test_what_is_missing_is_named_with_where_to_put_it() -> None:
    with pytest.raises(ConfigError, match="mlflow_tracking_uri and mlflow_tracking_token") as told:
        RegistryAddress.of({}, {})

    assert "env.yaml, or set MLFLOW_TRACKING_URI" in told.value.hint
    assert "env.yaml, or set MLFLOW_TRACKING_TOKEN" in told.value.hint


def test_the_environment_stands_in_for_the_configuration() -> None:
    environ = {"MLFLOW_TRACKING_URI": "https://gitlab/x/", "MLFLOW_TRACKING_TOKEN": "t"}

    assert RegistryAddress.of({}, environ) == RegistryAddress("https://gitlab/x", "t")


@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "1.0.0-rc1", "1.0.x"])
def test_a_version_has_three_numbers(version: str) -> None:
    with pytest.raises(ValueError, match=r"x\.y\.z"):
        GitlabUpload(dataset_name="a", version=version, input_jsonl_fpath="a")


def test_the_environment_is_left_as_it_was(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "theirs")
    before = dict(os.environ)

    with user.registry():
        assert os.environ["MLFLOW_TRACKING_TOKEN"] == TOKEN

    assert dict(os.environ) == before


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_real_mlflow_server_keeps_a_dataset(
    server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    user = User(tmp_path, server)
    user.upload(LARGE, version="0.0.1")
    user.upload(SMALL, version="0.1.0")

    assert user.download(version="0.0.1") == LARGE
    assert user.download(version="0.1.0") == SMALL
    assert user.upload(LARGE, version="0.0.1").unchanged
    with pytest.raises(ConfigError, match="with other content"):
        user.upload(SMALL, version="0.0.1")
    with pytest.raises(ConfigError, match=r"has no version 9.9.9") as refused:
        user.download(version="9.9.9")
    assert refused.value.hint == "known: 0.0.1, 0.1.0"
    with pytest.raises(ConfigError, match="does not exist in the registry"):
        user.download(artifact_fpath="nope.jsonl")
    assert capfd.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_download_of_a_real_mlflow_server_goes_on(server: str, tmp_path: Path) -> None:
    user = User(tmp_path, server)
    user.upload(LARGE, name="resumed")
    user.download(dataset_name="resumed")
    [whole] = (tmp_path / "out").glob("rows.jsonl")
    whole.unlink()
    part = _part_of(user, "resumed")
    part.write_bytes(LARGE[:100_000])

    assert user.download(dataset_name="resumed") == LARGE
    assert user.moves.started[-1] == ("train.jsonl", len(LARGE), 100_000)


def _part_of(user: User, name: str) -> Path:
    """Where the bytes of a download grow."""
    from palestra.datasets.transfer.files import Digest, arriving

    sent = outgoing(user.folder / "train.jsonl")
    with arriving(user.folder / "out" / "rows.jsonl", Digest(sent.sha256), len(LARGE)) as part:
        return part.path


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_real_mlflow_server_forgets_a_dataset(server: str, tmp_path: Path) -> None:
    user = User(tmp_path, server)
    user.upload(SMALL, name="Gone")

    with user.registry() as registry:
        catalogue = Catalogue(registry)
        with pytest.raises(ConfigError, match="did you mean 'Gone'"):
            catalogue.require("gone")
        catalogue.delete("Gone")

        assert not catalogue.has("Gone")
