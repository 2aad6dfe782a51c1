"""Logs: the innermost first real exception, and nothing of the noise around it."""

import gzip
from pathlib import Path

import pytest

from palestra.causes import SignatureTable, innermost
from palestra.doctor.logs import read_log
from palestra.doctor.reading import LogReading, Rank

TABLE = SignatureTable.load()

CHAINED = """\
INFO:     Started server process [42]
Traceback (most recent call last):
  File "/app/verifier.py", line 12, in verify
    return scores[name]
KeyError: 'answer'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/server.py", line 80, in handle
    raise RuntimeError("the request failed")
RuntimeError: the request failed
INFO:     Shutting down
Traceback (most recent call last):
  File "/usr/lib/python3.11/asyncio/runners.py", line 118, in run
    return self._loop.run_until_complete(task)
asyncio.exceptions.CancelledError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3.11/asyncio/runners.py", line 123, in run
    raise KeyboardInterrupt()
KeyboardInterrupt
"""

RAY_TASK = """\
(pid=812) Traceback (most recent call last):
(pid=812)   File "/app/worker.py", line 3, in run
(pid=812)     raise ValueError("no such answer")
(pid=812) ValueError: no such answer
"""

IN_A_GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/main.py", line 9, in main
  |     async with asyncio.TaskGroup() as tasks:
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/main.py", line 5, in work
    |     raise OSError(28, "No space left on device")
    | OSError: [Errno 28] No space left on device
    +------------------------------------
"""


def read(folder: Path, text: str) -> LogReading:
    path = folder / "run.log"
    path.write_text(text)
    return read_log(path, TABLE)


def exceptions(log: LogReading) -> list[str]:
    return [o.text for o in log.observations if o.rank is Rank.EXCEPTION]


def test_of_a_chain_the_innermost_exception_counts(tmp_path: Path) -> None:
    log = read(tmp_path, CHAINED)

    assert exceptions(log) == ["KeyError: 'answer'"]


def test_an_exception_is_quoted_with_its_line_and_with_the_place_that_raised_it(
    tmp_path: Path,
) -> None:
    [found] = read(tmp_path, CHAINED).observations

    assert [q.where for q in found.quotes] == [f"{tmp_path}/run.log:5", "/app/verifier.py:12"]


def test_shutdown_noise_is_counted_and_not_told(tmp_path: Path) -> None:
    assert read(tmp_path, CHAINED).noise == 3


def test_after_noise_the_next_exception_of_a_chain_is_the_real_one(tmp_path: Path) -> None:
    text = CHAINED[CHAINED.index("INFO:     Shutting") :].replace(
        "KeyboardInterrupt\n", "TimeoutError: no answer\n"
    )

    assert exceptions(read(tmp_path, text)) == ["TimeoutError: no answer"]


@pytest.mark.parametrize(
    ("text", "said"),
    [(RAY_TASK, "ValueError: no such answer"), (IN_A_GROUP, "OSError: [Errno 28] No space left")],
)
def test_tracebacks_are_read_whoever_printed_them(tmp_path: Path, text: str, said: str) -> None:
    [found] = exceptions(read(tmp_path, text))

    assert found.startswith(said)


def test_an_error_of_a_command_is_read_with_the_lines_below_it(tmp_path: Path) -> None:
    [found] = read(
        tmp_path, "error: tasks.jsonl: 1 row cannot be used\n  line 2: not JSON\nhint: mend it\n"
    ).observations

    assert found.rank is Rank.ENDED
    assert found.text == "tasks.jsonl: 1 row cannot be used line 2: not JSON"
    assert [q.line for q in found.quotes] == [1, 2, 3]


def test_an_events_file_is_a_log(tmp_path: Path) -> None:
    event = (
        '{"event":"attempt_failed","at":1.0,"task":3,"rollout":0,"attempt":1,"agent":"a",'
        '"class":"verifier_error","layer":"verifier/runtime","message":"env/verify raised X"}'
    )
    [found] = read(tmp_path, event + "\n").observations

    assert found.row is not None
    assert found.row.task == 3
    assert found.layer == "verifier/runtime"


NESTED = (
    "Hit an exception in env calling an inner server: "
    'b\'{"detail":"Hit an exception in judge calling an inner server: '
    'b\\\'{\\\\"error\\\\": {\\\\"message\\\\": \\\\"quota exceeded\\\\"}}\\\'"}\''
)


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ('{"error": {"message": "no such model", "type": "x"}}', "no such model"),
        ('{"detail": [{"loc": ["body"], "msg": "Field required"}]}', "Field required"),
        ("Hit an exception in env calling an inner server: b'busy'", "busy"),
        (NESTED, "quota exceeded"),
        ("plain words", "plain words"),
        ("two\nlines", "two lines"),
    ],
)
def test_no_text_stays_nested_in_text(text: str, inner: str) -> None:
    assert innermost(text) == inner


def test_a_long_log_is_bounded(tmp_path: Path) -> None:
    log = read(tmp_path, "ValueError: x\n22:00:00 ERROR it broke\n" * 5000)

    assert log.lines == 10_000
    assert len(log.observations) == 2000


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("PermissionError: [Errno 13] Permission denied: '/data/out'", "infra.not-writable"),
        ("ssl.SSLCertVerificationError: certificate verify failed", "model.tls"),
        ("FATAL:   could not open image /images/gym.sqsh: no such file", "infra.container"),
        ("sbatch: error: Batch job submission failed: Invalid account", "infra.slurm-refused"),
        ("/bin/bash: line 1: 12345 Killed      python train.py", "infra.killed"),
        (NESTED, "model.no-credit"),
    ],
)
def test_what_failed_without_a_traceback_is_heard(tmp_path: Path, text: str, cause: str) -> None:
    [found] = read(tmp_path, f"all is well\n{text}\nall is well\n").observations

    matched = TABLE.match(found.text)
    assert matched is not None
    assert (matched[0].cause, found.quotes[0].line) == (cause, 2)


def test_an_exception_that_nobody_knows_is_heard_as_well(tmp_path: Path) -> None:
    assert exceptions(read(tmp_path, "my.package.OddError: 17\n")) == ["my.package.OddError: 17"]


def test_the_traceback_of_an_inference_server_is_read_past_its_prefix(tmp_path: Path) -> None:
    prefix = "(EngineCore_0 pid=12) ERROR 11-22 00:00:00 [core.py:718] "
    text = RAY_TASK.replace("(pid=812) ", prefix)

    assert exceptions(read(tmp_path, text)) == ["ValueError: no such answer"]


def test_what_ended_a_command_is_heard_after_any_number_of_errors(tmp_path: Path) -> None:
    log = read(tmp_path, "22:00:00 ERROR it broke\n" * 5000 + "error: the disk is full\n")

    assert log.observations[-1].text == "the disk is full"


def test_a_packed_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.log.gz").write_bytes(gzip.compress(CHAINED.encode()))

    assert read_log(tmp_path / "run.log.gz", TABLE).observations


def test_a_log_that_is_no_text_is_not_taken_for_a_clean_one(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes("error: x\n".encode("utf-16"))

    [found] = read_log(tmp_path / "run.log", TABLE).observations

    assert "nothing in it was read" in found.text
