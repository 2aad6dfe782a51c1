"""Faults seeded over all layers: each is named, with its layer, its cause, evidence and remedy."""

import contextlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import seeded_environments
import seeded_files
import seeded_machines
import seeded_models
import seeded_settings
from seeded_faults import Fault, faults_of
from seeded_world import SeededUpstream, World, fine, new_world, serving

from palestra.causes import LAYERS
from palestra.cli.diagnosing import diagnose
from palestra.settings import DiagnoseArgs

FAULTS = faults_of(
    seeded_machines, seeded_models, seeded_settings, seeded_environments, seeded_files
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[SeededUpstream, str]]:
    """One endpoint for all faults, which each tells what to do."""
    made = SeededUpstream(fine)
    with serving(made) as url:
        yield made, url


@pytest.fixture
def world(tmp_path: Path, upstream: tuple[SeededUpstream, str]) -> World:
    return new_world(tmp_path / "world", *upstream)


def diagnosed(world: World, subject: str) -> dict[str, Any]:
    """`palestra diagnose SUBJECT --json`, from the world's folder."""
    said = io.StringIO()
    with contextlib.chdir(world.folder), contextlib.redirect_stdout(said):
        code = diagnose(DiagnoseArgs(run=subject, as_json=True))
    told: dict[str, Any] = json.loads(said.getvalue())
    assert code == any(f["severity"] == "error" for f in told["findings"]), told
    return told


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_seeded_fault_is_named_and_its_remedy_helps(fault: Fault, world: World) -> None:
    steps = fault.steps(world)
    broken = next(steps)
    told = diagnosed(world, fault.subject)

    errors = [f for f in told["findings"] if f["severity"] == "error"]
    found = errors or told["findings"]
    assert found, broken.said + json.dumps(told, indent=1)
    assert found[0]["cause"] == fault.cause, json.dumps(told, indent=1)
    stems = {f["cause"].partition(".")[0] for f in found}
    assert stems == {fault.stem}, "another layer is blamed as well: " + json.dumps(told, indent=1)
    check_evidence(found[0], fault, world)
    for mended in steps:
        assert mended.code == 0, mended.said


@pytest.mark.parametrize("fault", faults_of(seeded_settings), ids=lambda fault: fault.name)
def test_a_seeded_fault_of_settings_or_rows_is_named_before_a_run_as_well(
    fault: Fault, world: World
) -> None:
    next(fault.steps(world))

    errors = [f for f in world.doctor()["findings"] if f["severity"] == "error"]

    assert errors[0]["cause"] == fault.cause, json.dumps(errors, indent=1)
    assert {f["cause"].partition(".")[0] for f in errors} == {fault.stem}
    assert all(f["likely_cause"] and f["next_action"] for f in errors)


@pytest.mark.parametrize(
    "fault",
    [f for f in faults_of(seeded_models) if "overloaded" not in f.name and "cuts" not in f.name],
    ids=lambda fault: fault.name,
)
def test_a_seeded_fault_of_an_endpoint_is_blamed_on_no_other_layer_before_a_run(
    fault: Fault, world: World
) -> None:
    next(fault.steps(world))

    found = world.doctor()["findings"]

    errors = [f for f in found if f["severity"] == "error"]
    assert {f["cause"].partition(".")[0] for f in errors} <= {fault.stem}, json.dumps(errors)
    assert not [f for f in found if f["cause"].endswith(".check-failed")], json.dumps(found)


def check_evidence(finding: dict[str, Any], fault: Fault, world: World) -> None:
    """Quoted lines with their file and line, and a next action."""
    quoted = [q for q in finding["evidence"] if q["line"]]
    assert quoted
    assert all(Path(q["source"]).is_absolute() for q in quoted), quoted
    assert any(fault.shows in q["text"] for q in finding["evidence"]), finding
    assert finding["likely_cause"]
    assert finding["next_action"]
    assert "\n" not in finding["symptom"]
    del world


def test_the_faults_are_of_all_layers() -> None:
    stems = Counter(fault.stem for fault in FAULTS)

    assert len(FAULTS) >= 40
    assert len(stems) == len(LAYERS)
    assert min(stems.values()) >= 5, stems
