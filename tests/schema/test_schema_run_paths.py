"""Which files belong to a run, by their names."""

from pathlib import Path

import pytest

from palestra.schema import RunPaths, goes_with_a_run, run_beside

OUTPUT = Path("out/run.jsonl")


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("run.jsonl", True),
        ("run_failures.jsonl", True),
        ("run_events.jsonl", True),
        ("run_failures.jsonl.gz", True),
        ("run_agent_tasks.jsonl", True),
        ("run_manifest.json.bak2", True),
        ("run_materialized_inputs.jsonl.new-7", True),
        ("run_part1.jsonl", False),
        ("other_failures.jsonl", False),
        ("../run.jsonl", False),
    ],
)
def test_a_run_owns_the_files_beside_its_output(name: str, is_own: bool) -> None:
    assert RunPaths(OUTPUT).owns(OUTPUT.with_name("x").parent / name) is is_own


def test_files_beside_an_output_go_with_its_run_and_other_outputs_do_not(tmp_path: Path) -> None:
    for name in ("run_manifest.json", "odd_failures_manifest.json"):
        (tmp_path / name).touch()

    names = ("run_failures.jsonl", "run_tasks.jsonl", "other_reward_profiling.jsonl", "a.jsonl.bak")
    assert all(goes_with_a_run(tmp_path / name) for name in names)
    outputs = ("run.jsonl", "other_tasks.jsonl", "odd_failures.jsonl", "run_part1.jsonl")
    assert not any(goes_with_a_run(tmp_path / name) for name in outputs)


@pytest.mark.parametrize(
    ("name", "is_written"),
    [
        ("r.jsonl", True),
        ("r.jsonl.gz", True),
        ("r_failures.jsonl", True),
        ("r_report.html", True),
        ("r_tasks.jsonl", True),
        ("link.jsonl", True),
        ("r_events.jsonl", False),
        ("r_2_failures.jsonl", False),
        ("folder/r.jsonl", False),
    ],
)
def test_a_run_writes_the_files_beside_its_output_but_for_its_events(
    name: str, is_written: bool, tmp_path: Path
) -> None:
    (tmp_path / "link.jsonl").symlink_to("r.jsonl")

    assert RunPaths(tmp_path / "r.jsonl").writes(tmp_path / name) == is_written


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("r_manifest.json", "r.jsonl"),
        ("r_report.html", "r.jsonl"),
        ("r_failures.jsonl.gz", "r.jsonl"),
        ("r_agent_metrics.json", "r.jsonl"),
        ("r_tasks.jsonl", "r.jsonl"),
        ("r_agent_tasks.jsonl", "r.jsonl"),
        ("r.jsonl", None),
        ("r_2.jsonl", None),
        ("q_manifest.json", None),
        ("odd_failures.jsonl", None),
    ],
)
def test_another_file_of_a_run_has_its_output(
    name: str, output: str | None, tmp_path: Path
) -> None:
    for written in ("r.jsonl", "r_manifest.json", "odd_failures_manifest.json"):
        (tmp_path / written).touch()

    assert run_beside(tmp_path / name) == (tmp_path / output if output else None)
