"""The table of signatures: every entry is recognised in its examples, and in nothing else's."""

import re
from pathlib import Path

import pytest
from hints_in_source import flags_of_palestra
from hypothesis import given
from hypothesis import strategies as st

from palestra.causes import Signature, SignatureTable, troubleshooting
from palestra.config.keys import RESERVED_KEYS
from palestra.doctor import finding_of
from palestra.errors import InfraError, KnownCause, split_cause, with_cause
from palestra.schema import ReverifyCommand

TABLE = SignatureTable.load()
EXAMPLES = [(entry.cause, line) for entry in TABLE.signatures for line in entry.examples]
UNLIKE = [(entry.cause, line) for entry in TABLE.signatures for line in entry.unlike]
FLAGS_OF_OTHERS = {
    *("--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser", "--max-model-len"),
    *("--gpu-memory-utilization", "--tensor-parallel-size"),
    *("--mem", "--time", "--exclude", "--output", "--kill-on-invalid-dep", "--head"),
    *("--shm-size", "--ipc", "--structured-outputs-config"),
}
"""Of vLLM, of Slurm, of Ray, of containers."""
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "troubleshooting.md"


@pytest.mark.parametrize(("cause", "line"), EXAMPLES)
def test_an_example_is_recognised_as_its_cause(cause: str, line: str) -> None:
    _, marked = split_cause(line.partition("\n")[0])
    matched = TABLE.match(line)

    assert cause in {marked, matched[0].cause if matched else None}


@pytest.mark.timeout(60)
def test_a_word_without_end_does_not_hide_what_follows_or_take_minutes() -> None:
    cause, line = EXAMPLES[0]
    matched = TABLE.match("\u0301" * 20_000 + "\n" + line)

    assert matched is not None
    assert matched[0].cause == cause


@pytest.mark.parametrize("cause", KnownCause)
def test_what_an_error_carries_has_its_entry(cause: KnownCause) -> None:
    assert cause in TABLE.by_cause


@given(message=st.text(), cause=st.sampled_from(KnownCause))
def test_a_marked_line_is_split_into_what_it_was(message: str, cause: KnownCause) -> None:
    first, _, rest = with_cause(message, cause).partition("\n")
    line, marked = split_cause(first)

    assert (line, marked) == (message.partition("\n")[0], cause)
    assert rest == message.partition("\n")[2]


@pytest.mark.parametrize(("cause", "line"), UNLIKE)
def test_what_only_looks_like_it_is_not_taken_for_it(cause: str, line: str) -> None:
    matched = TABLE.match(line)

    assert matched is None or matched[0].cause != cause


def test_every_entry_has_an_example_and_is_there_once() -> None:
    causes = [entry.cause for entry in TABLE.signatures]

    assert [entry.cause for entry in TABLE.signatures if entry.says and not entry.examples] == []
    assert len(set(causes)) == len(causes)


TELLING = [line for entry in TABLE.signatures if entry.lines for line in entry.examples]


@pytest.mark.parametrize("line", TELLING)
def test_a_line_that_tells_something_is_looked_at(line: str) -> None:
    assert TABLE.is_worth_a_look(line)
    assert TABLE.is_telling(line)


def test_ordinary_lines_are_not_looked_at() -> None:
    assert not TABLE.is_worth_a_look("22:00:00 INFO request 17 took 12 ms, all is well here")


def test_what_an_entry_explains_is_in_the_table() -> None:
    causes = set(TABLE.by_cause)

    assert [e.cause for e in TABLE.signatures if not e.explains <= causes] == []


def test_the_document_is_written_from_the_table() -> None:
    assert DOCUMENT.read_text() == troubleshooting(TABLE), "run scripts/write_troubleshooting.py"


def test_the_document_is_headed_by_what_people_see() -> None:
    text = DOCUMENT.read_text()

    assert all(f"### {entry.title}\n" in text for entry in TABLE.signatures)


@pytest.mark.parametrize("cause", KnownCause)
def test_every_cause_that_an_error_can_carry_is_in_the_table(cause: KnownCause) -> None:
    assert cause in TABLE.by_cause


def test_why_and_what_to_do_is_the_same_before_and_after_a_run() -> None:
    before = finding_of(InfraError("http://127.0.0.1:9/v1/models: Connection refused"))
    entry = TABLE.by_cause["model.unreachable"]

    assert (before.cause, before.likely_cause, before.next_action) == (
        entry.cause,
        entry.why,
        entry.do,
    )
    assert entry.action() == f"{entry.do}; then {entry.then}"


@pytest.mark.parametrize("entry", TABLE.signatures, ids=lambda entry: entry.cause)
def test_every_flag_and_setting_that_the_table_names_is_one(entry: Signature) -> None:
    told = f"{entry.do} {entry.then}"
    flags = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", told)) - FLAGS_OF_OTHERS
    settings = re.findall(r"\+\+([a-z_]+)", told)

    assert flags <= flags_of_palestra()
    assert [
        name for name in settings if name not in {*RESERVED_KEYS, "responses_create_params", "name"}
    ] == []


def test_what_a_broken_environment_says_is_not_taken_for_the_words_of_others() -> None:
    raised = "my_env/verify raised FileExistsError: /data/cache.jsonl exists already"

    matched = TABLE.match(raised)

    assert matched is not None
    assert matched[0].cause == "verifier.raises"


@pytest.mark.parametrize(
    "line",
    [
        "KeyboardInterrupt",
        "asyncio.exceptions.CancelledError",
        "RuntimeError: Event loop is closed",
        "Unclosed client session",
        "INFO:     Waiting for application shutdown.",
        "Task was destroyed but it is pending!",
    ],
)
def test_what_servers_say_when_they_stop_is_noise(line: str) -> None:
    assert TABLE.is_worth_a_look(line)
    assert TABLE.is_noise(line)


@pytest.mark.parametrize("cause", ["verifier.does-not-return", "verifier.ends-its-worker"])
def test_code_that_is_to_be_changed_is_not_resumed(cause: str) -> None:
    action = TABLE.by_cause[cause].action()

    assert "then `palestra select RUN --failed --out FILE`" in action


@pytest.mark.parametrize("cause", ["verifier.judge-unreadable", "model.fails"])
def test_where_the_answers_are_kept_the_command_that_verifies_them_is_the_only_advice(
    cause: str,
) -> None:
    action = TABLE.by_cause[cause].action(
        reverify=ReverifyCommand("palestra reverify --rollouts run.jsonl")
    )

    assert "then palestra reverify --rollouts run.jsonl" in action
    assert "--max-attempts" not in action


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ImportError: cannot import name 'Response' from 'openai' (/x/__init__.py)", "openai"),
        ("ModuleNotFoundError: No module named 'nemo_gym.rollout_correlation'", "nemo_gym.rollout"),
        ("/d/my_env.py must define exactly one environment; found: A, B", "python /d/my_env.py"),
        ("slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-21 ***", "sacct -j 12 "),
    ],
)
def test_advice_names_what_any_pattern_of_its_entry_finds(text: str, word: str) -> None:
    matched = TABLE.match(text)

    assert matched is not None
    assert word in matched[0].do_of(text)
