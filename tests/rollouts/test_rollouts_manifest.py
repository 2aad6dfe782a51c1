"""What a run was made from, written down and compared."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from palestra.errors import InputDataError
from palestra.rollouts import Manifest, differences, read_manifest, semantics_of
from palestra.rollouts.manifest import semantic_differences


def manifest(**semantics: Any) -> Manifest:
    return Manifest("digest", semantics, requested=4, tasks=2, version="1")


def test_it_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    manifest(model="tiny").write(path, ended_counts={"scored": 3})

    assert read_manifest(path) == manifest(model="tiny")
    assert json.loads(path.read_text())["ended"] == {"scored": 3}
    assert [p.name for p in tmp_path.iterdir()] == ["manifest.json"]


def test_the_digest_covers_rows_and_semantics_alone() -> None:
    one = manifest(model="tiny", top_p=1)

    assert one.digest == Manifest("digest", {"top_p": 1, "model": "tiny"}, 9, 9, "2").digest
    assert one.digest != manifest(model="big", top_p=1).digest
    assert one.digest != Manifest("other", one.semantics, 4, 2, "1").digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not a manifest"),
        ("[]", "is not a manifest"),
        ('{"format": 1}', "is not a manifest"),
        ('{"format": 99}', "was written by a newer Palestra"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_why(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)

    with pytest.raises(InputDataError, match=says) as caught:
        read_manifest(path)
    assert "--overwrite" in caught.value.hint


def test_a_missing_manifest_cannot_be_continued(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="cannot be continued safely"):
        read_manifest(tmp_path / "manifest.json")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, ["a.b: 1 -> 3"]),
        ({"a": 1}, {}, ["a: 1 -> absent"]),
        ({}, {"a": None}, ["a: absent -> null"]),
        ({"a": {"b": 1}}, {"a": "x"}, ["""a: {"b":1} -> 'x'"""]),
        ({"z": [1], "a": 0}, {"z": [2], "a": 1}, ["a: 0 -> 1", "z: [1] -> [2]"]),
        ({"code": {"e": "0f" * 32}}, {"code": {"e": "1f" * 32}}, ["code.e: it has changed since"]),
        ({"code": {}}, {"code": {"e": "1f" * 32}}, ["code.e: it is new"]),
        ({"code": {"e": "1f" * 32}}, {"code": {}}, ["code.e: it is gone"]),
    ],
)
def test_differences_are_named_leaf_by_leaf(old: Any, new: Any, expected: list[str]) -> None:
    assert differences(old, new) == expected


def test_of_long_values_the_part_where_they_differ_is_shown() -> None:
    old, new = ({"prompt": ["word " * 60 + end]} for end in ("one", "two"))

    (line,) = differences(old, new)

    assert "one" in line
    assert "two" in line
    assert len(line) < 120


def semantics(**settings: Any) -> dict[str, Any]:
    return semantics_of({"m": ("responses_api_models", "openai_model", settings)}, {"prompt": None})


def of_file(path: str, digest: str = "0f" * 32, **extra: Any) -> dict[str, Any]:
    """The semantics of a run of an environment in one file."""
    environment = ("resources_servers", "environment_file", {"path": path, "level": 1})
    agent = ("responses_api_agents", "environment_agent", {"resources_server": {"name": "sums"}})
    instances = {"sums": environment, "sums_agent": agent}
    return semantics_of(instances, {"code": {"sums": {"sums.py": digest}}, **extra})


def test_the_folder_of_an_environment_file_may_differ_and_its_code_may_not() -> None:
    old = of_file("/home/me/sums.py")

    assert semantic_differences(old, of_file("/home/me/old/../sums.py"), ["sums_agent"]) == []
    assert semantic_differences(old, of_file("/home/me/b.py"), ["sums_agent"]) == [
        "servers.sums.settings.path: 'sums.py' -> 'b.py'"
    ]
    assert semantic_differences(old, of_file("/other/sums.py", "1f" * 32), ["sums_agent"]) == [
        "code.sums.sums.py: it has changed since"
    ]


def test_the_folder_counts_where_no_code_is_recorded() -> None:
    old, new = of_file("/a/sums.py", code={}), of_file("/b/sums.py", code={})

    assert len(semantic_differences(old, new, ["sums_agent"])) == 1


def test_operational_settings_are_no_semantics() -> None:
    operational = {"openai_base_url": "x", "openai_api_key": "k", "threads": 4, "slots": 2}

    assert semantics(openai_model="tiny", **operational) == semantics(openai_model="tiny")
    assert semantics(openai_model="tiny") != semantics(openai_model="big")


def test_semantics_are_as_json_gives_them_back(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    odd = semantics(levels={1: "a", "b": 2}, since=dt.date(2026, 1, 2), where=Path("x"))
    manifest(**odd).write(path)

    assert differences(read_manifest(path).semantics, odd) == []
    assert read_manifest(path).digest == manifest(**odd).digest


@pytest.mark.parametrize(("name", "value"), [("requested", "3"), ("semantics", None)])
def test_a_manifest_with_values_of_the_wrong_type_is_none(
    tmp_path: Path, name: str, value: object
) -> None:
    path = tmp_path / "run_manifest.json"
    Manifest("digest", {}, 3, 3, "1").write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))

    with pytest.raises(InputDataError, match=f"is not a manifest .*{name} has the wrong type"):
        read_manifest(path)
