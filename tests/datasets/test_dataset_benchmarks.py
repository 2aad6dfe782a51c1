"""Benchmarks' scripts, in processes of their own."""

from pathlib import Path

import pytest
from preparations import dataset

from palestra.datasets.benchmarks import Preparing, prepare_benchmarks
from palestra.datasets.preparing import Located
from palestra.errors import RunFailed

SCRIPT = """
from pathlib import Path

def prepare(rows=1):
    path = Path({path!r})
    path.write_text('{{"responses_create_params": {{"input": "x"}}}}\\n' * rows)
    print("made", rows)
    return {answer}
"""


def benchmark(folder: Path, *, answer: str = "path", script: str | None = None) -> Located:
    rows = folder / "rows.jsonl"
    path = folder / "prepare.py"
    path.write_text(script or SCRIPT.format(path=str(rows), answer=answer))
    return Located(dataset(rows, type="benchmark", prepare_script=str(path)), rows)


def test_a_script_makes_the_file_that_the_dataset_names(tmp_path: Path) -> None:
    found = benchmark(tmp_path)

    made = prepare_benchmarks([found], Preparing(Path, {"rows": 3}), tell=print)

    assert made == {found.path: 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prepare.py", "rows.jsonl"]


def test_what_is_there_can_be_left_alone(tmp_path: Path) -> None:
    found = benchmark(tmp_path, script="raise SystemExit('it ran')")
    found.path.write_text('{"responses_create_params": {"input": "x"}}\n')

    assert prepare_benchmarks([found], Preparing(Path, use_cached=True), tell=print)
    with pytest.raises(RunFailed, match="it ran"):
        prepare_benchmarks([found], Preparing(Path), tell=print)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("def prepare(): 1 / 0", "ZeroDivisionError"),
        ("x = 1", r"defines no prepare\(\)"),
        ("def prepare(): return 'other.jsonl'", "returned 'other.jsonl', and jsonl_fpath is"),
        ("def prepare(): pass", "returned None"),
        ("import time\ndef prepare(): time.sleep(60)", "was not done within 1 s"),
    ],
)
def test_a_script_that_does_not_do_what_it_must_says_why(
    tmp_path: Path, script: str, said: str
) -> None:
    found = benchmark(tmp_path, script=script)

    with pytest.raises(RunFailed, match=said):
        prepare_benchmarks([found], Preparing(Path, timeout_s=1.0), tell=print)


def test_rows_that_are_no_good_are_named(tmp_path: Path) -> None:
    script = f"def prepare():\n p = {str(tmp_path / 'rows.jsonl')!r}\n open(p, 'w').write('{{}}')\n return p"

    with pytest.raises(RunFailed, match="line 1: no `responses_create_params`"):
        prepare_benchmarks([benchmark(tmp_path, script=script)], Preparing(Path), tell=print)
