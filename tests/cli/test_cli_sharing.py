"""The commands that move datasets: what they print, what they ask, what they never show."""

import io
import sys
import threading
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from faulty_http import Fault
from hub_fakes import WRITER, FakeHub, fake_hub
from palestra.cli import ng, sharing
from palestra.cli.console import show_error
from palestra.cli.main import app
from palestra.cli.transfers import Lines, sized
from palestra.datasets import Sources
from palestra.datasets.entries import DatasetEntry
from palestra.errors import ConfigError, PalestraError, require_extra
from registry_fakes import TOKEN, FakeGitlab, fake_gitlab

# The hub's client sends large files in a way that its own HTTP library calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPOSITORY = Path(__file__).parents[2]
CONFIG = "resources_servers/mcqa/configs/mcqa.yaml"
REPO = "acme/Nemotron-RL-knowledge-letters"
ROW = (
    b'{"responses_create_params": {"input": "?"}, "expected_answer": "A", "reward_profiles": []}\n'
)
ROWS = ROW * 100
UPLOAD = (
    "+input_jsonl_fpath=train.jsonl",
    "+hf_organization=acme",
    "+dataset_name=letters",
    f"+resource_config_path={CONFIG}",
)
GITLAB = ("+dataset_name=letters", "+version=0.0.1")
AT_ONCE = "++network_deadline_s=0.01"

Command = Callable[..., int]


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str
    trace: str

    def refused(self) -> str:
        """The one clear error of bad input."""
        assert self.code == 2, self.err
        assert self.err.count("error: ") == 1, self.err
        return self.err


@dataclass
class Desk:
    """A folder with a file, a hub, a registry, and a keyboard."""

    folder: Path
    hub: FakeHub
    gitlab: FakeGitlab
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    said: list[str] = field(default_factory=list)

    def types(self, command: Command, *overrides: str, answer: str = "") -> Done:
        """Run a command as `ng_*` does."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        trace = ""
        try:
            code = command(list(overrides), ng=True)
        except PalestraError as error:
            code = show_error(error)
            trace = "".join(traceback.format_exception(error))
        out, err = self.capsys.readouterr()
        return Done(code, out, err, trace)

    def stored(self) -> None:
        """The file is in the registry."""
        done = self.types(sharing.upload_to_gitlab, *GITLAB, "+input_jsonl_fpath=train.jsonl")
        assert done.code == 0, done.err


@pytest.fixture
def desk(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Desk]:
    pytest.importorskip("huggingface_hub")
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.jsonl").write_bytes(ROWS)
    with fake_hub() as hub, fake_gitlab() as gitlab:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        for name in ("HF_TOKEN", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        (tmp_path / "env.yaml").write_text(
            f"hf_token: {WRITER}\n"
            f"mlflow_tracking_uri: {gitlab.uri}\n"
            f"mlflow_tracking_token: {TOKEN}\n"
        )
        yield Desk(tmp_path, hub, gitlab, capsys, monkeypatch)


@pytest.mark.parametrize(
    "name",
    [
        "upload_dataset_to_hf",
        "download_dataset_from_hf",
        "upload_dataset_to_gitlab",
        "download_dataset_from_gitlab",
        "gitlab_to_hf_dataset",
        "delete_dataset_from_gitlab",
    ],
)
def test_the_fields_names_lead_here(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [f"ng_{name}"])

    with pytest.raises(SystemExit) as ended:
        getattr(ng, name)()

    assert project["scripts"][f"ng_{name}"] == f"palestra.cli.ng:{name}"
    assert ended.value.code == 2
    assert ": is required" in capsys.readouterr().err or name == "gitlab_to_hf_dataset"


@pytest.mark.slow
def test_an_upload_prints_the_pull_requests_link(desk: Desk) -> None:
    done = desk.types(sharing.upload_to_hub, *UPLOAD, "+create_pr=true")

    assert done.code == 0
    assert (
        f"Pull Request created: {desk.hub.endpoint}/datasets/{REPO}/discussions/1" not in done.err
    )
    assert f"Pull Request created: {desk.hub.endpoint}/datasets/{REPO}/discussions/1" in done.out
    assert "verified: sha256 " in done.out


def test_a_check_that_fails_uploads_nothing(desk: Desk) -> None:
    (desk.folder / "train.jsonl").write_bytes(ROW + b'{"question": "?"}\n')

    done = desk.types(sharing.upload_to_hub, *UPLOAD)

    assert "without responses_create_params: rows 2" in done.refused()
    assert desk.hub.asked == []


@pytest.mark.parametrize(
    ("command", "settings"),
    [(sharing.upload_to_hub, UPLOAD), (sharing.upload_to_gitlab, GITLAB)],
)
def test_an_upload_is_one_file_and_a_glob_is_named(
    desk: Desk, command: Command, settings: tuple[str, ...]
) -> None:
    (desk.folder / "train2.jsonl").write_bytes(ROWS)

    said = desk.types(command, *settings, "++input_jsonl_fpath=tra*.jsonl").refused()

    assert "tra*.jsonl is a glob, and this is about one file" in said
    assert desk.hub.asked == []


def test_everything_that_is_missing_is_named_at_once(desk: Desk) -> None:
    said = desk.types(sharing.upload_to_hub).refused()

    for name in ("input_jsonl_fpath", "hf_organization", "resource_config_path"):
        assert f"{name}: is required" in said


def test_without_a_token_nothing_is_uploaded(desk: Desk) -> None:
    (desk.folder / "env.yaml").unlink()

    said = desk.types(sharing.upload_to_hub, *UPLOAD).refused()

    assert "hf_token is not set" in said
    assert "put hf_token: hf_… into env.yaml, or set HF_TOKEN" in said
    assert desk.hub.asked == []


def test_the_environments_token_will_do(desk: Desk) -> None:
    (desk.folder / "env.yaml").unlink()
    desk.monkeypatch.setenv("HF_TOKEN", WRITER)

    assert desk.types(sharing.upload_to_hub, *UPLOAD).code == 0


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["+output_dirpath=a", "+output_fpath=b", "+split=train"], "give one of them"),
        (["+output_dirpath=a", "+artifact_fpath=b", "+split=train"], "give one of them"),
        (["+split=train"], "say where to"),
        (["+output_fpath=b"], "give split or artifact_fpath"),
    ],
)
def test_downloads_that_cannot_be_are_one_error_before_anybody_is_asked(
    desk: Desk, overrides: list[str], said: str
) -> None:
    done = desk.types(sharing.download_from_hub, f"+repo_id={REPO}", *overrides)

    assert said in done.refused()
    assert desk.hub.asked == []


def test_a_download_tells_what_it_wrote(desk: Desk) -> None:
    desk.hub.put(REPO, {"train.jsonl": ROWS})

    done = desk.types(
        sharing.download_from_hub, f"+repo_id={REPO}", "+split=train", "+output_dirpath=out"
    )

    assert done.out == "wrote out/train.jsonl\n"
    assert "train.jsonl: 9.1 kB of 9.1 kB, 100 %" in done.err
    assert (desk.folder / "out" / "train.jsonl").read_bytes() == ROWS


def test_the_registrys_settings_that_are_missing_are_named(desk: Desk) -> None:
    (desk.folder / "env.yaml").unlink()

    said = desk.types(sharing.upload_to_gitlab, *GITLAB, "+input_jsonl_fpath=train.jsonl").refused()

    assert "mlflow_tracking_uri and mlflow_tracking_token are not set" in said
    assert desk.gitlab.asked == []


def test_a_file_goes_to_the_registry_and_comes_back(desk: Desk) -> None:
    desk.stored()

    done = desk.types(
        sharing.download_from_gitlab,
        *GITLAB,
        "+artifact_fpath=train.jsonl",
        "+output_fpath=out/rows.jsonl",
    )

    assert done.out == "wrote out/rows.jsonl\n"
    assert (desk.folder / "out" / "rows.jsonl").read_bytes() == ROWS


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yep\n", "Yn\n"])
def test_anything_but_yes_deletes_nothing(desk: Desk, answer: str) -> None:
    desk.stored()

    done = desk.types(sharing.delete_from_gitlab, "+dataset_name=letters", answer=answer)

    assert done.code == 0
    assert "Found model 'letters' in the registry." in done.out
    assert "[y/N]: " in done.out
    assert "Skipped" in done.out
    assert "letters" in desk.gitlab.models


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_yes_deletes(desk: Desk, answer: str) -> None:
    desk.stored()

    done = desk.types(sharing.delete_from_gitlab, "+dataset_name=letters", answer=answer)

    assert "Deleted 'letters'" in done.out
    assert desk.gitlab.models == {}


def test_yes_can_be_said_beforehand(desk: Desk) -> None:
    desk.stored()

    done = desk.types(sharing.delete_from_gitlab, "+dataset_name=letters", "+yes=true")

    assert "[y/N]" not in done.out
    assert desk.gitlab.models == {}


def test_another_spelling_deletes_nothing(desk: Desk) -> None:
    desk.stored()

    done = desk.types(sharing.delete_from_gitlab, "+dataset_name=Letters", "+yes=true")

    assert "did you mean 'letters'" in done.refused()
    assert "letters" in desk.gitlab.models


@pytest.mark.slow
def test_an_upload_deletes_from_the_registry_when_asked_to_and_told_yes(desk: Desk) -> None:
    desk.stored()

    done = desk.types(sharing.upload_to_hub, *UPLOAD, "+delete_from_gitlab=true", answer="y\n")

    assert done.code == 0
    assert done.out.index("verified") < done.out.index("[y/N]") < done.out.index("Deleted")
    assert desk.gitlab.models == {}


def test_an_upload_that_is_not_what_was_sent_deletes_nothing(desk: Desk) -> None:
    desk.stored()
    desk.hub.put(REPO, {})
    desk.hub.loses_bytes = True

    done = desk.types(sharing.upload_to_hub, *UPLOAD, "+delete_from_gitlab=true", "+yes=true")

    assert done.code == 1
    assert "do not use the file" in done.err
    assert "letters" in desk.gitlab.models


def test_what_is_not_in_the_registry_is_told_before_the_upload(desk: Desk) -> None:
    done = desk.types(sharing.upload_to_hub, *UPLOAD, "+delete_from_gitlab=true", "+yes=true")

    assert "no dataset 'letters'" in done.refused()
    assert desk.hub.asked == []


@pytest.mark.slow
def test_a_move_takes_the_registrys_own_file(desk: Desk) -> None:
    desk.stored()
    moved = [item for item in (*UPLOAD, *GITLAB) if "input_jsonl_fpath" not in item]

    done = desk.types(
        sharing.migrate, *dict.fromkeys(moved), "+artifact_fpath=train.jsonl", answer="y\n"
    )

    assert done.code == 0, done.err
    assert desk.hub.repositories[REPO].revisions["main"] == {"train.jsonl": ROWS}
    assert desk.gitlab.models == {}


@pytest.mark.slow
def test_versions_that_were_uploaded_nowhere_do_not_go_without_a_question(desk: Desk) -> None:
    desk.stored()
    later = ("+dataset_name=letters", "+version=0.0.2", "+input_jsonl_fpath=train.jsonl")
    assert desk.types(sharing.upload_to_gitlab, *later).code == 0
    asked = [item for item in (*UPLOAD, *GITLAB) if "input_jsonl_fpath" not in item]
    moved = [*dict.fromkeys(asked), "+artifact_fpath=train.jsonl"]

    assert (
        "would delete other versions too"
        in desk.types(sharing.migrate, *moved, "+yes=true").refused()
    )
    assert desk.hub.asked == []

    assert "[y/N]" in desk.types(sharing.migrate, *moved, answer="n\n").out
    assert set(desk.gitlab.models["letters"]) == {"0.0.1", "0.0.2"}


@pytest.mark.slow
def test_a_move_always_asks(desk: Desk) -> None:
    desk.stored()

    done = desk.types(sharing.migrate, *UPLOAD, answer="n\n")

    assert "[y/N]" in done.out
    assert "letters" in desk.gitlab.models
    assert REPO in desk.hub.repositories


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ((*UPLOAD, "+delete_from_gitlab=false"), "delete_from_gitlab: "),
        ((*UPLOAD, "+version=0.0.1"), "pass one or the other"),
        (UPLOAD[1:], "the file to upload is missing"),
        ((*UPLOAD[1:], "+version=0.0.1"), "artifact_fpath: is required"),
    ],
)
def test_moves_that_cannot_be_are_one_error_before_anybody_is_asked(
    desk: Desk, overrides: tuple[str, ...], said: str
) -> None:
    assert said in desk.types(sharing.migrate, *overrides).refused()
    assert desk.hub.asked == desk.gitlab.asked == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["upload", "--storage", "gitlab", "--create-pr"], "--create-pr: only for --storage hf"),
        (["upload", "--version", "0.0.1"], "--version: only for --storage gitlab"),
        (["download", "--storage", "gitlab", "--repo", "a/b"], "--repo: only for --storage hf"),
        (["delete", "letters", "--storage", "hf"], "only datasets in GitLab's registry"),
        (["download", "--dataset-name", "x"], "--dataset-name: only for --storage gitlab"),
        (["upload", "--yes"], "--yes has no effect"),
        (
            ["download", "--repo", "x"],
            "say where to: --output-dir for a directory, or --output for",
        ),
        (
            ["download", "--repo", "x", "--output", "a"],
            "give --split or --artifact, or --output-dir instead",
        ),
        (
            ["download", "--repo", "x", "--split", "a", "--artifact", "b"],
            "--artifact is one file of the repository and --split one of its splits",
        ),
        (
            ["migrate", "--organization", "x"],
            "pass --input for a local file, or --version and --artifact",
        ),
        (
            ["migrate", "--input", "x", "--version", "0.0.1"],
            "--input names a local file, --version and --artifact a file in the registry",
        ),
        (
            ["import", "train.jsonl", "--split", "test"],
            "only for a repository of the Hugging Face hub",
        ),
        (
            ["import", "train.jsonl", "--artifact", "x"],
            "only for a repository of the Hugging Face hub",
        ),
        (["import", "hf:a/b", "--artifact", "x", "--split", "y"], "give one of them"),
        (["import", "hf:"], "repository is missing after hf:"),
        (["import", "x.csv", "--map", "a=b", "--map", "a=c"], "a is already mapped to 'b'"),
    ],
)
def test_flags_of_the_other_place_are_refused(desk: Desk, arguments: list[str], said: str) -> None:
    desk.monkeypatch.setattr(sys, "argv", ["palestra", "dataset", *arguments])

    result = CliRunner().invoke(app, ["dataset", *arguments])

    assert result.exit_code == 2
    assert said in result.stderr
    assert desk.hub.asked == desk.gitlab.asked == []


def test_flags_are_the_same_settings(desk: Desk) -> None:
    flags = ["--input", "train.jsonl", "--organization", "acme", "--dataset-name", "letters"]

    result = CliRunner().invoke(
        app, ["dataset", "upload", *flags, "--resource-config", CONFIG, "--create-pr"]
    )

    assert result.exit_code == 0, result.stderr
    assert desk.hub.repositories[REPO].pull_requests == ["Upload train.jsonl (train)"]


def test_a_library_that_is_missing_is_told_with_its_extra() -> None:
    with pytest.raises(ConfigError, match="needs no_such_library") as told:
        require_extra("no_such_library", extra="hub", what="the hub")

    assert told.value.hint == "pip install 'palestra[hub]'"


@pytest.mark.parametrize(
    "place",
    [
        {"huggingface_identifier": {"repo_id": REPO}},
        {"huggingface_identifier": {"repo_id": REPO, "artifact_fpath": "train.jsonl"}},
        {
            "gitlab_identifier": {
                "dataset_name": "letters",
                "version": "0.0.1",
                "artifact_fpath": "train.jsonl",
            }
        },
    ],
    ids=["a split", "a file of the hub", "a file of the registry"],
)
def test_prepare_can_fetch_what_an_entry_names(desk: Desk, place: dict[str, object]) -> None:
    desk.stored()
    desk.hub.put(REPO, {"train.jsonl": ROWS})
    entry = DatasetEntry.model_validate(
        {"name": "a", "type": "train", "jsonl_fpath": "x.jsonl", "license": "MIT", **place}
    )
    tree = {
        "hf_token": WRITER,
        "mlflow_tracking_uri": desk.gitlab.uri,
        "mlflow_tracking_token": TOKEN,
    }
    source = entry.source("huggingface")
    assert source is not None

    Sources(tree, {"HF_ENDPOINT": desk.hub.endpoint})(entry, source, desk.folder / "x.jsonl")

    assert (desk.folder / "x.jsonl").read_bytes() == ROWS


@pytest.mark.parametrize("chosen", [["--split", "test"], ["--artifact", "data/test.csv"]])
def test_rows_are_imported_from_the_part_of_the_hub_that_is_asked_for(
    desk: Desk, chosen: list[str]
) -> None:
    table = b"question,answer\n2 + 2?,4\n"
    desk.hub.put(REPO, {"validation.jsonl": ROWS, "data/test.csv": table})

    done = CliRunner().invoke(app, ["dataset", "import", f"hf:{REPO}", *chosen, "-o", "rows.jsonl"])

    assert done.exit_code == 0, done.stderr
    (line,) = (desk.folder / "rows.jsonl").read_text().splitlines()
    assert '"expected_answer":"4"' in line


def test_an_import_that_the_hub_refuses_shows_no_token(desk: Desk) -> None:
    (desk.folder / "env.yaml").unlink()
    desk.monkeypatch.setenv("HF_TOKEN", WRITER)
    desk.hub.faults = [Fault("GET", status=403, said=f"no: Bearer {WRITER}", times=9)]

    done = CliRunner().invoke(app, ["dataset", "import", f"hf:{REPO}"])

    assert done.exit_code != 0
    assert "the token has no permission for this" in done.stderr
    assert WRITER not in done.stderr + done.stdout


def test_lines_tell_the_start_the_way_and_the_end() -> None:
    told: list[str] = []
    now = [0.0]
    lines = Lines(told.append, lambda: now[0])

    lines.start("train.jsonl", 4000, 1000)
    lines.advance(500)
    now[0] = 6.0
    lines.advance(500)
    lines.advance(2000)
    lines.end()

    assert told == [
        "train.jsonl (4.0 kB), 1.0 kB are there already …",
        "train.jsonl: 2.0 kB of 4.0 kB, 50 %",
        "train.jsonl: 4.0 kB of 4.0 kB, 100 %",
    ]
    assert sized(12) == "12 B"
    assert sized(3_400_000_000_000) == "3400.0 GB"


@pytest.mark.slow
def test_who_never_answers_is_not_waited_for(desk: Desk) -> None:
    held = threading.Event()
    desk.hub.faults = [Fault("GET /api/datasets", hold=held, times=10)]
    desk.gitlab.faults = [Fault("model-versions/get", hold=held, times=10)]
    download = (f"+repo_id={REPO}", "+split=train", "+output_dirpath=out")

    hub = desk.types(sharing.download_from_hub, *download, "++network_deadline_s=0.3")
    gitlab = desk.types(
        sharing.download_from_gitlab,
        *GITLAB,
        "+artifact_fpath=train.jsonl",
        "+output_fpath=x.jsonl",
        "++network_deadline_s=0.3",
    )
    held.set()

    assert hub.code == gitlab.code == 1
    assert "the hub did not answer in time; gave up after" in hub.err
    assert "the registry did not answer in time; gave up after" in gitlab.err


HUB_CALLS = [
    "GET /api/datasets/[^/]+/[^/]+$",
    "repos/create",
    "preupload",
    "objects/batch",
    "PUT /large",
    "/commit/",
    "paths-info",
    "GET /api/collections",
    "POST /api/collections",
]
FAULTS = [
    *({"status": status} for status in (400, 401, 403, 404, 409, 422, 429, 500, 503)),
    {"after": True},
    {"cut_after": 3},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_no_failure_of_an_upload_shows_a_token(desk: Desk, fault: dict[str, int]) -> None:
    collection = ("+hf_collection_name=gym", "+hf_collection_slug=1")
    failed = 0
    for call in HUB_CALLS:
        desk.hub.repositories.clear()
        desk.hub.large.clear()
        desk.hub.collections["acme/gym-1"] = []
        said = f"no: Bearer {WRITER}"
        desk.hub.faults = [Fault(call, times=1000, said=said, **fault)]  # type: ignore[arg-type]

        done = desk.types(sharing.upload_to_hub, *UPLOAD, *collection, AT_ONCE)

        failed += done.code != 0
        assert WRITER not in done.out + done.err + done.trace, call
        assert "s3cr3t" not in done.out + done.err + done.trace, call
    assert failed >= 5


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*FAULTS, {"corrupt": True}], ids=str)
def test_no_failure_of_a_download_shows_a_token(desk: Desk, fault: dict[str, int]) -> None:
    desk.hub.put(REPO, {"train.jsonl": ROWS})
    for call in ("GET /api/datasets", "HEAD .*/resolve/", "GET .*/resolve/"):
        said = f"no: Bearer {WRITER}"
        desk.hub.faults = [Fault(call, times=1000, said=said, **fault)]  # type: ignore[arg-type]

        done = desk.types(
            sharing.download_from_hub,
            f"+repo_id={REPO}",
            "+split=train",
            "+output_dirpath=out",
            AT_ONCE,
        )

        assert WRITER not in done.out + done.err + done.trace, call
        assert not (desk.folder / "out" / "train.jsonl").exists() or done.code == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_no_failure_of_the_registry_shows_a_token(desk: Desk, fault: dict[str, int]) -> None:
    calls = ("registered-models/get", "registered-models/create", "model-versions", "runs/get")
    for call in (*calls, "PUT", "GET .*/files/"):
        desk.gitlab.models.clear()
        said = f"no: Bearer {TOKEN}"
        desk.gitlab.faults = [Fault(call, times=1000, said=said, **fault)]  # type: ignore[arg-type]

        done = desk.types(
            sharing.upload_to_gitlab, *GITLAB, "+input_jsonl_fpath=train.jsonl", AT_ONCE
        )

        assert TOKEN not in done.out + done.err + done.trace, call
        assert done.code != 0 or call == "GET .*/files/", call
