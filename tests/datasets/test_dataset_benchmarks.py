"""Benchmarks' scripts, in processes of their own."""

from pathlib import Path

import pytest
from preparations import dataset

from palestra.config import Redactor
from palestra.datasets import AgentDataset, Located
from palestra.datasets.benchmarks import MOST_OUTPUT, Preparing, prepare_benchmarks
from palestra.errors import InputDataError, RunFailed

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

    made = prepare_benchmarks([found], Preparing(Path, {"rows": 3}), report=print)

    assert made == {found.path: 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prepare.py", "rows.jsonl"]


def test_what_is_there_can_be_left_alone(tmp_path: Path) -> None:
    found = benchmark(tmp_path, script="raise SystemExit('it ran')")
    found.path.write_text('{"responses_create_params": {"input": "x"}}\n')

    assert prepare_benchmarks([found], Preparing(Path, use_cached=True), report=print)
    with pytest.raises(RunFailed, match="it ran"):
        prepare_benchmarks([found], Preparing(Path), report=print)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("def prepare(): 1 / 0", "ZeroDivisionError"),
        ("x = 1", r"defines no prepare\(\)"),
        ("def prepare(): return 'other.jsonl'", "returned 'other.jsonl', but jsonl_fpath is"),
        ("def prepare(): pass", "returned None"),
        ("import time\ndef prepare(): time.sleep(60)", "did not end within 1 s"),
    ],
)
def test_a_script_that_does_not_do_what_it_must_says_why(
    tmp_path: Path, script: str, said: str
) -> None:
    found = benchmark(tmp_path, script=script)

    with pytest.raises(RunFailed, match=said):
        prepare_benchmarks([found], Preparing(Path, timeout_s=1.0), report=print)


def test_a_script_without_network_is_told_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    chain = (
        "def ask():\n    raise OSError('[Errno -2] Name or service not known')\n"
        "def prepare():\n    try: ask()\n"
        "    except OSError as error:\n"
        "        raise RuntimeError('ConnectionError: no answer\\nsee above') from error\n"
    )
    found = benchmark(tmp_path, script=chain)

    with pytest.raises(RunFailed) as caught:
        prepare_benchmarks([found], Preparing(Path), report=print)

    place = f"{found.dataset}: {tmp_path / 'prepare.py'}:6"
    last = "RuntimeError: ConnectionError: no answer"
    assert caught.value.message == f"{place} ended with exit code 1: {last}"
    assert f"put the rows at {found.path}" in caught.value.hint
    log = tmp_path / "rows_prepare.log"
    assert str(log) in caught.value.hint
    assert "Traceback" in log.read_text()


def test_rows_that_are_no_good_are_named(tmp_path: Path) -> None:
    script = f"def prepare():\n p = {str(tmp_path / 'rows.jsonl')!r}\n open(p, 'w').write('{{}}')\n return p"

    with pytest.raises(InputDataError, match="line 1: no `responses_create_params`"):
        prepare_benchmarks([benchmark(tmp_path, script=script)], Preparing(Path), report=print)


def test_what_a_script_has_left_half_made_is_made_again(tmp_path: Path) -> None:
    found = benchmark(tmp_path)
    (tmp_path / "broken.py").write_text(f"open({str(found.path)!r}, 'w').write('half')\n1 / 0")
    entry = found.entry.model_copy(update={"prepare_script": str(tmp_path / "broken.py")})
    broken = Located(AgentDataset("agent", entry), found.path)

    with pytest.raises(RunFailed):
        prepare_benchmarks([broken], Preparing(Path), report=print)
    made = prepare_benchmarks([found], Preparing(Path, use_cached=True), report=print)

    assert made == {found.path: 1}


def test_nothing_secret_of_what_a_script_prints_is_shown_not_even_a_part(tmp_path: Path) -> None:
    secret = "canary-" * 8
    script = f"def prepare():\n raise SystemExit({secret!r} + 'x' * {MOST_OUTPUT - 20})"

    with pytest.raises(RunFailed) as caught:
        prepare_benchmarks(
            [benchmark(tmp_path, script=script)],
            Preparing(Path, mask=Redactor([secret])),
            report=print,
        )

    assert "canary" not in caught.value.message


def test_a_script_that_is_not_there_is_no_failure_of_a_script(tmp_path: Path) -> None:
    found = benchmark(tmp_path)
    (tmp_path / "prepare.py").unlink()

    with pytest.raises(InputDataError, match="does not exist"):
        prepare_benchmarks([found], Preparing(Path), report=print)
