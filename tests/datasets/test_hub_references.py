"""`hf:org/name[@revision][:config][/split]`: one split of the hub, kept for each commit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sharing_world import jsonl, rows

from hub_fakes import WRITER, FakeHub, fake_hub
from palestra.datasets import HubReference, Sources
from palestra.errors import ConfigError

REPO = "org/set"
FILES = {
    "main/test.jsonl": jsonl(rows(3)),
    "main/train.jsonl": jsonl(rows(5)),
    "other/test.jsonl": jsonl(rows(2)),
}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as hub:
        hub.put(REPO, FILES)
        yield hub


def fetched(hub: FakeHub, text: str, cache: Path) -> Path:
    sources = Sources({"hf_token": WRITER}, {"HF_ENDPOINT": hub.endpoint})
    return sources.split(HubReference.parse(text), cache)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("hf:org/set", ("org/set", "", "", "")),
        ("hf:org/set/test", ("org/set", "", "", "test")),
        ("hf:org/set:main/test", ("org/set", "", "main", "test")),
        ("hf:org/set@v1.0/test", ("org/set", "v1.0", "", "test")),
        ("hf:org/set@refs/pr/1:main/test", ("org/set", "refs/pr/1", "main", "test")),
    ],
)
def test_a_reference_has_its_parts(text: str, parts: tuple[str, ...]) -> None:
    reference = HubReference.parse(text)

    assert (reference.repo_id, reference.revision, reference.config, reference.split) == parts
    assert str(reference) == text


@pytest.mark.parametrize("text", ["hf:set", "hf:org/set/a/b", "hf:org/set@", "org/set"])
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HubReference.parse(text)
    assert caught.value.hint == "hf:org/name[@revision][:config][/split]"


def test_the_split_of_a_config_is_fetched(hub: FakeHub, tmp_path: Path) -> None:
    assert fetched(hub, "hf:org/set:other/test", tmp_path).read_bytes() == FILES["other/test.jsonl"]


def test_a_split_is_fetched_once_for_a_commit(hub: FakeHub, tmp_path: Path) -> None:
    first = fetched(hub, "hf:org/set:main/test", tmp_path)
    written = first.stat().st_mtime_ns

    assert fetched(hub, "hf:org/set:main/test", tmp_path) == first
    assert first.stat().st_mtime_ns == written


def test_without_a_split_there_must_be_only_one(hub: FakeHub, tmp_path: Path) -> None:
    assert fetched(hub, "hf:org/set:other", tmp_path).read_bytes() == FILES["other/test.jsonl"]
    with pytest.raises(ConfigError, match="has 2 splits: test, train"):
        fetched(hub, "hf:org/set:main", tmp_path)


def test_an_unknown_config_is_told_with_the_nearest(hub: FakeHub, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no config 'othr'; did you mean 'other'"):
        fetched(hub, "hf:org/set:othr/test", tmp_path)
