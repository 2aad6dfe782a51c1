"""What another process reads in a pulse."""

import contextlib
import mmap
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from palestra.system import Pulse, ask_for_stacks
from palestra.system.pulse import STACKS_SIGNAL


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    made = Pulse.create()
    yield made
    made.close()


def test_a_call_that_has_ended_is_not_read(pulse: Pulse) -> None:
    pulse.enter(b"first", 1.0)
    pulse.leave()
    ended = pulse.executing()
    pulse.enter(b"second", None)

    assert ended == []
    assert [(call.text, call.deadline) for call in pulse.executing()] == [(b"second", None)]


def test_a_call_inside_another_gives_way_to_it_again(pulse: Pulse) -> None:
    pulse.enter(b"outer", 1.0)
    pulse.enter(b"inner", 2.0)
    pulse.leave()

    assert [(call.text, call.deadline) for call in pulse.executing()] == [(b"outer", 1.0)]


def test_a_shorter_note_replaces_a_longer_one(pulse: Pulse) -> None:
    pulse.note(b"longer")
    pulse.note(b"short")

    assert pulse.noted() == b"short"


def test_a_note_too_long_to_keep_leaves_no_older_one(pulse: Pulse) -> None:
    pulse.note(b"of an earlier run")
    pulse.note(b" " * (1 << 21))

    assert pulse.noted() == b""


def test_a_fork_of_the_process_leaves_its_pulse_alone(pulse: Pulse) -> None:
    pulse.begin()
    pulse.enter(b"verify", None)
    child = os.fork()
    if child == 0:
        pulse.leave()
        pulse.beat()
        pulse.enter(b"of a fork", None)
        pulse.note(b"of a fork")
        os._exit(0)
    os.waitpid(child, 0)

    assert [call.text for call in pulse.executing()] == [b"verify"]
    assert pulse.last_beat is None
    assert pulse.noted() == b""


def test_less_is_told_of_a_call_where_files_may_not_grow() -> None:
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, kept[1]))
    try:
        with Pulse.create_for_program() as (pulse, (block, stacks)):
            program = Pulse.opened(os.dup(block), os.dup(stacks))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    with contextlib.closing(pulse), contextlib.closing(program):
        program.enter(b"x" * 100_000, None)

        assert [len(call.text) for call in pulse.executing()] == [pulse.longest_text]
        assert 10_000 < pulse.longest_text < 12_500


class CountingMemory(mmap.mmap):
    """Counts the texts that are written to it."""

    texts = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.texts += 1
        super().__setitem__(key, value)


def test_coroutines_that_go_on_in_turns_write_their_texts_once() -> None:
    memory = CountingMemory(-1, 1 << 20)
    pulse = Pulse(memory, os.open(os.devnull, os.O_RDWR))
    texts = [b"first call", b"the second"]
    shown = []

    for text in texts * 3:
        pulse.enter(text, None)
        shown += [call.text for call in pulse.executing()]
        pulse.leave()

    assert shown == texts * 3
    assert memory.texts == len(texts)
    pulse.close()


def test_a_process_that_has_not_begun_is_not_asked_for_its_stacks(pulse: Pulse) -> None:
    # A signal to process 0 goes to this whole group.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {STACKS_SIGNAL})
    try:
        pauses = list(ask_for_stacks(pulse))
        received = signal.sigtimedwait({STACKS_SIGNAL}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    assert (received, pauses) == (None, [])


def test_a_call_that_is_over_leaves_no_text_behind(pulse: Pulse) -> None:
    text = bytes(1000)
    held_elsewhere = sys.getrefcount(text)
    pulse.enter(text, None)
    pulse.leave()
    pulse.forget(text)

    assert sys.getrefcount(text) == held_elsewhere


def test_the_stacks_of_a_process_are_waited_for_until_they_are_whole(pulse: Pulse) -> None:
    pulse.begin()
    for pause_s in ask_for_stacks(pulse):
        time.sleep(pause_s)

    assert f'File "{__file__}"' in pulse.stack_text()


PROGRAM = """
import ctypes
import os
import sys
import threading

from palestra.system import Pulse, make_current

pulse = Pulse.opened(int(sys.argv[1]), int(sys.argv[2]))
make_current(pulse)


def verify():
    pulse.enter(b"verify", None)
    {body}


thread = threading.Thread(target=verify)
thread.start()
thread.join()
os.kill(os.getpid(), 15)
"""


def last_stacks(body: str) -> tuple[int, str, list[int]]:
    """How a program ended of which a thread executes `body`, the stacks that it left, and the thread."""
    with Pulse.create_for_program() as (pulse, descriptors):
        arguments = map(str, descriptors)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(body=body), *arguments],
            pass_fds=descriptors,
            check=False,
        )
    with contextlib.closing(pulse):
        threads = [call.ident for call in pulse.executing()]
        return done.returncode, pulse.last_stacks(done.returncode), threads


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "returncode"), [("os._exit(3)", 3), ("ctypes.string_at(0)", -signal.SIGSEGV)]
)
def test_a_process_that_ends_itself_leaves_the_stack_of_the_thread_that_did_it(
    body: str, returncode: int
) -> None:
    code, stacks, [thread] = last_stacks(body)

    assert code == returncode
    assert f"Current thread 0x{thread:016x}" in stacks
    assert "line 15 in verify" in stacks


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("os.fork() or os._exit(3); os.wait()", id="exit"),
        pytest.param("os.fork() or ctypes.string_at(0); os.wait()", id="crash"),
    ],
)
def test_how_a_fork_ended_is_not_taken_for_the_end_of_its_parent(body: str) -> None:
    code, stacks, _ = last_stacks(body)

    assert (code, stacks) == (-signal.SIGTERM, "")


@pytest.mark.slow
def test_a_process_that_has_closed_its_file_of_stacks_ends_all_the_same() -> None:
    code, stacks, _ = last_stacks("os.closerange(3, 1 << 16); os._exit(3)")

    assert (code, stacks) == (3, "")
