"""The commands that read a run's files: profile, merge, reverify, compare, select, scores."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from palestra.cli.console import fail, guarded
from palestra.cli.flags import (
    AS_JSON,
    Configs,
    Flags,
    Overrides,
    run,
    settings_command,
    with_configs,
)
from palestra.config import NamedFile, mask_line
from palestra.errors import ConfigError, InputDataError, PalestraError, Phrase
from palestra.programs import is_bare
from palestra.system import shown

_ENVIRONMENT_FLAGS: Final = frozenset({"--environment", "-e", "--config", "-c"})
_SETTINGS_OF_NEMO_GYM: Final = {
    "rollouts_jsonl_fpath": "rollouts",
    "output_jsonl_fpath": "output",
    "materialized_inputs_jsonl_fpath": "inputs",
}
"""The settings of `ng_*` commands -> those of `reverify`."""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "ProfileArgs", "JsonArgs", required=False)(profile)
    settings_command(app, "MergeArgs")(merge)
    settings_command(app, "ReverifyArgs", optional=("rollouts", "output"))(reverify)
    settings_command(app, "CompareArgs")(compare)
    settings_command(app, "SelectArgs")(select)
    settings_command(app, "ScoresArgs")(scores)


def profile(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Compute reward statistics per task and per agent. Prints the table. Same as
    ng_reward_profile.

    `palestra profile FILE` is short for `--rollouts FILE`.
    """
    from palestra.cli.profiling_commands import profile as profile_run

    overrides = overrides or []
    if word := _run_among(flags, "rollouts_jsonl_fpath", overrides[:1]):
        flags["rollouts_jsonl_fpath"], overrides = [word], overrides[1:]
    as_json = flags.pop(AS_JSON, False)
    words = with_configs(configs, overrides)
    guarded(lambda: profile_run(words, ng=False, extra=flags, as_json=as_json))


def merge(flags: Flags, configs: Configs = None) -> None:
    """Merge the shards of one run. Writes the same bytes as a run without shards.

    Also makes aggregate metrics, when a fleet runs or --config names its agents.
    """
    flags["shards"] = with_configs(configs, flags["shards"])
    run("palestra.cli.merging:merge_arguments", "MergeArgs", flags)


def reverify(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Verify stored responses again, without the model. Shows which rewards change.

    `palestra reverify RUN` is short for `--rollouts RUN`.

    Without --environment, each row goes to the environment of its agent in the configs. Answers of
    a failures file whose verification failed are verified, too, and become scored rows.
    """
    words = list(overrides or ())
    _refuse_overrides_of_flags("ReverifyArgs", words)
    if word := _run_among(flags, "rollouts", words):
        flags["rollouts"] = Path(word)
        words.remove(word)
    if "rollouts" in flags and "output" not in flags:
        fail(_without_output(flags["rollouts"]))
    run("palestra.cli.reverifying:reverify", "ReverifyArgs", flags, with_configs(configs, words))


def _refuse_overrides_of_flags(model: str, words: Sequence[str]) -> None:
    """Exit with an error when words name settings that the command takes by flags, such as
    `+rollouts_jsonl_fpath=FILE`. The hint is the whole command.

    `model`: the settings of the command.
    """
    from palestra.cli.entry import imported
    from palestra.settings import flags_of

    settings = imported(model)
    flag_of_word: dict[str, str] = {}
    for word in words:
        key = word.lstrip("+").partition("=")[0]
        setting = _SETTINGS_OF_NEMO_GYM.get(key, key)
        if "=" in word and setting in _SETTINGS_OF_NEMO_GYM.values():
            flag_of_word[word] = flags_of(settings, setting)[0]
    if not flag_of_word:
        return
    typed: list[str] = []
    for word in sys.argv[1:]:
        flag = flag_of_word.get(word)
        typed += [mask_line(word)] if flag is None else [flag, word.partition("=")[2]]
    keys = [word.lstrip("+").partition("=")[0] for word in flag_of_word]
    fail(
        ConfigError(
            ", ".join(
                f"{key} is {flag} here"
                for key, flag in zip(keys, flag_of_word.values(), strict=True)
            ),
            hint=Phrase("{command}", command=shlex.join(("palestra", *typed))),
        )
    )


def _run_among(flags: Flags, setting: str, words: Sequence[str]) -> str:
    """Return the first word that names a run: neither an override nor an environment in one file.
    Empty when there is none, or a flag names the run.
    """
    if setting in flags:
        return ""
    return next((w for w in words if is_bare(w) and NamedFile.parse(w) is None), "")


def _without_output(rollouts: Path) -> PalestraError:
    """Return the error of a `reverify` without an output, with the whole command; of a run that is not
    there, that.
    """
    from palestra.rollouts import outputs_of, unsafe, unused_reverified

    output = rollouts
    try:
        output = outputs_of(rollouts)[0]
    except InputDataError as error:
        if not rollouts.exists():
            return error
    typed = [mask_line(word) for word in sys.argv[1:] if word]
    names_environment = any(
        word.partition("=")[0] in _ENVIRONMENT_FLAGS or "config_paths" in word for word in typed
    )
    environment: Sequence[str] = ()
    if not names_environment:
        from palestra.analysis import environment_options

        environment = environment_options(rollouts)
    proposed = unused_reverified(output)
    if "--force" in typed:
        proposed = unsafe(proposed)
    words = ["palestra", *typed, "--output", shown(proposed), *environment]
    return ConfigError("--output is required", hint=Phrase("{command}", command=shlex.join(words)))


def compare(flags: Flags) -> None:
    """Test whether run B beats run A, task by task. Prints the interval, the p-value, regressions and
    missing rollouts.

    The materialized inputs and the failures of a run are found by their names, in its folder.
    """
    run("palestra.cli.comparing:compare_runs", "CompareArgs", flags)


def select(flags: Flags) -> None:
    """Export tasks that are neither too easy nor too hard. They are a dataset to collect again. With
    --failed: the tasks whose rollouts failed.

    Rollouts without a reward never count as difficulty. A provenance file in the same folder
    records for every row where it comes from and how sure its pass rate is.
    """
    run("palestra.cli.selecting:select_tasks", "SelectArgs", flags)


def scores(flags: Flags) -> None:
    """Print pass@1, maj@k and pass@k of models, in percent. Each is the mean ± error over seeds."""
    run("palestra.cli.scoring:show_scores", "ScoresArgs", flags)
