"""`palestra.evaluate` and the run that it returns, as scripts and notebooks use them."""

import asyncio
import contextlib
import json
import logging
import math
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import palestra
from palestra import Run
from palestra.analysis import QueryError
from palestra.api.arguments import python_function
from palestra.errors import BadInput, CallEvidence, ConfigError, InfraError, InputDataError, Phrase
from palestra.testing import scripted_endpoint

SHELF = """
from palestra import environment

@environment(
    isolated=False,  # a worker takes a second to start, and is no part of what is tested here
    data=[{"question": f"1+{at}", "total": 1 + at, "topic": "even" if at % 2 else "odd"}
          for at in range(4)],
    prompt="Add the two numbers, and answer with the sum alone: {question}",
)
def verify(answer: str, total: int) -> dict[str, float]:
    if total == 4:
        raise ValueError("four is not liked")
    return {"right": float(answer == str(total)), "short": 0.5 * (len(answer) < 3)}
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "shelf.py"
    path.write_text(SHELF)
    return path


@pytest.fixture
def model() -> Iterator[str]:
    with scripted_endpoint(*["1"] * 40) as endpoint:
        yield f"vllm:{endpoint.url}"


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two tasks, one rollout each, for tests that write no file beside it."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch, scripted_endpoint("1", "1") as endpoint:
        patch.setenv("PALESTRA_CACHE_DIR", str(folder / "cache"))
        path = folder / "shelf.py"
        path.write_text(SHELF)
        output = folder / "run.jsonl"
        return evaluated(path, f"vllm:{endpoint.url}", limit=2, output=output)


def evaluated(shelf: Path, model: str, **options: object) -> Run:
    return palestra.evaluate(shelf, model=model, progress=False, **options)  # type: ignore[arg-type]


def test_an_evaluation_returns_the_run_and_prints_nothing(
    shelf: Path, model: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # commands of other tests in this process have set up logging
    monkeypatch.setattr(logging.getLogger("palestra"), "handlers", [])
    run = evaluated(shelf, model, repeats=2)

    assert (run.environment, run.model, run.requested) == ("shelf", "scripted", 8)
    assert run.outcomes == {"scored": 6, "verifier_error": 2}
    assert run.mean_reward == pytest.approx((2 * 1.5 + 4 * 0.5) / 6)
    assert run.path.parent.parent == shelf.parent / "runs"
    assert run.path.with_name("rollouts_report.html").exists()
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_run_is_one_line_a_table_and_json(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    assert "shelf, scripted, 3 of 4 scored, 1 failed, mean reward" in repr(run)
    assert "\n" not in repr(run)
    assert "<table>" in run._repr_html_()
    assert json.loads(json.dumps(run.to_dict()))["outcomes"] == {"scored": 3, "verifier_error": 1}


def test_results_can_be_pickled(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    for result in (run, run.profile(), run.rollout(0, 0), run.select(band=(0.0, 1.0))):
        assert pickle.loads(pickle.dumps(result)) == result


def test_rollouts_are_filtered_by_a_query(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    assert [(r.task, r.rollout) for r in run.rollouts("reward>=1")] == [(0, 0)]
    assert [r.task for r in run.rollouts("topic:even outcome:scored")] == [1]
    assert [r.task for r in run.rollouts("class:verifier_error")] == [3]
    assert [r.task for r in run.rollouts("outcome:failed")] == [3]
    assert [r.task for r in run.rollouts("outcome!=failed")] == [0, 1, 2]
    assert [r.task for r in run.rollouts("-has:reward or reward_components.right:1")] == [0, 3]


def test_a_query_that_cannot_be_read_names_the_place(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model, limit=1)

    with pytest.raises(ConfigError, match="wrong at character"):
        run.rollouts("(reward<1")


def test_a_query_with_a_range_of_another_language_is_refused(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    with pytest.raises(ConfigError) as raised:
        list(run.rollouts("task:0-3"))
    assert "task:0..3" in raised.value.hint
    with pytest.raises(ConfigError, match=r"reward_components\.right"):
        list(run.rollouts("right:1"))


def test_a_range_without_numbers_is_refused_for_a_field_of_numbers(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    with pytest.raises(ConfigError, match=r"task is a number, and 'a\.\.b' is none") as raised:
        list(run.rollouts("task:a..b"))
    assert raised.value.hint.endswith("task:0..3")


def test_a_word_for_a_field_of_numbers_is_refused(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    with pytest.raises(QueryError, match="task is a number, and 'a' is none"):
        list(run.rollouts("task:a"))


def test_a_tool_that_is_never_called_is_a_warning(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    with pytest.warns(UserWarning, match="no row has tools:search; its values here: none"):
        assert not list(run.rollouts("tools:search"))


class Table:
    """A table as those of pandas: its items are the columns."""

    columns = ("q",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [{"q": 1.5}, {"q": math.nan}]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"output": 5}, "output=5 should be a path"),
        ({"output": ""}, "output='' should be a path"),
        ({"data": 5}, "data=5 should be a path or a list, each item a mapping of a row's fields"),
        ({"data": []}, "data has no rows"),
        ({"data": ["a"]}, "data[0]='a' should be a mapping of a row's fields"),
        (
            {"data": {"q": 1}},
            "data={'q': 1} should be a path or a list, each item a mapping of a row's",
        ),
        ({"data": [{}, {"q": [{1}]}]}, "row 2 of the data cannot be JSON: ['q'][0] is a set"),
        ({"data": [{"q": math.nan}]}, "row 1 of the data cannot be JSON: ['q'] is nan"),
        ({"data": [{"q": (1, 2)}]}, "row 1 of the data cannot be JSON: ['q'] is a tuple"),
        ({"data": Table()}, "row 2 of the data cannot be JSON: ['q'] is nan"),
        ({"data": [{"q": 2**70}]}, "['q'] is a int (Integer exceeds 64-bit range)"),
        ({"data": [MappingProxyType({"q": 1})]}, "the row is a mappingproxy"),
        ({"data": [{1: "x"}]}, "cannot be JSON: the row has the key 1, which is not a text"),
        ({"settings": 5}, "settings=5 should be a mapping, such as {'name': value}"),
        ({"settings": {"size": {1}}}, "settings['size'] is a set, which cannot be the value of a"),
        ({"settings": "size=1"}, "settings='size=1' should be a mapping, such as {'name': value}"),
        ({"sampling": 5}, "sampling=5 should be a mapping, such as {'name': value}"),
        (
            {"sampling": {"temperature": np.float32(1)}},
            "sampling['temperature'] is a numpy.float32",
        ),
        (
            {"sampling": {"max_tokens": 5}},
            "sampling.max_tokens: is no parameter of a request (did you",
        ),
        (
            {"sampling": {"temprature": 5}},
            "sampling.temprature: is no parameter of a request (did you",
        ),
        ({"rollout_timeout_s": "10"}, "rollout_timeout_s='10' should be a number above 0"),
        ({"repeats": True}, "repeats=True should be a whole number from 1 on"),
        ({"resume": "x"}, "resume='x' should be True or False"),
        ({"limit": 0}, "limit=0 asks for no task"),
        ({"output": "x"}, "output: should end with .jsonl, such as x/rollouts.jsonl"),
    ],
)
def test_a_value_of_another_type_is_named_as_it_was_written(
    shelf: Path, model: str, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadInput) as raised:
        palestra.evaluate(shelf, model=model, **arguments)

    assert reason in raised.value.message


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda run: run.rollouts(5), "filter=5 should be text"),
        (lambda run: run.rollout(1.0, 0), "task=1.0 should be a whole number or text"),
        (lambda run: run.profile(group_by=5), "group_by=5 should be text"),
        (lambda run: run.select(limit=-1), "limit=-1 should be a whole number from 1 on"),
        (lambda run: run.select(limit=2.5), "limit=2.5 should be a whole number from 1 on"),
        (
            lambda run: run.select(min_rollouts=-3),
            "min_rollouts=-3 should be a whole number from 1",
        ),
        (lambda run: run.select(solved_at="1"), "solved_at='1' should be a number"),
        (lambda run: run.select(solved_at=math.nan), "solved_at=nan should be a number"),
        (lambda run: run.select(max_tokens="5"), "max_tokens='5' should be a number from 0 on"),
        (lambda run: run.select(band=(0.1, "x")), "band[1]='x' should be a number"),
        (
            lambda run: run.select(decided_only=True),
            "decided_only=True does nothing without a band",
        ),
        (lambda run: run.select(band=(0, 1)).save(5), "path=5 should be a path"),
        (lambda run: run.select(band=(0, 1)).save("x.csv"), "path: should end with .jsonl"),
        (lambda run: run.reverify(only="0:1"), "only='0:1' should be a list, each item text"),
        (
            lambda run: palestra.scores([run, 5]),
            "runs[1]=5 should be a path, an open run or (text, ",
        ),
        (lambda run: palestra.scores({"a": 5}), "runs['a']=5 should be a path or an open run"),
        (lambda _: palestra.scores([]), "there is no run to score"),
        (lambda _: palestra.runs(5), "folder=5 should be a path"),
        (lambda _: palestra.agents("math"), "words='math' should be a list, each item text"),
        (lambda _: palestra.Model("openai:NAME", api_key=5), "api_key=5 should be text"),  # type: ignore[arg-type]
        (lambda run: palestra.scores([run], k="x"), "k='x' should be a whole number from 1 on"),
        (lambda run: palestra.scores([run], k=0), "k=0 should be a whole number from 1 on"),
        (lambda _: palestra.scores(5), "runs=5 should be a path, an open run, a mapping"),
        (lambda run: palestra.compare(run, 5), "b=5 should be a path or an open run"),
        (lambda run: palestra.merge(run.path, "all.jsonl"), "should be a list"),
        (lambda _: palestra.open_run(5), "path=5 should be a path"),
    ],
)
def test_a_wrong_argument_about_a_run_is_an_error_of_the_tree(
    small_run: Run, call: Callable[[Any], object], reason: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        call(small_run)

    assert reason in raised.value.message


def test_a_rollout_is_named_as_commands_name_it(small_run: Run) -> None:
    assert (small_run.rollout("1:0").task, small_run.rollout(1).task) == (1, 1)


def test_a_number_of_numpy_is_a_number(small_run: Run) -> None:
    assert small_run.rollout(np.int64(1), np.int64(0)).task == 1
    assert len(small_run.select(band=(0, 1), limit=np.int64(1))) == 1


@pytest.mark.parametrize(
    "band",
    [(np.float32(0), np.float32(1)), [np.int64(0), np.int64(1)], np.array([0, 1])],
    ids=["float32", "a list", "an array"],
)
def test_numbers_of_numpy_in_a_pair_are_numbers(small_run: Run, band: Any) -> None:
    assert len(small_run.select(band=band, failed=np.bool_(False))) == len(
        small_run.select(band=(0, 1))
    )


def test_a_pair_of_a_name_and_a_run_may_be_a_list(small_run: Run) -> None:
    pairs: Any = [["mine", small_run]]
    [model] = palestra.scores(pairs).models

    assert model.name == "mine"


def test_a_path_of_another_class_is_a_path(small_run: Run) -> None:
    entries: list[Any] = [*os.scandir(small_run.path.parent)]
    [entry] = [entry for entry in entries if entry.name == small_run.path.name]

    assert palestra.open_run(entry) == small_run
    with pytest.raises(ConfigError, match=r"runs\[0\]=.* should be a path"):
        palestra.scores([entry])


def test_text_of_users_and_servers_is_quoted_as_it_was() -> None:
    quoted = 'run(["tool", "--resume", "--limit 5"])'

    @python_function
    def fail(resume: bool = False, limit: int = 1) -> None:
        raise InfraError(
            f"no answer to {quoted}",
            hint=Phrase(
                "--resume asks {prompt} again, up to --limit {count}", prompt=quoted, count=5
            ),
            evidence=CallEvidence(traceback=quoted),
        )

    with pytest.raises(InfraError) as caught:
        fail()

    assert caught.value.message == str(caught.value) == f"no answer to {quoted}"
    assert caught.value.evidence.traceback == quoted
    assert caught.value.hint == f"resume=True asks {quoted} again, up to limit=5"
    assert caught.value.__notes__ == [f"hint: {caught.value.hint}"]


def test_a_message_of_a_setting_names_the_argument_beside_text_of_users() -> None:
    @python_function
    def fail(limit: int = 1) -> None:
        raise ConfigError(Phrase("--limit {value}: not a number", value="--limit five"))

    with pytest.raises(ConfigError) as caught:
        fail()

    assert caught.value.message == caught.value.problems[0].message == str(caught.value)
    assert caught.value.message == "limit='--limit five': not a number"


def test_the_hints_of_python_are_arguments(
    small_run: Run, shelf: Path, model: str, tmp_path: Path
) -> None:
    tasks = small_run.select(band=(0, 1))
    tasks.save(tmp_path / "tasks.jsonl")

    with pytest.raises(InputDataError) as raised:
        tasks.save(tmp_path / "tasks.jsonl")
    assert raised.value.hint == "choose another path, or replace it with overwrite=True"
    with pytest.raises(InputDataError) as raised:
        palestra.evaluate(shelf, model=model, output=small_run.path)
    assert raised.value.hint == "continue that run with resume=True, or choose another output"


def test_a_file_that_is_of_no_run_is_named_so(shelf: Path) -> None:
    with pytest.raises(InputDataError) as raised:
        palestra.open_run("shelf.py")

    assert raised.value.message == "shelf.py is no file of a run"
    assert raised.value.hint == "`palestra.runs()` lists the runs"


def test_a_run_is_not_compared_with_itself_by_another_path(
    small_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_run.path.parent)

    with pytest.raises(InputDataError, match=r"run\.jsonl was passed twice"):
        palestra.compare(small_run, small_run.path.name)


def test_one_run_and_runs_by_name_are_scored(small_run: Run) -> None:
    assert [m.name for m in palestra.scores(small_run).models] == ["scripted"]
    assert [m.name for m in palestra.scores(str(small_run.path)).models] == ["scripted"]
    assert [m.name for m in palestra.scores({"a": small_run}).models] == ["a"]


def test_k_is_what_every_model_has(small_run: Run, shelf: Path, model: str) -> None:
    table = palestra.scores({"a": small_run, "b": evaluated(shelf, model, limit=2, repeats=2)})

    assert (table.k, table.notices[-1]) == (1, "k is 1: a has 1 rollout of each task")


def test_rows_in_memory_are_named_as_the_argument_and_not_as_a_file(
    shelf: Path, model: str
) -> None:
    with pytest.raises(BadInput) as raised:
        palestra.evaluate("mcqa", model=model, data=[{"question": "q"}])

    assert raised.value.message.startswith("data: 1 row cannot be used")


def test_a_query_that_nothing_matches_warns_of_the_value(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    with pytest.warns(UserWarning, match=r"topic:evn; its values here: odd"):
        assert not list(run.rollouts("topic:evn"))


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("rewrd<1", "reward"),
        ("topik:even", "topic"),
        ("status:failed", "outcome"),
        ("reward<9 or -rewrd<1", "reward"),
        ("reward_components.rigt:1", "reward_components.right"),
    ],
)
def test_a_field_that_no_rollout_has_is_an_error_with_the_nearest(
    query: str, nearest: str, shelf: Path, model: str
) -> None:
    run = evaluated(shelf, model)

    with pytest.raises(QueryError) as caught:
        list(run.rollouts(query))

    assert caught.value.nearest == nearest


def test_a_field_that_is_nowhere_can_be_asked_for_by_its_absence(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    assert len(list(run.rollouts("-has:zzz"))) == run.requested


def test_a_query_that_sorts_is_refused(shelf: Path, model: str) -> None:
    with pytest.raises(QueryError, match="sort:"):
        evaluated(shelf, model, limit=1).rollouts("reward<1 sort:reward")


def test_a_field_of_some_rollouts_alone_can_be_queried(shelf: Path, model: str) -> None:
    rows = [{"question": "1+0", "total": 1}, {"question": "1+1", "total": 2, "hint": "two"}]
    run = evaluated(shelf, model, data=rows)

    assert [r.task for r in run.rollouts("hint:two")] == [1]
    assert [r.task for r in run.rollouts("-has:hint")] == [0]


def test_a_failure_says_what_helps(shelf: Path, model: str) -> None:
    [failure] = evaluated(shelf, model).failures()

    assert failure.outcome == "verifier_error"
    assert failure.attempts[-1].message == "shelf/verify raised ValueError: four is not liked"
    assert "palestra reverify" in failure.remedy
    assert f"--only {failure.task}:{failure.rollout} " in failure.remedy
    assert failure.transcript[-1].text == "1"


def test_a_profile_has_the_groups_of_a_field(shelf: Path, model: str) -> None:
    profile = evaluated(shelf, model).profile(group_by="topic")

    assert [(group.name, group.requested) for group in profile.groups] == [("even", 2), ("odd", 2)]
    assert profile.to_dict()["scored"] == 3


def test_a_diagnosis_names_the_cause(shelf: Path, model: str) -> None:
    diagnosis = evaluated(shelf, model).diagnose()

    causes = [finding.cause for finding in diagnosis.findings]
    assert causes == ["verifier.raises", "verifier.reward-outside-rules"]


@pytest.mark.parametrize("isolated", ["isolated=True", "isolated=False"])
def test_stored_answers_are_verified_again_without_the_model(
    shelf: Path, model: str, isolated: str
) -> None:
    text = SHELF.replace("isolated=False", isolated)
    shelf.write_text(text)
    run = evaluated(shelf, model)
    shelf.write_text(text.replace('raise ValueError("four is not liked")', "return {'right': 0}"))

    again = run.reverify()

    assert (again.result["rows"], again.failed) == (4, 0)
    assert again.output == run.path.with_name("rollouts_reverified.jsonl")


def test_a_verification_again_reads_the_data_of_the_file_again(
    shelf: Path, model: str, tmp_path: Path
) -> None:
    right = tmp_path / "right.txt"
    right.write_text("0.0")
    text = SHELF.replace("from palestra", "from pathlib import Path\nfrom palestra", 1)
    text = (
        text.replace("float(answer == str(total))", "W")
        + f"W = float(Path({str(right)!r}).read_text())\n"
    )
    shelf.write_text(text)
    run = evaluated(shelf, model, limit=1)
    right.write_text("1.0")

    again = run.reverify()

    [row] = map(json.loads, again.output.read_text().splitlines())
    assert [rollout.components["right"] for rollout in run.rollouts()] == [0.0]
    assert row["reward_components"]["right"] == 1.0


def test_one_rollout_alone_is_verified_again(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    again = run.reverify(only=["1:0"])

    [row] = map(json.loads, again.output.read_text().splitlines())
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (1, 0)


def test_chosen_tasks_are_saved_and_run_again(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)
    chosen = run.select(band=(0.0, 0.5)).save("learn.jsonl")

    again = evaluated(shelf, model, data=chosen)

    assert again.requested == len(chosen.read_text().splitlines()) == 2
    comparison = palestra.compare(run, again, allow_unmatched=True)
    assert (comparison.tasks, comparison.metrics[0].difference.value) == (2, 0.0)


CHOSEN = "chosen by their rewards"


def test_a_run_of_tasks_that_rewards_chose_says_so_everywhere(
    shelf: Path, model: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run = evaluated(shelf, model)
    chosen = run.select(band=(0.0, 0.5)).save("learn.jsonl")
    again = palestra.evaluate(shelf, model=model, data=chosen, progress=True)
    (shelf.parent / "learn_provenance.json").unlink()
    further = evaluated(shelf, model, data=again.select(band=(0, 0), limit=1).save("hard.jsonl"))

    assert CHOSEN in capfd.readouterr().err
    assert CHOSEN in again.report().read_text()
    for earlier, later in ((run, again), (again, further), (run, further)):
        comparison = palestra.compare(earlier, later, allow_unmatched=True)
        assert f"the tasks of B were {CHOSEN} in A" in "; ".join(comparison.notices)


def test_a_run_of_tasks_that_rewards_did_not_choose_says_nothing(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)
    failed = evaluated(shelf, model, data=run.select(failed=True).save("failed.jsonl"))
    limited = evaluated(shelf, model, limit=2)
    whole = evaluated(shelf, model, data=limited.select(band=(0, 1)).save("whole.jsonl"))
    low = run.select(band=(0.0, 0.5)).save("low.jsonl")
    twice = [evaluated(shelf, model, data=low) for _ in range(2)]

    assert CHOSEN not in failed.report().read_text()
    for pair in ((run, limited), (limited, whole), twice):
        comparison = palestra.compare(*pair, allow_unmatched=True)
        assert CHOSEN not in "; ".join(comparison.notices)


def test_failed_tasks_are_run_again(shelf: Path, model: str) -> None:
    failed_tasks = evaluated(shelf, model, repeats=2).select(failed=True)

    assert list(failed_tasks.kept) == [3]
    again = evaluated(shelf, model, data=failed_tasks.save("again.jsonl"))
    assert again.outcomes == {"verifier_error": 1}


def test_no_task_failed_is_an_error_to_save(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model, data=[{"question": "1+0", "total": 1}])

    with pytest.raises(ConfigError) as refused:
        run.select(failed=True).save("again.jsonl")

    assert "nothing to collect again" in refused.value.hint


def test_rows_in_memory_replace_the_data(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model, data=[{"question": "1+0", "total": 1}])

    assert (run.requested, run.mean_reward) == (1, 1.5)


def test_two_runs_are_compared_and_scored(shelf: Path, model: str) -> None:
    before, after = evaluated(shelf, model), evaluated(shelf, model, sampling={"temperature": 0.5})
    comparison = palestra.compare(before, after)

    assert comparison.reward.difference.value == 0.0
    assert "reward_components.right" in [metric.name for metric in comparison.metrics]
    table = palestra.scores([("a", before), ("b", after.path)], k=1)
    assert [scores.name for scores in table.models] == ["a", "b"]


def test_runs_with_other_prompts_are_scored_where_this_is_allowed(shelf: Path, model: str) -> None:
    runs = [
        evaluated(shelf, model, data=[{"question": text, "total": 1}]) for text in ("1+0", "1 + 0")
    ]

    with pytest.raises(InputDataError) as refused:
        palestra.scores(runs, k=1, allow_unmatched=True)
    named_runs = dict(zip(("plain", "spaced"), runs, strict=True))
    table = palestra.scores(named_runs, k=1, allow_different_rows=True)

    assert "allow_unmatched" not in refused.value.hint
    assert "allow_different_rows" in refused.value.hint
    assert [scores.tasks for scores in table.models] == [1, 1]


@pytest.mark.parametrize("band", [(0.9, 0.1), (0.5,), "0.1..0.9", (-1, 1)])
def test_a_band_that_is_no_range_of_pass_rates_is_refused(
    shelf: Path, model: str, band: object
) -> None:
    run = evaluated(shelf, model, data=[{"question": "1+0", "total": 1}])

    with pytest.raises(ConfigError, match="band="):
        run.select(band=band)  # type: ignore[arg-type]


def test_a_run_becomes_a_table_with_a_row_per_request(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)
    frame = run.to_pandas()

    assert list(frame["outcome"]) == ["scored", "scored", "scored", "verifier_error"]
    assert frame["reward"].isna().sum() == 1
    assert dict(frame.groupby("topic").reward.count()) == {"even": 1, "odd": 2}
    assert run.to_arrow().column("topic").to_pylist() == list(frame["topic"])


def test_a_rollout_that_failed_has_the_numbers_of_its_task_in_the_table(
    shelf: Path, model: str
) -> None:
    rows = [
        {"question": "1", "total": total, "reward": 7, "rollout": 9, "hard": True}
        for total in (1, 4)
    ]
    frame = evaluated(shelf, model, data=rows).to_pandas()

    assert list(frame["outcome"]) == ["scored", "verifier_error"]
    assert list(frame["total"]) == [1, 4]
    assert list(frame["hard"]) == [1, 1]
    assert list(frame["rollout"]) == [0, 0]
    assert list(frame["reward"].isna()) == [False, True]


def test_a_run_without_a_score_has_the_numbers_of_its_tasks_in_the_table(
    shelf: Path, model: str
) -> None:
    run = evaluated(shelf, model, data=[{"question": "1", "total": 4}])

    assert run.to_arrow().column("total").to_pylist() == [4]


def test_a_long_text_is_no_value_of_the_table(shelf: Path, model: str) -> None:
    rows = [{"question": "1", "total": 1, "note": text} for text in ("a" * 1_000, "a" * 1_001)]

    assert list(evaluated(shelf, model, data=rows).to_pandas()["note"].isna()) == [False, True]


def test_arguments_are_named_as_python_writes_them(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model)

    with pytest.raises(ConfigError, match=r"^model 'locla'"):
        evaluated(shelf, "locla")
    with pytest.raises(ConfigError, match="did you mean 'topic'"):
        run.profile(group_by="topc")


def test_a_metric_is_a_name_or_several(shelf: Path, model: str) -> None:
    run, again = evaluated(shelf, model), evaluated(shelf, model)

    assert [m.name for m in palestra.compare(run, again, metrics="pass@1").metrics][-1] == "pass@1"
    with pytest.raises(ConfigError, match="did you mean 'pass@2'"):
        palestra.compare(run, again, metrics=["pas@2"])


def test_an_evaluation_works_inside_a_running_loop(shelf: Path, model: str) -> None:
    async def notebook() -> Run:
        return evaluated(shelf, model)

    assert asyncio.run(notebook()).requested == 4


def test_an_evaluation_can_be_awaited(shelf: Path, model: str) -> None:
    run = asyncio.run(palestra.aevaluate(str(shelf), model=model, limit=1, progress=False))

    assert run.requested == 1


def test_an_edited_file_is_read_again(shelf: Path, model: str) -> None:
    evaluated(shelf, model, limit=1)
    shelf.write_text(SHELF.replace("range(4)", "range(2)"))

    assert evaluated(shelf, model).requested == 2


def test_an_edited_module_that_the_file_imports_is_read_again(
    shelf: Path, model: str, tmp_path: Path
) -> None:
    module = tmp_path / "weight_of_shelf.py"
    text = SHELF.replace("from palestra", "from weight_of_shelf import W\nfrom palestra", 1)
    shelf.write_text(text.replace('{"right": float(answer == str(total)), ', '{"right": W, '))
    module.write_text("W = 0.0\n")
    before = evaluated(shelf, model, limit=1)
    module.write_text("W = 1.0\n")

    rewards = [
        [rollout.components["right"] for rollout in run.rollouts()]
        for run in (before, evaluated(shelf, model, limit=1))
    ]
    assert rewards == [[0.0], [1.0]]


@pytest.mark.parametrize("isolated", ["isolated=True", "isolated=False"])
def test_environments_of_two_folders_use_the_modules_beside_them(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolated: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = SHELF.replace("isolated=False", isolated)
    text = text.replace("from palestra", "from weight_of_shelf import W\nfrom palestra", 1)
    files = {weight: tmp_path / f"{weight}" / "shelf.py" for weight in (1.0, 0.5)}
    for weight, file in files.items():
        file.parent.mkdir()
        file.write_text(text.replace('{"right": float(answer == str(total)), ', '{"right": W, '))
        file.with_name("weight_of_shelf.py").write_text(f"W = {weight}\n")

    rewards = [
        rollout.components["right"]
        for weight in (1.0, 0.5, 1.0)
        for rollout in evaluated(files[weight], model, limit=1).rollouts()
    ]
    assert rewards == [1.0, 0.5, 1.0]


def test_a_function_of_a_file_is_an_environment(shelf: Path, model: str) -> None:
    namespace: dict[str, object] = {"__name__": "shelf"}
    exec(compile(SHELF, str(shelf), "exec"), namespace)

    assert (
        palestra.evaluate(namespace["verify"], model=model, progress=False).environment == "shelf"
    )


def test_a_class_of_a_cell_is_an_environment(
    shelf: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import linecache

    cell = (
        "from palestra import Environment\n"
        "class TinySums(Environment):\n"
        "    data = [{'q': '1+0'}]\n"
        "    prompt = '{q}'\n"
        "    def verify(self, answer):\n"
        "        return answer == '1'\n"
    )
    name = "/tmp/ipykernel_1/2.py"
    monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(True), name))
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(compile(cell, name, "exec"), namespace)

    run = palestra.evaluate(namespace["TinySums"], model=model, progress=False)

    assert (run.environment, run.mean_reward) == ("tiny_sums", 1.0)


@pytest.mark.parametrize(
    "call",
    [
        "palestra.evaluate({})",
        "asyncio.run(palestra.aevaluate({}))",
        "async def main(): palestra.evaluate({})\nasyncio.run(main())",
    ],
)
def test_a_file_that_evaluates_another_one_while_it_is_imported_is_refused(
    shelf: Path, model: str, tmp_path: Path, call: str
) -> None:
    script = tmp_path / "script.py"
    arguments = f"{str(shelf)!r}, model={model!r}"
    script.write_text(f"import asyncio, palestra\n{call.format(arguments)}\n")

    with pytest.raises(ConfigError, match=r"script.py calls palestra.evaluate") as refused:
        palestra.evaluate(script, model=model)
    assert "__main__" in str(refused.value.hint)


@pytest.mark.timeout(60)
def test_a_file_that_verifies_a_run_again_while_it_is_imported_is_refused(
    shelf: Path, model: str, tmp_path: Path
) -> None:
    run = palestra.evaluate(shelf, model=model, output=tmp_path / "run.jsonl", progress=False)
    script = tmp_path / "script.py"
    script.write_text(
        f"import palestra\npalestra.open_run({str(run.path)!r}).reverify(environment={str(shelf)!r})\n"
    )

    with pytest.raises(ConfigError, match=r"script.py calls palestra.Run.reverify"):
        palestra.evaluate(script, model=model)


def test_an_object_that_is_no_environment_is_refused(model: str) -> None:
    with pytest.raises(ConfigError, match="is no environment"):
        palestra.evaluate(object(), model=model)


def test_an_object_of_an_environment_is_answered_with_its_class(model: str) -> None:
    class Sums(palestra.Environment):
        data = ({"q": "?"},)
        prompt = "{q}"

        def verify(self, answer: str) -> float:
            return float(answer == "4")

    with pytest.raises(ConfigError, match="an object of Sums is no environment") as refused:
        palestra.evaluate(Sums(), model=model)
    assert refused.value.hint.startswith("pass the class, Sums")


def test_a_name_that_is_wrong_is_an_error_of_the_tree(shelf: Path, model: str) -> None:
    with pytest.raises(BadInput, match="does not exist; did you mean"):
        palestra.evaluate("shelff.py", model=model)


@pytest.mark.parametrize(
    ("options", "named"), [({"repeats": 0}, "repeats=0"), ({"limit": -1}, "limit=-1")]
)
def test_a_number_out_of_range_is_named_as_it_was_written(
    shelf: Path, model: str, options: dict[str, int], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        evaluated(shelf, model, **options)


def test_an_output_that_exists_is_kept(shelf: Path, model: str) -> None:
    evaluated(shelf, model, output="a.jsonl")

    with pytest.raises(InputDataError, match="exists already"):
        evaluated(shelf, model, output="a.jsonl")


def test_a_whole_run_that_is_resumed_stays_as_it_is(shelf: Path, model: str) -> None:
    first = evaluated(shelf, model, output="a.jsonl")

    assert evaluated(shelf, model, output="a.jsonl", resume=True).outcomes == first.outcomes


def test_the_key_of_a_model_is_in_no_file(shelf: Path) -> None:
    with scripted_endpoint(*["1"] * 40) as endpoint:
        model = palestra.Model(f"vllm:{endpoint.url}", api_key="sk-very-secret-123456")
        run = palestra.evaluate(shelf, model=model, progress=False)

    assert "secret" not in repr(model)
    for path in run.path.parent.iterdir():
        assert "sk-very-secret" not in path.read_text()


def test_progress_goes_to_standard_error(
    shelf: Path, model: str, capfd: pytest.CaptureFixture[str]
) -> None:
    palestra.evaluate(shelf, model=model, progress=True)

    printed = capfd.readouterr()
    assert printed.out == ""
    assert "requested 4 = scored 3 + failed 1 (verifier_error 1), mean reward" in printed.err


def test_a_run_is_opened_by_any_of_its_names(shelf: Path, model: str) -> None:
    run = evaluated(shelf, model, output="out/a.jsonl")

    for name in ("out/a.jsonl", "out/a", "out", "out/a*.jsonl"):
        assert palestra.open_run(name) == run


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="there is no run"):
        palestra.open_run(tmp_path / "none")


def test_rows_go_through_the_agent_of_a_configuration(shelf: Path, model: str) -> None:
    rows = [{"question": "1+0", "total": 1}, {"question": "1+1", "total": 2}]
    run = palestra.collect(
        str(shelf), agent="shelf_agent", data=rows, model=model, output="b.jsonl", progress=False
    )

    assert (run.requested, run.scored, run.name) == (2, 2, "b")


def test_a_collection_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path), pytest.raises(BadInput):
        palestra.collect("none.yaml", agent="a", data=[{"a": 1}], progress=False)

    assert list(tmp_path.iterdir()) == []


class CountedRows(list[dict[str, Any]]):
    """Rows that count how often they are gone through."""

    reads = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize(
    "call",
    [
        lambda data: palestra.evaluate("shelf.py", data=data, limit=0),
        lambda data: palestra.collect("a.yaml", agent="a", data=data, limit=0),
    ],
    ids=["evaluate", "collect"],
)
def test_the_rows_of_a_dataset_are_checked_once(call: Callable[[Any], Run]) -> None:
    data = CountedRows([{"question": "2+2?"}])

    with pytest.raises(ConfigError, match="limit=0 asks for no task"):
        call(data)

    assert data.reads == 1
