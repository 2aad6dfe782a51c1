"""What the files of a run are: manifest, sizes, versions, state of the index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

import palestra
from palestra.config import redact
from palestra.schema import RunPaths, with_compressed
from palestra.viewer.catalog import OpenRun
from palestra.viewer.pages.runs import bad_lines, named_texts
from palestra.viewer.replies.about import About, FileLine
from palestra.viewer.requests import PageRequest

MOST_PROBLEMS: Final = 1_000
MOST_MANIFEST_BYTES: Final = 1 << 22


def about(request: PageRequest) -> About:
    """Answer the files of a run and the state of its index."""
    opened = request.run
    head, progress = opened.head(), opened.progress
    return About(
        files=list(_files(opened)),
        manifest=_manifest(opened.paths.manifest),
        settings=named_texts(dict(head.settings)),
        versions=named_texts(
            {"Palestra that ran it": head.version, "this Palestra": palestra.__version__}
        ),
        index=named_texts(
            {
                "rows": f"{len(opened.snapshot.rollouts):,}",
                "indexed": f"{progress.bytes_indexed:,} of {progress.bytes_total:,} bytes",
                "built anew": progress.rebuilt,
                "in memory": progress.in_memory,
                "written by": "this viewer" if progress.is_writer else "another viewer",
                "problem": opened.problem,
            }
        ),
        bad_lines=bad_lines(opened, MOST_PROBLEMS),
        bad_lines_total=opened.snapshot.problem_count,
    )


def _files(opened: OpenRun) -> Iterator[FileLine]:
    for output in opened.place.outputs:
        paths = RunPaths(output)
        yield _file("rollouts", paths.output)
        yield _file("inputs", paths.materialized_inputs)
        yield _file("failures", paths.failures)
        yield _file("manifest", paths.manifest)
        yield _file("events", paths.events)
        yield _file("profile", paths.reward_profiling)
        yield _file("report", paths.report)


def _file(role: str, path: Path) -> FileLine:
    existing_path = with_compressed(path)
    stat = None if existing_path is None else existing_path.stat()
    return FileLine(
        role=role,
        path=str(existing_path or path),
        bytes=None if stat is None else stat.st_size,
        modified_at=None if stat is None else stat.st_mtime,
    )


def _manifest(path: Path) -> str:
    """Return the manifest as indented JSON, without secrets; empty without one."""
    try:
        if path.stat().st_size > MOST_MANIFEST_BYTES:
            return ""
        manifest = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return ""
    return orjson.dumps(redact(manifest), option=orjson.OPT_INDENT_2).decode()
