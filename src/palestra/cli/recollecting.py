"""What the recorded command of a run says about it: how its user gives settings, and the command that
collects other rows in the same way.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Final

from palestra.analysis import rollout_files, run_head
from palestra.api import outputs_of
from palestra.cli.gym.grammar import HELP, JSON, VERBOSE
from palestra.errors import InputDataError
from palestra.programs import EVAL as GYM_EVAL
from palestra.programs import PALESTRA, FlagKind, takes_overrides, with_flags_of
from palestra.schema import SELECT_FAILED, RunPaths, bare_name
from palestra.settings import CollectArgs, EvalArgs, flags_of
from palestra.system import shown

_COLLECTORS: Final = (
    ("palestra", "eval"),
    ("palestra", "collect"),
    ("palestra", "gym", "eval", "run"),
    ("gym", "eval", "run"),
    ("ng", "eval", "run"),
    ("ng_collect_rollouts",),
    ("nemo_gym_collect_rollouts",),
    ("ng_e2e_collect_rollouts",),
    ("nemo_gym_e2e_collect_rollouts",),
)
"""The commands that take rows and write rollouts."""
_OF_OTHER_ROWS: Final = frozenset(
    {
        *("input", "output", "rows", "seed"),  # of `eval`
        *("input_jsonl_fpath", "output_jsonl_fpath", "limit", "split", "shard"),
        *("resume_from_cache", "overwrite", "on_stale", "prompt_config", "json_events"),
    }
)
"""The settings that are about the rows or the files of the earlier run."""
_INPUT, _OUTPUT = "input_jsonl_fpath", "output_jsonl_fpath"
_END_OF_FLAGS: Final = "--"


def in_words_of_run(run: str | Path, text: str) -> str:
    """Return advice about a run: with its path and a new file where the advice leaves them open, and
    with the flags of a collection as the command takes them that collected it.
    """
    try:
        outputs = _outputs(run)
        recorded = run_head(outputs).command
    except InputDataError:
        return text
    if SELECT_FAILED in text:
        text = text.replace(SELECT_FAILED, _select_failed(run, outputs))
    program, _ = _collector_of(recorded)
    words = " ".join(program[:2] if program[1:2] == ("gym",) else program[:1])
    return with_flags_of(words or PALESTRA, text, only_of_collections=True)


def _outputs(run: str | Path) -> Sequence[Path]:
    """Return the outputs of a run, or of the shards that a glob names. Raises InputDataError."""
    try:
        return outputs_of(run)
    except InputDataError:
        return rollout_files(str(run))


def _select_failed(run: str | Path, outputs: Sequence[Path]) -> str:
    """Return the command that writes the tasks without a score of `run` to a file that does not
    exist.
    """
    stem = Path(bare_name(RunPaths.for_files(outputs).output)).stem
    folder = outputs[0].parent
    file = _unused(folder / f"{stem}_again.jsonl", lambda path: (path,))
    words = ("palestra", "select", shown(Path(run)), "--failed", "--out", shown(file))
    return shlex.join(words)


def command_for(recorded: str, rows: Path) -> str:
    """Return the command line `recorded` with `rows` as its input and an output that does not exist.

    `palestra eval` without an output makes a folder itself. Empty when `recorded` is no command that
    collects rollouts, such as a call in Python.
    """
    program, words = _collector_of(recorded)
    if not program:
        return ""
    items = list(_items(words[len(program) :]))
    other_words = [
        word for name, item in items if name not in _names_of_old_rows() for word in item
    ]
    settings = [(_INPUT, "--input", rows)]
    if program != ("palestra", "eval") or any(name in _output_names() for name, _ in items):
        settings.append((_OUTPUT, "--output", _new_output(rows)))
    if takes_overrides(program[0]):
        added = [f"+{name}={shown(path)}" for name, _, path in settings]
    else:
        added = [word for _, flag, path in settings for word in (flag, shown(path))]
    return shlex.join([*program, *other_words, *added])


def _collector_of(recorded: str) -> tuple[tuple[str, ...], list[str]]:
    """Return which of `_COLLECTORS` a recorded command calls, and all its words; both empty when it is
    another one.
    """
    try:
        words = shlex.split(recorded)
    except ValueError:
        return (), []
    if words[:1] == ["__main__.py"]:  # python -m palestra
        words[0] = PALESTRA
    program = next((start for start in _COLLECTORS if tuple(words[: len(start)]) == start), ())
    return (program, words) if program else ((), [])


def _items(words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the flags and overrides of a command line, each with its name and all its words. The
    name of any other word is empty.
    """
    switches = _switches()
    remaining = iter(words)
    for word in remaining:
        name, equals, _ = word.partition("=")
        if word.startswith("-"):
            is_short = not word.startswith("--")
            has_value = word in switches or equals or (is_short and len(word) > len("-o"))
            value = [] if has_value else list(islice(remaining, 1))
            yield (word[:2] if is_short else name), [word, *value]
        else:
            is_override = equals or word.startswith(("+", "~"))
            yield (name.lstrip("+~") if is_override else ""), [word]


def _switches() -> frozenset[str]:
    """Return the flags without a value of all commands that collect rollouts."""
    of_models = (
        flag
        for model in (CollectArgs, EvalArgs)
        for name, setting in model.model_fields.items()
        if setting.annotation is bool
        for flag in flags_of(model, name)
    )
    of_gym = (
        flag
        for command in GYM_EVAL
        for gym_flag in command.flags
        if gym_flag.kind is FlagKind.SWITCH
        for flag in gym_flag.names
    )
    return frozenset({*of_models, *of_gym, *HELP, *VERBOSE, JSON, _END_OF_FLAGS})


def _names_of_old_rows() -> frozenset[str]:
    """Return the settings of `_OF_OTHER_ROWS` and their flags."""
    flags = (
        flag
        for model in (CollectArgs, EvalArgs)
        for name in _OF_OTHER_ROWS & model.model_fields.keys()
        for flag in flags_of(model, name)
    )
    return _OF_OTHER_ROWS.union(flags)


def _output_names() -> frozenset[str]:
    return frozenset({*flags_of(EvalArgs, "output"), _OUTPUT})


def _new_output(rows: Path) -> Path:
    """Return an output beside `rows` of which no file exists."""
    output = rows.with_name(f"{rows.stem}_rollouts.jsonl")
    return _unused(output, lambda path: RunPaths(path).recorded())


def _unused(path: Path, files_of: Callable[[Path], Iterable[Path]]) -> Path:
    """Return `path`, else the first of `NAME_2`, `NAME_3`, … of which no file exists."""
    numbered = (path.with_name(f"{path.stem}_{number}{path.suffix}") for number in count(2))
    paths = chain((path,), numbered)
    return next(path for path in paths if not any(file.exists() for file in files_of(path)))
