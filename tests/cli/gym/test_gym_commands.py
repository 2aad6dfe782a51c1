"""The commands of `gym` and their flags are those of NeMo Gym, with a few of Palestra's own."""

import pytest

from palestra.programs import COMMANDS, Command

CFG = "--config"
SEL = "--benchmark --environment --resources-server --model-type"
MODEL = "--model -m --model-url --model-api-key"
FLAGS = {
    "list benchmarks": "",
    "list environments": "--kind --domain --modality --licensing --status --lifecycle",
    "list agents": "",
    "list models": "",
    "list resources-servers": "",
    "search": "",
    "env start": f"{CFG} {SEL} {MODEL}",
    "env status": "",
    "env resolve": CFG,
    "env validate": f"{CFG} {SEL} {MODEL} --kind --manifest --sync",
    "env test": "--resources-server --kind --update-expected",
    "env init": "--resources-server --environment --benchmark --profile --reuse-verifier "
    "--reward-range --higher-is-better --lower-is-better",
    "env publish": "--kind",
    "env prefetch": f"{CFG} {SEL}",
    "env packages": "--resources-server --outdated",
    "eval prepare": f"{CFG} --benchmark",
    "eval run": f"{CFG} {SEL} {MODEL} --split --input -i --output -o --agent -a --no-serve --resume "
    "--limit --num-repeats --prompt-config --concurrency --temperature --top-p --max-output-tokens "
    "--disable-aggregation",
    "eval aggregate": f"{CFG} --input-glob -i --output -o",
    "eval profile": "--inputs --rollouts",
    "eval reverify": f"{CFG} {SEL} --inputs --rollouts --output -o --concurrency --limit --force "
    "--overwrite --resume --disable-aggregation --judge-failed-only --append",
    "eval submit": "--config -c --dry-run",
    "dataset upload": "--storage --name --revision --split --input -i --create-pr",
    "dataset download": "--storage --name --revision --split --artifact --repo-id --output -o "
    "--output-dir",
    "dataset rm": "--name",
    "dataset migrate": "--name --revision --split --input -i --artifact --create-pr",
    "dataset render": "--input -i --prompt-config --output -o",
    "dataset collate": f"{CFG} --resources-server --model-type --mode --output-dir --download",
    "dev test": "",
}
OWN_FLAGS = {
    "env resolve": f"{SEL} {MODEL}",
    "eval profile": "--allow-partial",
    "eval reverify": "--with-failures --judge --fresh-judge",
}
"""The flags that NeMo Gym does not have."""
JSON = {
    *("list benchmarks", "list environments", "list agents", "list models"),
    *("list resources-servers", "search", "env status", "env validate", "env test"),
    *("env publish", "env packages"),
}
OWN_JSON = {"env resolve", "eval run", "eval profile", "eval reverify", "dataset collate"}
"""Commands with `--json` that have none in NeMo Gym."""


def test_there_are_all_commands_and_no_others() -> None:
    assert {command.words for command in COMMANDS} == FLAGS.keys()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_a_command_has_its_flags(command: Command) -> None:
    flags = {name for flag in command.flags for name in flag.names}

    assert flags == {*FLAGS[command.words].split(), *OWN_FLAGS.get(command.words, "").split()}
    assert command.json is (command.words in JSON | OWN_JSON)
