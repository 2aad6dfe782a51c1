"""Rollouts whose judge failed get their rewards from another judge, without the model."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import palestra
from palestra import Run
from palestra.api import prepared_reverification
from palestra.cli.reverifying import reverify
from palestra.cli.showing import show
from palestra.errors import ConfigError, InputDataError, KnownCause
from palestra.settings import ReverifyArgs, ShowArgs
from palestra.testing import scripted_endpoint

pytestmark = pytest.mark.slow

JUDGED = """
from palestra import Environment

class Judged(Environment):
    isolated = False  # a worker takes a second to start, and is no part of what is tested
    data = [{"question": "2+2?", "a": "4"}]
    prompt = "{question}"

    async def verify(self, answer, a):
        return float(await self.judge.same(a, answer))
"""
CONFIG = """
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      base_url: {url}/v1
      api_key: EMPTY
      model: scripted
"""


@pytest.fixture
def unjudged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run whose judge answered nonsense."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    Path("judged.py").write_text(JUDGED)
    with scripted_endpoint("4") as model, scripted_endpoint("blah") as junk:
        yield palestra.evaluate(
            "judged.py",
            model=f"vllm:{model.url}",
            judge=f"vllm:scripted@{junk.url}",
            output="out/run.jsonl",
            max_attempts=1,
            progress=False,
        )


@pytest.fixture
def judge() -> Iterator[str]:
    """A judge that finds the answers equal, in both orders."""
    with scripted_endpoint("Equal.\n[[A=B]]", "Equal.\n[[A=B]]") as endpoint:
        yield f"vllm:scripted@{endpoint.url}"


def command_in(text: str) -> list[str]:
    """The words of the `palestra reverify` command in an advice."""
    command = text.partition("palestra reverify ")[2].partition(" scores ")[0].partition(", ")[0]
    return shlex.split(command.partition(" verifies ")[0])


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


@pytest.mark.parametrize("fresh_judge", [True, False])
def test_another_judge_scores_the_kept_answers(
    unjudged: Run, judge: str, fresh_judge: bool
) -> None:
    again = unjudged.reverify(fresh_judge=fresh_judge, judge=judge)

    assert (again.result["verified"], again.failed) == (1, 0)


def test_what_the_judge_was_asked_is_shown_as_text(
    unjudged: Run, judge: str, capsys: pytest.CaptureFixture[str]
) -> None:
    again = unjudged.reverify(judge=judge)

    show(ShowArgs(subject=str(again.output), rollout="0:0"))

    out = capsys.readouterr().out
    assert "judge, question 2 of 2: [[A=B]]\n[user]\n" in out
    assert "\n[assistant]\n  Equal.\n  [[A=B]]\n" in out
    assert "judge_evaluations" not in out
    assert "[system]" not in out


@pytest.mark.parametrize("rollouts", ["out/run.jsonl", "out/run_failures.jsonl"])
def test_the_first_failure_names_the_file_of_its_line(
    unjudged: Run, capsys: pytest.CaptureFixture[str], rollouts: str
) -> None:
    with scripted_endpoint("blah", "blah") as junk:
        reverify(
            ReverifyArgs(
                rollouts=Path(rollouts),
                with_failures=rollouts == "out/run.jsonl",
                environment="judged.py",
                judge=f"vllm:scripted@{junk.url}",
                output=Path("new.jsonl"),
            ),
            [],
        )

    assert "the first: line 1 of out/run_failures.jsonl: " in capsys.readouterr().err


def test_the_advice_after_a_judge_failure_is_a_command_that_names_the_judge(unjudged: Run) -> None:
    words = command_in(unjudged.failures()[0].remedy)

    assert "--fresh-judge" not in words  # what the judge has answered stays
    assert option(words, "--judge").startswith("vllm:scripted@http://")
    assert option(words, "--environment") == "judged.py"


def test_a_diagnosis_gives_that_command_and_no_other_advice(unjudged: Run) -> None:
    diagnosis = unjudged.diagnose()

    [finding] = diagnosis.findings
    (counts,) = diagnosis.counts.values()
    only = ["--only", "0:0"]
    assert command_in(finding.next_action) == command_in(counts.what_helps)
    assert command_in(counts.what_helps) + only == command_in(unjudged.failures()[0].remedy)
    assert "--max-attempts" not in finding.next_action


def test_advice_names_an_output_that_no_earlier_command_wrote(unjudged: Run, judge: str) -> None:
    unjudged.reverify(judge=judge)

    words = command_in(unjudged.failures()[0].remedy)

    assert option(words, "--output") == "out/run_reverified_2.jsonl"


def test_a_judge_failure_shows_what_the_judge_was_asked(
    unjudged: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    [attempt] = unjudged.failures()[0].attempts
    show(ShowArgs(subject="out/run.jsonl", rollout="0:0"))

    [line] = [line for line in attempt.judge_question.splitlines() if "<generated_answer " in line]
    assert "[asked the judge]\n" in (printed := capsys.readouterr().out)
    assert f"  {line}\n  4\n" in printed


def test_a_missing_judge_is_an_error_of_the_command_and_writes_nothing(unjudged: Run) -> None:
    with pytest.raises(ConfigError, match="asks policy_model, and nothing configures it") as error:
        unjudged.reverify(fresh_judge=True)

    assert error.value.cause is KnownCause.NO_JUDGE
    assert not Path("out/run_reverified.jsonl").exists()


def test_a_resume_with_another_judge_names_the_call_that_asks_it(unjudged: Run) -> None:
    judge = "vllm:better@http://127.0.0.1:9/v1"
    with pytest.raises(InputDataError) as refused:
        palestra.evaluate(
            "judged.py",
            model="vllm:scripted@http://127.0.0.1:9/v1",
            judge=judge,
            output="out/run.jsonl",
            resume=True,
            progress=False,
        )

    run = "`palestra.open_run('out/run.jsonl')"
    assert f"{run}.reverify(output='out/run_reverified.jsonl', environment='judged.py', judge=" in (
        refused.value.hint
    )
    assert f"judge={judge!r})`" in refused.value.hint
    assert f"{run}.select(failed=True).save('out/run_again.jsonl')`" in refused.value.hint


def reverified(*overrides: str) -> int:
    args = ReverifyArgs(
        rollouts=Path("out/run.jsonl"),
        output=Path("new.jsonl"),
        environment="judged.py",
        with_failures=True,
    )
    with prepared_reverification(args, list(overrides)) as prepared:
        return len(prepared.config.instances)


def test_a_file_is_verified_with_the_servers_of_a_config(unjudged: Run) -> None:
    Path("model.yaml").write_text(CONFIG.format(url="http://127.0.0.1:9"))

    assert reverified("+config_paths=['model.yaml']") == 2


def test_the_endpoint_of_the_policy_is_the_judge_where_no_judge_is_named(unjudged: Run) -> None:
    settings = {"base_url": "http://127.0.0.1:9/v1", "api_key": "EMPTY", "model_name": "m"}

    assert reverified(*(f"++policy_{name}={value}" for name, value in settings.items())) == 2
