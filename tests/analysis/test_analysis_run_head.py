"""What the head of a run says, from a manifest or from the record of a re-verification."""

import json
from pathlib import Path

from palestra import api
from palestra.analysis import RunHead, run_head
from palestra.rollouts import Manifest

SERVERS = {
    "sums": {
        "type": "resources_servers",
        "implementation": "environment_file",
        "settings": {"path": "/work/sums.py"},
    }
}


def semantics(code: object) -> dict[str, object]:
    return {"servers": SERVERS, "code": {"sums": code}}


def head_with_code(code: object) -> RunHead:
    return RunHead.of(Manifest("", semantics(code), 0, 0, "0.1.0"))


def test_the_code_of_files_is_their_names_with_short_digests() -> None:
    assert head_with_code({"sums.py": "a" * 64, "util.py": "b" * 64}).verifier == (
        f"sums.py {'a' * 12}, util.py {'b' * 12}"
    )


def test_the_code_of_many_files_is_cut() -> None:
    verifier = head_with_code({f"f{number}.py": "a" * 64 for number in range(9)}).verifier

    assert verifier.endswith(f"f2.py {'a' * 12} and 6 more")


def test_the_code_of_one_digest_is_its_beginning() -> None:
    assert head_with_code("c" * 64).verifier == "c" * 12


def reverified(folder: Path) -> Path:
    """The files of a re-verification of one row."""
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}
    inputs = {**row, "responses_create_params": {"input": "2+2?"}}
    output = folder / "again.jsonl"
    output.write_text(json.dumps({**row, "response": {"model": "tiny", "output": []}}) + "\n")
    (folder / "again_materialized_inputs.jsonl").write_text(json.dumps(inputs) + "\n")
    record = {
        "format": 1,
        "palestra_version": "0.1.0",
        "made_from": {"rows": 1, "verifiers": semantics({"sums.py": "a" * 64})},
        "result": {},
    }
    (folder / "again_reverify.json").write_text(json.dumps(record))
    return output


def test_a_reverified_run_has_its_environment_and_model(tmp_path: Path) -> None:
    head = run_head([reverified(tmp_path)])

    assert (head.environment, head.model) == ("sums", "tiny")


def test_the_line_of_a_reverified_run_has_its_environment_and_model(tmp_path: Path) -> None:
    entry = api.run_entry(reverified(tmp_path))

    assert (entry.environment, entry.model, entry.scored) == ("sums", "tiny", 1)
