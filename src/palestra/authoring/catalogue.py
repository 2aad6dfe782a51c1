"""The catalogue: `catalogue.jsonl` in a project, one line for each published component."""

from pathlib import Path
from typing import Final

from palestra.authoring.components import Component
from palestra.authoring.fixtures import CaseKind, FixtureReport
from palestra.authoring.manifests import Manifest
from palestra.errors import ConfigError
from palestra.schema import JsonDict, encode_json, read_jsonl
from palestra.system import folder_locked, write_whole

CATALOGUE: Final = "catalogue.jsonl"
LOCK_WAIT_S: Final = 10.0
NEEDED_KINDS: Final = (CaseKind.FULL_REWARD, CaseKind.ZERO_REWARD)
"""The kinds of cases that the fixture of a published component must have."""


def publication_problems(fixture: FixtureReport) -> list[str]:
    """Return what of its fixture keeps a component from being published; empty when nothing does."""
    problems = [
        f"fixture: {case.name} (line {case.line}): {case.problem}"
        for case in fixture.cases
        if not case.passed
    ]
    missing = [kind for kind in NEEDED_KINDS if kind not in fixture.kinds]
    if missing:
        problems.append(f"fixture: {fixture.fixture} has no case of kind {' or '.join(missing)}")
    return problems


def catalogue_entry(component: Component, manifest: Manifest) -> JsonDict:
    """Return the catalogue's line of a component: its manifest, and where that is."""
    path = component.manifest.relative_to(component.root)
    values: JsonDict = manifest.model_dump(mode="json", exclude_none=True)
    return {**values, "name": component.name, "manifest": path.as_posix()}


def publish(component: Component, manifest: Manifest) -> Path:
    """Write the component's line into the catalogue of its project, and return the catalogue.

    Lines are in the order of kind and name; a line of the same component is replaced. Raises
    ConfigError: the catalogue cannot be read or written; it is then as it was.
    """
    path = component.root / CATALOGUE
    entry = catalogue_entry(component, manifest)
    key = (entry["kind"], entry["name"])
    try:
        with folder_locked(component.root, wait_s=LOCK_WAIT_S):
            lines = list(read_jsonl(path)) if path.exists() else []
            if wrong := [line for line in lines if line.error or not isinstance(line.row, dict)]:
                raise ConfigError(f"{path}, line {wrong[0].number}: is not a JSON object")
            rows = {(line.row.get("kind"), line.row.get("name")): line.row for line in lines}
            ordered = sorted(
                (rows | {key: entry}).items(), key=lambda item: tuple(map(str, item[0]))
            )
            write_whole(path, b"".join(encode_json(row) + b"\n" for _, row in ordered))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    return path
