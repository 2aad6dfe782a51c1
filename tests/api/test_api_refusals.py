"""What the functions of Python refuse, in the words of Python."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import palestra
from palestra import Run
from palestra.errors import PalestraError
from palestra.testing import scripted_endpoint
from profiled_runs import Run as Files
from profiled_runs import failed, materialized, scored

SHELF = """
from palestra import environment

@environment(
    data=[{"question": f"1+{at}", "total": 1 + at} for at in range(4)],
    prompt="Add the two numbers: {question}",
)
def verify(answer: str, total: int) -> dict[str, float]:
    if total == 4:
        raise ValueError("four is not liked")
    return {"right": float(answer == str(total))}
"""
JUDGED = """
from palestra import Environment

class Judged(Environment):
    data = [{"question": "a", "answer": "b"}]
    prompt = "{question}"
    difficulty: int = 3

    async def verify(self, answer: str, question: str) -> float:
        return float(await self.judge.yes(f"is {answer} good?"))
"""
MCQA = "resources_servers/mcqa/configs/mcqa.yaml"
TASKS = "resources_servers/mcqa/data/example.jsonl"
FLAG = re.compile(r"(?<![\w-])--[a-z]")
IMPORT = re.compile(r"`palestra dataset import [^`]+`")
"""A command for the shell: there is no function that imports."""
QUOTED = re.compile(r"`([^`]+)`")
Refused = Callable[["Project"], object]


class Project:
    """A folder with runs to work on: the evaluated `run` and `twice`, and runs with one fault each."""

    def __init__(self, model: str) -> None:
        Path("shelf.py").write_text(SHELF)
        Path("judged.py").write_text(JUDGED)
        Path("there.jsonl").write_text("{}\n")
        self.model = model
        self.run = self.evaluate("shelf.py", output="runs/once/rollouts.jsonl")
        self.twice = self.evaluate("shelf.py", output="runs/twice/run.jsonl", limit=2, repeats=2)
        self.again = self.run.reverify(output="again.jsonl").output
        self.a = _written("a", _rows(3))
        self.smaller = _written("smaller", _rows(2))
        self.other_rows = _written("other", _rows(3), [_asked(t, i, t + 9) for t, i in _keys(3)])
        self.renumbered = _written("moved", _rows(2), [_asked(t, i, t + 1) for t, i in _keys(2)])
        self.without_inputs = _written("alone", _rows(3))
        next(Path("alone").glob("*materialized*")).unlink()
        self.orphans = _written("orphans", _rows(3), [materialized(0, 0)])
        self.empty = _written("empty", [], [materialized(0, 0)])
        self.duplicates = _written("duplicates", [*_rows(2), *_rows(1)])
        self.no_number = _written("words", [*_rows(2), {**scored(9, 0, 1), "reward": "good"}])
        self.huge = _written("huge", [scored(0, 0, 1e300)])
        self.unfinished = _written(
            "unfinished", _rows(2), [materialized(t, i) for t, i in _keys(4)]
        )

    def evaluate(self, environment: str, **options: Any) -> Run:
        return palestra.evaluate(
            environment, progress=False, **{"model": self.model, "max_attempts": 1, **options}
        )

    def collect(self, configs: str = MCQA, **options: Any) -> Run:
        usual = {"agent": "mcqa_simple_agent", "data": TASKS, "model": self.model}
        return palestra.collect(configs, progress=False, **{**usual, **options})


def _keys(tasks: int) -> list[tuple[int, int]]:
    return [(task, rollout) for task in range(tasks) for rollout in range(2)]


def _rows(tasks: int) -> list[dict[str, Any]]:
    return [scored(task, rollout, (task + rollout) % 2) for task, rollout in _keys(tasks)]


def _asked(task: int, rollout: int, question: int) -> dict[str, Any]:
    prompt = materialized(question, rollout)["responses_create_params"]
    return {**materialized(task, rollout), "responses_create_params": prompt}


def _written(name: str, rows: Sequence[Any], inputs: Sequence[Any] | None = None) -> Path:
    Path(name).mkdir()
    failures = [failed(2, 0, "verifier_error")] if name == "unfinished" else ()
    return Files.write(Path(name).absolute(), rows, inputs=inputs, failures=failures).paths.output


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch, scripted_endpoint(*["1"] * 40) as endpoint:
        patch.chdir(folder)
        patch.setenv("PALESTRA_CACHE_DIR", str(folder / "cache"))
        patch.delenv("OPENAI_API_KEY", raising=False)
        yield Project(f"vllm:{endpoint.url}")


@pytest.fixture(autouse=True)
def _in_project(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(Path(project.a).parents[1])


REFUSALS: dict[str, Refused] = {
    # Two runs
    "compare: itself": lambda p: palestra.compare(p.a, p.a),
    "compare: fewer tasks": lambda p: palestra.compare(p.a, p.smaller),
    "compare: other rows": lambda p: palestra.compare(p.a, p.other_rows),
    "compare: other rows, left out": lambda p: palestra.compare(
        p.a, p.other_rows, allow_unmatched=True
    ),
    "compare: renumbered": lambda p: palestra.compare(p.a, p.renumbered),
    "compare: a metric": lambda p: palestra.compare(
        p.a, p.smaller, metrics="nothing", allow_unmatched=True
    ),
    "compare: no inputs": lambda p: palestra.compare(p.a, p.without_inputs),
    "compare: no number": lambda p: palestra.compare(p.a, p.no_number),
    "compare: empty": lambda p: palestra.compare(p.a, p.empty),
    "scores: nothing": lambda _: palestra.scores([]),
    "scores: fewer tasks": lambda p: palestra.scores([p.a, p.smaller]),
    "scores: other rows": lambda p: palestra.scores([p.a, p.other_rows]),
    "scores: renumbered": lambda p: palestra.scores([p.a, p.renumbered]),
    "scores: too large a k": lambda p: palestra.scores([p.unfinished], k=9),
    "scores: duplicates": lambda p: palestra.scores([p.duplicates]),
    "scores: orphans": lambda p: palestra.scores([p.orphans]),
    "scores: huge": lambda p: palestra.scores([p.huge]),
    # Shards
    "merge: nothing": lambda _: palestra.merge([], "m.jsonl"),
    "merge: no shard": lambda _: palestra.merge(["nowhere.jsonl"], "m.jsonl"),
    "merge: two runs": lambda p: palestra.merge([p.run.path, p.twice.path], "m.jsonl"),
    "merge: the name": lambda p: palestra.merge([p.run.path], "m.csv"),
    "merge: it exists": lambda p: palestra.merge([p.run.path], "there.jsonl"),
    "merge: unfinished": lambda p: palestra.merge([p.unfinished], "m.jsonl"),
    "merge: no number": lambda p: palestra.merge([p.no_number], "m.jsonl"),
    # One run
    "open_run: nowhere": lambda _: palestra.open_run("nowhere.jsonl"),
    "open_run: no run": lambda _: palestra.open_run("shelf.py"),
    "open_run: no inputs": lambda p: palestra.open_run(p.without_inputs),
    "open_run: no number": lambda p: palestra.open_run(p.no_number),
    "open_run: duplicates": lambda p: palestra.open_run(p.duplicates),
    "runs: nowhere": lambda _: palestra.runs("nowhere"),
    "rollout: none": lambda p: p.run.rollout(99, 0),
    "rollouts: the query": lambda p: p.run.rollouts("reward<"),
    "rollouts: a field": lambda p: list(p.run.rollouts("nothing:3")),
    "profile: the group": lambda p: p.run.profile(group_by="nothing"),
    "select: the band": lambda p: p.run.select(band=(2, 1)),
    "select: no band": lambda p: p.run.select(decided_only=True),
    "select: failed and a band": lambda p: p.run.select(failed=True, band=(0, 1)),
    "select: no tokens": lambda p: palestra.open_run(p.a).select(max_tokens=3),
    "save: no task": lambda p: p.run.select(min_rollouts=50).save("x.jsonl"),
    "save: the name": lambda p: p.run.select(band=(0, 1)).save("x.csv"),
    "save: it exists": lambda p: p.run.select(band=(0, 1)).save("there.jsonl"),
    "save: the run": lambda p: p.run.select(band=(0, 1)).save(p.run.path),
    "reverify: it exists": lambda p: p.run.reverify(p.again),
    "reverify: both": lambda p: p.run.reverify(p.again, resume=True, overwrite=True),
    "reverify: other rows": lambda p: p.run.reverify(p.again, resume=True, limit=1),
    "reverify: no rollout": lambda p: p.run.reverify("x.jsonl", only=["99:0"]),
    "reverify: a failure": lambda p: p.run.reverify(
        "x.jsonl", only=["3:0"], limit=1, with_failures=False
    ),
    "reverify: no environment": lambda p: p.run.reverify("x.jsonl", environment="nothing"),
    "reverify: no judge": lambda p: p.run.reverify("x.jsonl", judge="nothing"),
    "reverify: the name": lambda p: p.run.reverify("x.csv"),
    "reverify: its input": lambda p: p.run.reverify(p.run.path),
    "reverify: no manifest": lambda p: palestra.open_run(p.a).reverify(),
    # New runs
    "evaluate: it exists": lambda p: p.evaluate("shelf.py", output=p.run.path),
    "evaluate: other settings": lambda p: p.evaluate(
        "shelf.py", output=p.run.path, resume=True, sampling={"temperature": 0.5}
    ),
    "evaluate: other numbers": lambda p: p.evaluate(
        "shelf.py", output=p.twice.path, resume=True, limit=1, repeats=3
    ),
    "evaluate: nothing to resume": lambda p: p.evaluate("judged.py", judge=p.model, resume=True),
    "evaluate: no task": lambda p: p.evaluate("shelf.py", limit=0),
    "evaluate: no environment": lambda p: p.evaluate("nothing"),
    "evaluate: no model": lambda p: p.evaluate("shelf.py", model="nothing"),
    "evaluate: no key": lambda p: p.evaluate("shelf.py", model="openai:x"),
    "evaluate: a local name": lambda p: p.evaluate("shelf.py", model="local:x"),
    "evaluate: no judge": lambda p: p.evaluate("judged.py", judge="nothing"),
    "evaluate: no key of the judge": lambda p: p.evaluate("judged.py", judge="openai:x"),
    "evaluate: a judge too many": lambda p: p.evaluate("shelf.py", judge=p.model),
    "evaluate: no setting": lambda p: p.evaluate("judged.py", judge=p.model, settings={"x": 1}),
    "evaluate: no rows": lambda p: p.evaluate("mcqa", data="nowhere.jsonl"),
    "evaluate: bad rows": lambda p: p.evaluate("mcqa", data=[{"x": 1}]),
    "evaluate: sampling": lambda p: p.evaluate("shelf.py", sampling={"max_tokens": 3}),
    "evaluate: the name": lambda p: p.evaluate("shelf.py", output="x.csv"),
    "collect: no agent": lambda p: p.collect(agent="nobody"),
    "collect: a server": lambda p: p.collect(agent="mcqa"),
    "collect: no model": lambda p: p.collect(model=None),
    "collect: no config": lambda p: p.collect("nowhere.yaml"),
    "collect: rows as a config": lambda p: p.collect(TASKS),
    "collect: no rows": lambda p: p.collect(data="nowhere.jsonl"),
}


@pytest.mark.parametrize("refused", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_of_python_names_no_flag(project: Project, refused: Refused) -> None:
    with pytest.raises(PalestraError) as caught:
        refused(project)

    error = caught.value
    texts = [str(error), error.message, error.hint, *getattr(error, "__notes__", ())]
    assert not [text for text in texts if FLAG.search(IMPORT.sub("", text))]
    for quoted in QUOTED.findall(IMPORT.sub("", error.hint)):
        if "=" in quoted and not quoted.startswith(("+", "palestra collect")):
            ast.parse(quoted if "(" in quoted else f"call({quoted})")


def test_several_arguments_of_a_hint_are_those_of_a_call(project: Project) -> None:
    with pytest.raises(PalestraError) as caught:
        REFUSALS["evaluate: other numbers"](project)

    assert "set `limit=2, repeats=2` to go on with that run" in caught.value.hint


def test_a_setting_of_env_yaml_that_contradicts_an_argument_has_no_flag(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shelf.py").write_text(SHELF)
    Path("env.yaml").write_text("overwrite: true\n")

    with pytest.raises(PalestraError) as caught:
        project.evaluate("shelf.py", output="out/run.jsonl", resume=True)

    assert caught.value.message.startswith("resume continues an earlier run, and overwrite moves")
