"""Commands in hints, in the words of the program that the user called."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer

import palestra
from palestra import Run
from palestra.api import how_to_continue
from palestra.cli.collecting import RESUME_OVERRIDES
from palestra.cli.main import app
from palestra.errors import Phrase
from palestra.programs import (
    CALLS,
    COMMANDS,
    collector_program,
    command_words,
    hint_with_arguments,
    takes_overrides,
    with_arguments,
    with_commands_of,
    with_flags_of,
)
from palestra.settings import CollectSettings

OPENAI = "responses_api_models/openai_model/configs/openai_model.yaml"


@pytest.mark.parametrize(
    ("program", "text", "expected"),
    [
        ("palestra", "start one with `palestra run`", "start one with `palestra run`"),
        ("gym", "start one with `palestra run`", "start one with `gym env start`"),
        ("ng", "`palestra benchmark prepare`", "`ng eval prepare`"),
        ("palestra gym", "`palestra merge`", "`palestra gym eval aggregate`"),
        ("ng_collect_rollouts", "`palestra run` or `palestra eval`", "`ng_run` or `ng_e2e_collect_rollouts`"),
        ("nemo_gym_status", "`palestra run`", "`nemo_gym_run`"),
        ("gym", "`palestra profile --allow-partial`", "`gym eval profile --allow-partial`"),
        ("gym", "`palestra test --record`", "`palestra test --record`"),
        ("gym", "`palestra diagnose RUN`", "`palestra diagnose RUN`"),
        ("ng_reward_profile", "`palestra profile --group-by x`", "`palestra profile --group-by x`"),
        ("ng_run", "`palestra reverify`", "`palestra reverify`"),
        ("pytest", "`palestra run`", "`palestra run`"),
        ("gym", f"add `+config_paths=[{OPENAI}] ++policy_model_name=NAME`", "add `--model-type openai_model --model NAME`"),
        ("gym", "`+config_paths=[mine.yaml] ++deep.key=1`", "`+config_paths=[mine.yaml] ++deep.key=1`"),
        ("ng_collect_rollouts", "`--on-stale restart` (or `--overwrite`)", "`+on_stale=restart` (or `+overwrite=true`)"),
        ("gym", "`--shard I/N` or `--resume`", "`+shard=I/N` or `--resume`"),
        ("ng_collect_rollouts", "`--resume` or `--concurrency 8 --max-attempts`", "`+resume_from_cache=true` or `+num_samples_in_parallel=8 +max_attempts=N`"),
        ("palestra", "`--on-stale restart`", "`--on-stale restart`"),
        ("palestra", "--resume with a higher --max-attempts", "--resume with a higher --max-attempts"),
        ("gym", "--resume with a higher --max-attempts", "--resume with a higher +max_attempts=N"),
        ("ng_collect_rollouts", "--resume with a higher --max-attempts", "+resume_from_cache=true with a higher +max_attempts=N"),
        ("ng_reward_profile", "--allow-partial profiles 3; --resume runs 2", "+allow_partial_rollouts=true profiles 3; +resume_from_cache=true runs 2"),
        ("gym", "--allow-partial profiles 3; --max-attempts 6", "--allow-partial profiles 3; +max_attempts=6"),
        ("ng_run", "palestra show a.jsonl 0:0 --json shows it; --resume tries 2", "palestra show a.jsonl 0:0 --json shows it; +resume_from_cache=true tries 2"),
        ("gym", "(--repeats 4) or --overwrite", "(--num-repeats 4) or +overwrite=true"),
        ("ng_run", "use --repeats 4.", "use +num_repeats=4."),
        ("ng_run", "another --output, or --config FILE", "another +output_jsonl_fpath=FILE, or +config_paths=[FILE]"),
        ("ng_run", "such as `--config a/b.yaml` with", "such as `+config_paths=[a/b.yaml]` with"),
        ("ng_run", "vLLM: --max-model-len 8", "vLLM: --max-model-len 8"),
        ("ng", "(--patience SECONDS)", "(+patience=SECONDS)"),
        ("ng_run", "see `palestra collect --resume`", "see `palestra collect --resume`"),
        ("ng_run", "sbatch --output LOG job.sh; --resume", "sbatch --output LOG job.sh; +resume_from_cache=true"),
        ("ng_run", "try docker run --name x --output FILE", "try docker run --name x --output FILE"),
        ("train.py", "--resume runs 3", "--resume runs 3"),
        ("ng_run", "`--enforce-eager`", "`--enforce-eager`"),
        ("ng_run", "`++policy_model_name=NAME`", "`++policy_model_name=NAME`"),
    ],
)  # fmt: skip
def test_a_hint_quotes_commands_of_the_program_that_was_called(
    program: str, text: str, expected: str
) -> None:
    assert with_commands_of(program, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use --repeats 4.", "use repeats=4."),
        ("raise `--rollout-timeout N`", "raise `rollout_timeout_s=N`"),
        ("choose another --out", "choose another path"),
        ("--resume with a higher --max-attempts", "resume=True with a higher --max-attempts"),
        ("start again with --overwrite", "choose another output"),
        (
            "undo it; or start again: `--on-stale restart` (or `--overwrite`) moves the files of that run to names with .bak",
            "undo it",
        ),
        ("`--agent my_agent --repeats 2`", "`--agent my_agent --repeats 2`"),
        (
            "add `--path a.jsonl --repeats 2 --resume`",
            "add `path='a.jsonl', repeats=2, resume=True`",
        ),
        ("add --repeats 2 (or `+num_repeats=2`) to go on", "add repeats=2 to go on"),
        ("`palestra show RUN --repeats 2`", "`palestra show RUN --repeats 2`"),
    ],
)
def test_a_hint_for_python_names_the_arguments_of_the_function(text: str, expected: str) -> None:
    names = {"path", "repeats", "resume", "rollout_timeout_s"}

    assert with_arguments(text, names) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`palestra runs` lists them", "`palestra.runs()` lists them"),
        ("`palestra diagnose RUN` says why", "`Run.diagnose()` says why"),
        ("`palestra profile --allow-partial`", "`Run.profile()`"),
        (
            "`palestra select 'my run.jsonl' --failed --out again.jsonl`",
            "`palestra.open_run('my run.jsonl').select(failed=True).save('again.jsonl')`",
        ),
        (
            "`palestra reverify --rollouts a.jsonl --with-failures --only 0:1 --only 2:3`",
            "`palestra.open_run('a.jsonl').reverify(only=['0:1', '2:3'])`",
        ),
        ("`palestra reverify ++a=b`", "`palestra reverify ++a=b`"),
        ("`palestra show RUN --repeats 2`", "`palestra show RUN --repeats 2`"),
        ("it is slow; --patience SECONDS waits longer", "it is slow"),
        ("--inputs FILE names it", ""),
        ("lower --max-model-len of vLLM", "lower --max-model-len of vLLM"),
    ],
)
def test_a_hint_for_python_has_only_what_its_users_can_write(text: str, expected: str) -> None:
    assert hint_with_arguments(text, {"repeats"}) == expected


def test_the_calls_of_hints_have_arguments_that_the_functions_take() -> None:
    for name, arguments in CALLS.items():
        function = getattr(Run, name, None) or getattr(palestra, name)

        assert set(arguments) <= inspect.signature(function).parameters.keys()


def test_only_the_sentence_of_a_phrase_is_spelled() -> None:
    typed = "--limit 5 or `palestra run`"
    phrase = Phrase("add --limit {count}, as in {typed}; or `palestra run`", count=3, typed=typed)

    spelled = with_commands_of("ng_run", phrase)

    assert phrase == f"add --limit 3, as in {typed}; or `palestra run`"
    assert spelled == f"add +limit=3, as in {typed}; or `ng_run`"


def test_advice_about_a_run_of_python_names_its_arguments() -> None:
    program = collector_program("palestra.evaluate('shelf.py', limit=2)")

    advice = with_flags_of(program, "--resume with a higher --max-attempts")

    assert advice == "resume=True with a higher max_attempts"


def test_the_table_of_gym_names_only_commands_of_palestra() -> None:
    def paths(group: object, before: str = "") -> set[str]:
        commands = getattr(group, "commands", {})
        names = {f"{before}{name}" for name in commands}
        return names.union(*(paths(c, f"{before}{n} ") for n, c in commands.items()))

    named = {words for command in COMMANDS for words in command.same_as}

    assert named <= paths(typer.main.get_command(app))


def test_reverification_has_a_gym_command_and_no_older_one() -> None:
    assert command_words("reverify", "gym") == "gym eval reverify"
    assert command_words("reverify", "ng_collect_rollouts") == "palestra reverify"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, "--output out/r.jsonl --resume"),
        (
            {"resume_words": RESUME_OVERRIDES},
            "++output_jsonl_fpath=out/r.jsonl ++resume_from_cache=true",
        ),
    ],
)
def test_a_stopped_run_goes_on_with_the_options_that_its_program_takes(
    words: dict[str, Any], expected: str
) -> None:
    settings = CollectSettings((), Path("out/r.jsonl"), **words)

    assert f"with {expected} goes on" in how_to_continue(settings)


def test_only_the_older_programs_take_nothing_but_overrides() -> None:
    programs = ("palestra", "gym", "ng", "palestra gym", "ng_collect_rollouts", "nemo_gym_run")

    assert [p for p in programs if takes_overrides(p)] == ["ng_collect_rollouts", "nemo_gym_run"]
