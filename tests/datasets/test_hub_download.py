"""A file or splits of the hub come to this machine, whole or not at all."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sharing_world import REPO, Moves, World, jsonl, rows

from faulty_http import Fault
from hub_fakes import WRITER, FakeHub, fake_hub
from palestra.datasets import Sources
from palestra.datasets.entries import DatasetEntry
from palestra.datasets.transfer.files import Digest, arriving
from palestra.errors import (
    ConfigError,
    CredentialsRejected,
    InfraError,
    InputDataError,
    RunFailed,
)
from palestra.settings import HubDownload

LARGE = jsonl(rows(400))
SMALL = jsonl(rows(2))


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as hub:
        yield hub


@pytest.fixture
def world(tmp_path: Path, hub: FakeHub) -> World:
    hub.put(REPO, {"data/train.jsonl": LARGE, "data/validation.jsonl": SMALL, "README.md": b"#"})
    return World(tmp_path, hub)


def parquet(items: list[dict[str, Any]]) -> bytes:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(items), sink)
    return sink.getvalue()


def test_a_file_keeps_its_name_in_a_directory(world: World) -> None:
    written = world.download(artifact_fpath="data/train.jsonl")

    assert written == [world.folder / "out" / "train.jsonl"]
    assert written[0].read_bytes() == LARGE
    assert world.left() == ["train.jsonl"]


def test_a_file_takes_the_name_it_is_given(world: World) -> None:
    output = world.folder / "out" / "rows.jsonl"

    world.download(artifact_fpath="data/validation.jsonl", output_fpath=str(output))

    assert output.read_bytes() == SMALL


def test_every_split_comes_as_jsonl(world: World) -> None:
    world.download()

    assert world.left() == ["train.jsonl", "validation.jsonl"]
    assert (world.folder / "out" / "validation.jsonl").read_bytes() == SMALL


def test_a_split_that_is_not_there_is_told_with_those_that_are(world: World) -> None:
    with pytest.raises(ConfigError, match="has no split 'test'") as refused:
        world.download(split="test")

    assert refused.value.hint == "it has train, validation"


@pytest.mark.slow
def test_parquet_becomes_jsonl(world: World, hub: FakeHub) -> None:
    first, second = (
        rows(3, when=datetime(2026, 1, 2, tzinfo=UTC)),
        rows(2, when=datetime(2026, 1, 3, tzinfo=UTC)),
    )
    hub.put(
        REPO,
        {
            "data/train-00001-of-00002.parquet": parquet(second),
            "data/train-00000-of-00002.parquet": parquet(first),
        },
    )

    [written] = world.download(split="train")

    read = [json.loads(line) for line in written.read_text().splitlines()]
    assert [row["responses_create_params"] for row in read] == [
        row["responses_create_params"] for row in [*first, *second]
    ]
    assert read[3]["when"] == "2026-01-03T00:00:00+00:00"
    assert world.left() == ["train.jsonl"]


def test_the_card_says_which_files_are_a_split(world: World, hub: FakeHub) -> None:
    files = {"a/x.jsonl": SMALL, "a/y.jsonl": SMALL.rstrip(b"\n"), "b/train.jsonl": LARGE}
    data = [{"split": "train", "path": "a/*.jsonl"}, {"split": "gold", "path": "b/train.jsonl"}]
    hub.put(REPO, files, card={"configs": [{"config_name": "default", "data_files": data}]})

    world.download()

    assert world.left() == ["gold.jsonl", "train.jsonl"]
    assert (world.folder / "out" / "train.jsonl").read_bytes() == SMALL + SMALL


def test_a_download_that_is_cut_goes_on_where_it_was(world: World, hub: FakeHub) -> None:
    hub.faults = [Fault("GET .*/train.jsonl", cut_after=20_000, times=2)]

    [written] = world.download(artifact_fpath="data/train.jsonl")

    assert written.read_bytes() == LARGE
    ranges = [sent.get("Range") or sent.get("range") for sent in hub.sent]
    assert [span for span in ranges if span] == ["bytes=20000-", "bytes=40000-"]


def test_another_process_goes_on_where_one_gave_up(world: World, hub: FakeHub) -> None:
    hub.faults = [
        Fault("GET .*/train.jsonl", cut_after=20_000),
        Fault("GET .*/train.jsonl", status=503, times=1000),
    ]
    with pytest.raises(InfraError, match="answered 503; gave up"):
        world.download(artifact_fpath="data/train.jsonl")
    assert not (world.folder / "out" / "train.jsonl").exists()
    hub.faults = []

    world.download(artifact_fpath="data/train.jsonl")

    assert (world.folder / "out" / "train.jsonl").read_bytes() == LARGE
    assert world.moves.started[-1] == ("data/train.jsonl", len(LARGE), 20_000)
    assert world.left() == ["train.jsonl"]


def test_a_hub_that_knows_no_ranges_sends_the_whole_again(world: World, hub: FakeHub) -> None:
    hub.ignores_ranges = True
    hub.faults = [Fault("GET .*/train.jsonl", cut_after=20_000)]

    [written] = world.download(artifact_fpath="data/train.jsonl")

    assert written.read_bytes() == LARGE
    assert world.moves.moved == len(LARGE)


@pytest.mark.parametrize("name", ["train", "validation"], ids=["by sha256", "by git's name"])
def test_other_bytes_than_were_promised_are_not_kept(world: World, hub: FakeHub, name: str) -> None:
    hub.faults = [Fault(f"GET .*/{name}.jsonl", corrupt=True)]

    with pytest.raises(InfraError, match="and should have"):
        world.download(artifact_fpath=f"data/{name}.jsonl")

    assert world.left() == []


def test_a_part_of_other_bytes_is_not_gone_on_with(world: World, hub: FakeHub) -> None:
    hub.faults = [
        Fault("GET .*/train.jsonl", cut_after=20_000),
        Fault("GET .*/train.jsonl", status=503, times=1000),
    ]
    with pytest.raises(InfraError):
        world.download(artifact_fpath="data/train.jsonl")
    hub.faults = []
    changed = LARGE.replace(b"question", b"Question")
    hub.put(REPO, {"data/train.jsonl": changed})

    [written] = world.download(artifact_fpath="data/train.jsonl")

    assert written.read_bytes() == changed
    assert world.left() == ["train.jsonl"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CredentialsRejected), (403, CredentialsRejected), (404, ConfigError)],
)
def test_an_error_page_never_becomes_the_file(
    world: World, hub: FakeHub, status: int, error: type[Exception]
) -> None:
    hub.faults = [Fault("GET .*/train.jsonl", status=status, times=1000)]

    with pytest.raises(error):
        world.download(artifact_fpath="data/train.jsonl")

    assert [name for name in world.left() if not name.endswith(".part")] == []


def test_a_file_that_is_not_there_is_told(world: World) -> None:
    with pytest.raises(ConfigError, match=r"nope.jsonl of .* has no such file"):
        world.download(artifact_fpath="nope.jsonl")

    assert not (world.folder / "out").exists()


def test_a_repository_that_is_not_there_is_told(world: World) -> None:
    with pytest.raises(ConfigError, match="acme/nope: the hub has no such dataset repository"):
        world.download(repo_id="acme/nope", split="train")


def test_a_directory_in_the_way_is_told_before_the_hub_is_asked(world: World, hub: FakeHub) -> None:
    (world.folder / "out").mkdir()

    with pytest.raises(InputDataError, match="is a directory"):
        world.download(split="train", output_fpath=str(world.folder / "out"))

    assert hub.asked == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output_dirpath": "a", "artifact_fpath": "b", "split": "train"}, "give one of them"),
        ({"output_dirpath": "a", "output_fpath": "b", "split": "train"}, "both say where to"),
        ({"split": "train"}, "say where to"),
        ({"output_fpath": "b"}, r"give split \(--split\) or artifact_fpath"),
        ({"output_fpath": "b", "repo_id": ""}, "at least 1 character"),
    ],
)
def test_combinations_that_cannot_be_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        HubDownload.model_validate({"repo_id": REPO, **settings})


def test_the_token_goes_to_the_hub_and_nowhere_else(world: World, hub: FakeHub) -> None:
    hub.stores_apart = True

    [written] = world.download(artifact_fpath="data/train.jsonl")

    given = [
        (request.split("/")[1], "authorization" in {name.lower() for name in headers})
        for request, headers in zip(hub.asked, hub.sent, strict=True)
    ]
    assert set(given) == {("api", True), ("datasets", True), ("large", False)}
    assert written.read_bytes() == LARGE


def test_tables_and_lists_become_jsonl_too(world: World, hub: FakeHub) -> None:
    files = {"train.csv": b"question,answer\nx,4\n", "dev.json": b'[{"question": "y"}]'}
    hub.put(
        REPO, {**files, "dataset_infos.json": b"{}", "test.csv": b"q\n1\n", "test.jsonl": SMALL}
    )

    world.download()

    assert world.left() == ["test.jsonl", "train.jsonl", "validation.jsonl"]
    out = world.folder / "out"
    assert (out / "train.jsonl").read_bytes() == b'{"question":"x","answer":"4"}\n'
    assert (out / "validation.jsonl").read_bytes() == b'{"question":"y"}\n'
    assert (out / "test.jsonl").read_bytes() == SMALL


def test_records_that_are_none_are_named_and_no_half_split_is_left(
    world: World, hub: FakeHub
) -> None:
    hub.put(REPO, {"train.csv": b"a,b\n1,2\n3\n"})

    with pytest.raises(InputDataError, match=r"line 3: 1 cells under 2 columns"):
        world.download()

    assert not (world.folder / "out" / "train.jsonl").exists()


def test_two_processes_do_not_draw_one_split_together(world: World, hub: FakeHub) -> None:
    hub.put(REPO, {"data/train-0.jsonl": SMALL, "data/train-1.jsonl": SMALL})

    class Another(Moves):
        def start(self, name: str, total_bytes: int | None, done_bytes: int, /) -> None:
            super().start(name, total_bytes, done_bytes)
            with pytest.raises(InputDataError, match=r"out/train\.jsonl is being downloaded"):
                World(world.folder, hub).download()

    world.moves = Another()
    world.download()

    assert (world.folder / "out" / "train.jsonl").read_bytes() == SMALL * 2
    assert world.left() == ["train.jsonl"]


@pytest.mark.parametrize("file", ["benchmark.jsonl", "test.jsonl"])
def test_a_benchmark_is_the_test_split_where_there_is_none_of_its_name(
    world: World, hub: FakeHub, file: str
) -> None:
    hub.put(REPO, {"train.jsonl": LARGE, file: SMALL})
    destination = world.folder / "rows.jsonl"
    given = {"name": "b", "type": "benchmark", "jsonl_fpath": "rows.jsonl"}
    entry = DatasetEntry.model_validate({**given, "huggingface_identifier": {"repo_id": REPO}})

    Sources({"hf_token": WRITER}, {"HF_ENDPOINT": hub.endpoint})(entry, "huggingface", destination)

    assert destination.read_bytes() == SMALL


def test_a_full_disk_is_told_and_what_has_arrived_is_kept(tmp_path: Path) -> None:
    with arriving(tmp_path / "rows.jsonl", Digest("a" * 64), 9) as part:
        part.append([b"abc"], lambda _: None)
        part.path.unlink()
        part.path.symlink_to("/dev/full")

        with pytest.raises(
            RunFailed, match=r"rows\.jsonl cannot be written: No space left"
        ) as told:
            part.append([b"def"], lambda _: None)

    assert "continues where this one stopped" in told.value.hint
