"""Hints are in step with the table that docs/reference/troubleshooting.md is written from, and with the commands."""

import ast
import re

import pytest
from hints_in_source import (
    ROOT,
    Raised,
    commands_of_palestra,
    flags_of_palestra,
    literals,
    raised_with_hints,
)
from test_diagnose_signatures import FLAGS_OF_OTHERS

from palestra.causes import SignatureTable
from palestra.doctor.faults import entry_of, finding_of, hint_for
from palestra.errors import ConfigError, InputDataError, KnownCause, PalestraError, ServerDied
from palestra.programs import COMMANDS

TABLE = SignatureTable.load()
CAUSE = re.compile(r"(?:infra|model|config|data|verifier|cache|throughput)\.[a-z]+(?:-[a-z]+)*")


@pytest.fixture(scope="module")
def raised() -> list[Raised]:
    found = list(raised_with_hints())
    assert len(found) > 300
    return found


def test_every_cause_that_the_doctor_names_is_in_the_table() -> None:
    named = [(where, text) for where, text in literals(ROOT / "doctor") if CAUSE.fullmatch(text)]

    assert len(named) > 50
    assert [(where, cause) for where, cause in named if cause not in TABLE.by_cause] == []


@pytest.mark.parametrize(
    "error",
    [
        ConfigError(
            "num_repeats: should be a whole number from 1 on, got 0", cause=KnownCause.BAD_VALUE
        ),
        ConfigError("a: temprature is not a setting; did you mean 'temperature'?"),
        InputDataError("/data/tasks.jsonl: 1 row cannot be used", cause=KnownCause.UNUSABLE_DATA),
        InputDataError(
            "t.jsonl: 1 row cannot be used\n  line 1: /responses_create_params/input: x"
        ),
        ServerDied("server my_env ended with exit code 1; its last lines:\n  KeyError: 'HOME'"),
    ],
)
def test_a_message_that_says_what_to_do_gets_no_hint_that_only_refers_to_it(
    error: PalestraError,
) -> None:
    assert hint_for(error) == ""
    assert finding_of(error).next_action


def test_why_and_what_to_do_is_written_nowhere_but_in_the_table() -> None:
    written = [
        f"{path.name}:{word.value.lineno}"
        for path in (ROOT / "doctor").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg in {"likely_cause", "next_action"}
        and isinstance(word.value, ast.Constant | ast.JoinedStr)
    ]

    assert written == []


@pytest.mark.slow
def test_every_error_with_a_hint_has_an_entry_of_its_own_layer_or_of_its_words(
    raised: list[Raised],
) -> None:
    strange = []
    for one in raised:
        error = one.error.__new__(one.error)  # some take more than their message
        PalestraError.__init__(error, one.message)
        entry = entry_of(error)
        matched = TABLE.match(" ".join(one.message.split()))
        by_words = matched[0].cause if matched else ""
        by_class = entry.cause in {error.cause, error.usual_cause}
        if entry.layer is not error.layer and not by_class and by_words != entry.cause:
            strange.append((one.where, error.layer, entry.cause))

    assert not strange, "\n".join(map(str, strange))


def test_every_flag_and_command_that_a_hint_names_is_one(raised: list[Raised]) -> None:
    of_gym = {name for command in COMMANDS for flag in command.flags for name in flag.names}
    of_gym |= {"--search-dir"}
    others = FLAGS_OF_OTHERS | of_gym | {"--artifacts-destination"}  # of MLflow's server
    wrong = []
    for one in raised:
        flags = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", one.hint))
        commands = set(re.findall(r"`palestra ([a-z][a-z-]*)", one.hint))
        missing = (flags - flags_of_palestra() - others) | (commands - commands_of_palestra())
        wrong += [(one.where, sorted(missing))] if missing else []

    assert not wrong, "\n".join(map(str, wrong))


def test_a_hint_of_its_own_that_has_something_to_type_is_told_alone() -> None:
    found = finding_of(ConfigError("agent 'x' does not exist", hint="--agent mcqa_agent"))

    assert (found.cause, found.next_action) == ("config.missing-agent", "--agent mcqa_agent")


def test_a_hint_of_an_error_that_the_table_knows_by_its_class_alone_is_not_diluted() -> None:
    found = finding_of(ConfigError("nobody has seen this", hint="look again"))

    assert (found.cause, found.next_action) == ("config.invalid", "look again")
