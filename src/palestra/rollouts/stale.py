"""Whether a run that exists is the requested one, and how to go on when it is not."""

import contextlib
import itertools
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from palestra.errors import InputDataError, KnownCause, Layer
from palestra.rollouts.manifest import (
    Manifest,
    reached_servers,
    semantic_differences,
    servers_in,
    verifier_servers,
)
from palestra.rollouts.recorded import has_unscored
from palestra.rollouts.results import has_answers, reverify_command
from palestra.schema import SELECT_FAILED, RunPaths
from palestra.settings import CollectSettings

_OTHER_ROWS: Final = "the input rows differ"
_REQUESTED: Final = "rollouts requested: "
_NUM_REPEATS: Final = "num_repeats"
_MAYBE_OTHER_ROWS: Final = "the rows of the input file may have changed, too"


class StaleRun(InputDataError):
    """The existing run was made from other rows or settings than the requested one."""

    layer = Layer.CACHE
    cause = KnownCause.SETTINGS_CHANGED


def stale_run(
    old: Manifest,
    new: Manifest,
    changed: Sequence[str],
    settings: CollectSettings,
    agents: Collection[str],
) -> StaleRun:
    """Return the error for the run `old`, which cannot be continued as the run `new`. `changed`: the
    lines about the differences. `settings`: of the new run. `agents`: those that its rows name.
    """
    paths = RunPaths(settings.output_jsonl_fpath)
    return StaleRun(
        f"the run at {paths.output} was made from something else:\n  " + "\n  ".join(changed),
        hint=f"{_leave_out(old, new, changed, agents)}{_undo(old, new, changed)}; or choose another output; or start again: `--on-stale restart` (or `--overwrite`) "
        "moves the files of that run to names with .bak"
        + _kept_answers(paths, settings, has_other_verifier=_verifies_otherwise(old, new, changed)),
        cause=KnownCause.STALE_INPUTS if old.input_digest != new.input_digest else None,
    )


def changes(old: Manifest, new: Manifest, agents: Collection[str]) -> list[str]:
    """Return the differences between the existing run's manifest and the new one, one line each.

    `agents`: those that the new run's rows name.
    """
    changed = semantic_differences(old.semantics, new.semantics, agents)
    if old.input_digest != new.input_digest:
        changed = [*_limit_change(old, new), *changed]
    if old.version != new.version:
        changed.append(f"Palestra's version: {old.version} -> {new.version}")
    if _share_of(old) != _share_of(new):
        changed.append(f"shard: {_share_of(old)} -> {_share_of(new)}")
    if old.requested != new.requested:
        changed.append(f"{_REQUESTED}{old.requested} -> {new.requested}")
    return changed


def _limit_change(old: Manifest, new: Manifest) -> tuple[str, ...]:
    """Return the differences of runs with other input rows: their limits, and the rows.

    Whether another limit is the only difference cannot be seen from the manifests.
    """
    if not _has_other_limit(old, new):
        return (_OTHER_ROWS,)
    limits = ["none" if run.limit is None else str(run.limit) for run in (old, new)]
    limit_change = f"limit: {' -> '.join(limits)}"
    return (limit_change,) if _reads_same_files(old, new) else (limit_change, _MAYBE_OTHER_ROWS)


def _reads_same_files(old: Manifest, new: Manifest) -> bool:
    """Whether the input files are those of the run `old`, and nobody has written them since."""
    paths = [Path(name).absolute() for name in new.inputs]
    if not paths or paths != [Path(name).absolute() for name in old.inputs]:
        return False
    with contextlib.suppress(OSError):
        return all(path.stat().st_mtime < old.started_at for path in paths)
    return False


def _has_other_limit(old: Manifest, new: Manifest) -> bool:
    return old.knows_limit and new.knows_limit and old.limit != new.limit


def _leave_out(
    old: Manifest, new: Manifest, changed: Collection[str], agents: Collection[str]
) -> str:
    """Return the way on when all that has changed are servers that no setting connects with the
    rows; else nothing. Such a change counts, because code can call a server that no setting names.
    """
    reached = {name for run in (old, new) for name in reached_servers(run.semantics, agents)}
    unused = sorted({*servers_in(old.semantics), *servers_in(new.semantics)} - reached)
    about = {name: [line for line in changed if line.startswith(_about(name))] for name in unused}
    names = [name for name, lines in about.items() if lines]
    if not names or len(changed) > sum(map(len, about.values())):
        return ""
    verb = "are" if len(names) > 1 else "is"
    return (
        f"{', '.join(names)} {verb} named by no setting of the servers that these rows use: the run "
        f"goes on with a configuration, or a fleet, without {'them' if len(names) > 1 else 'it'}; or "
    )


def _about(server: str) -> tuple[str, ...]:
    """Return the beginnings of the lines about a server, or about its code."""
    return tuple(f"{part}.{server}{end}" for part in ("servers", "code") for end in ".:")


def _undo(old: Manifest, new: Manifest, changed: Collection[str]) -> str:
    """Return what makes the command the one that started the run `old`. `changed`: the lines about
    the differences.
    """
    steps: list[str] = []
    flags: list[str] = []
    undone = {_MAYBE_OTHER_ROWS}
    if old.input_digest != new.input_digest and _has_other_limit(old, new):
        undone.update(_limit_change(old, new))
        if old.limit is None:
            steps.append("leave out the limit")
        else:
            flags.append(f"--limit {old.limit}")
    repeats = [manifest.semantics.get(_NUM_REPEATS) for manifest in (old, new)]
    if repeats[0] != repeats[1] and isinstance(repeats[0], int):
        undone.update(line for line in changed if line.startswith(f"{_NUM_REPEATS}: "))
        flags.append(f"--num-repeats {repeats[0]}")
    if not steps and not flags:
        return "undo the changes"
    if flags:
        steps.append(f"set `{' '.join(flags)}`")
    if any(line not in undone and not line.startswith(_REQUESTED) for line in changed):
        steps.append("undo the rest")
    return f"{' and '.join(steps)} to go on with that run"


def _share_of(manifest: Manifest) -> str:
    return f"{manifest.shard.index}/{manifest.shard.of}" if manifest.shard else "the whole run"


def _verifies_otherwise(old: Manifest, new: Manifest, changed: Iterable[str]) -> bool:
    """Whether a line about the differences is about a resources server, its code, or a server that
    it names, such as its judge.
    """
    names = {*verifier_servers(old.semantics), *verifier_servers(new.semantics)}
    beginnings = tuple(itertools.chain.from_iterable(map(_about, names)))
    return any(line.startswith(beginnings) for line in changed)


def _kept_answers(paths: RunPaths, settings: CollectSettings, *, has_other_verifier: bool) -> str:
    """Return hints with the commands that verify the stale run's responses again, when its verifier
    has changed, and that write the tasks of its failed rollouts for a run of their own. Each is empty
    without such rollouts.
    """
    hint = ""
    scored = paths.output.exists() and paths.output.stat().st_size > 0
    if has_other_verifier and (scored or has_answers(paths.failures)):
        reverify = reverify_command(settings).text
        hint = f"; what the model has answered already, `{reverify}` verifies as things are now"
    if has_unscored(paths):
        hint += (
            f"; `{SELECT_FAILED}` writes the tasks of the rollouts without a score, and the command "
            "with that file as --input and another --output runs them alone"
        )
    return hint
