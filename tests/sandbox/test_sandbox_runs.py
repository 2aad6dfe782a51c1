"""What a program's result says, on each back end of this machine, and what is left afterwards."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import venv
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from escaping import (
    MARK,
    isolating,
    leaving_nothing,
    living,
    marked,
    nothing_left,
    own_temporary_directory,
)

from palestra.errors import InfraError
from palestra.sandbox import (
    ConversationEnded,
    Limits,
    Program,
    Sandbox,
    SandboxResult,
    SandboxSettings,
    Stop,
    conversing,
    local,
)

pytestmark = pytest.mark.slow

T = TypeVar("T")
both = pytest.mark.parametrize("backend", ["bubblewrap", "process"])


def settings_of(backend: str, at_once: int = 0) -> SandboxSettings:
    base = isolating() if backend == "bubblewrap" else SandboxSettings(backend="process")
    return base.model_copy(update={"at_once": at_once})


def within(settings: SandboxSettings, work: Callable[[Sandbox], Awaitable[T]]) -> T:
    """What `work` gives, with a sandbox of which nothing is left."""

    async def main() -> T:
        async with Sandbox(settings) as sandbox:
            return await work(sandbox)

    with leaving_nothing():
        return asyncio.run(main())


def run(backend: str, program: Program, stdin: str = "", **limits: float) -> SandboxResult:
    return within(
        settings_of(backend),
        lambda sandbox: sandbox.run(program, stdin=stdin, limits=Limits.model_validate(limits)),
    )


@both
def test_a_result_has_what_was_written_and_what_it_cost(backend: str) -> None:
    program = marked(
        "import sys, helper\nprint(helper.twice(input()))\nsys.stderr.write('é\\n')\nsys.exit(3)",
        files={"helper.py": b"def twice(x): return 2 * x", "data/deep/x": b"1"},
    )

    result = run(backend, program, stdin="ab\n")

    assert (result.stdout, result.stderr, result.exit_code) == ("abab\n", "é\n", 3)
    assert (result.stopped_by, result.ok) == (None, False)
    assert 0 < result.cpu_s < 5
    assert result.wall_s > 0
    assert result.peak_memory_bytes > 1 << 20


@both
def test_a_signal_that_ends_a_program_is_told_as_a_shell_tells_it(backend: str) -> None:
    result = run(backend, marked("import os\nos.kill(os.getpid(), 11)"))

    assert result.exit_code == 128 + signal.SIGSEGV


@both
@pytest.mark.parametrize(
    ("code", "limits", "stopped_by"),
    [
        ("while True: pass", {"cpu_s": 0.5}, Stop.CPU),
        ("import time; time.sleep(60)", {"wall_s": 0.5}, Stop.WALL),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", {"memory_mib": 64}, Stop.MEMORY),
        ("while True: print('x' * 1000)", {"output_kib": 64}, Stop.OUTPUT),
    ],
)
def test_each_limit_stops_a_program(
    backend: str, code: str, limits: dict[str, float], stopped_by: Stop
) -> None:
    result = run(backend, marked(code), **limits)

    assert result.stopped_by is stopped_by
    assert not result.ok


@both
def test_many_threads_fit_into_little_memory(backend: str) -> None:
    code = """
        import threading
        all_there = threading.Barrier(65)
        def work():
            bytearray(100_000)
            all_there.wait(30)
        for _ in range(64):
            threading.Thread(target=work).start()
        all_there.wait(30)
        print("all of them")
    """

    result = run(backend, marked(textwrap.dedent(code)), memory_mib=128, processes=100)

    assert (result.stdout, result.stderr) == ("all of them\n", "")


@both
def test_a_program_may_ask_for_a_deep_stack(backend: str) -> None:
    code = """
        import functools, resource, sys
        _, most = resource.getrlimit(resource.RLIMIT_STACK)
        resource.setrlimit(resource.RLIMIT_STACK, (most, most))
        sys.setrecursionlimit(100_000)
        @functools.cache
        def f(n): return n and 1 + f(n - 1)
        print(f(40_000))
    """

    assert run(backend, marked(textwrap.dedent(code))).stdout == "40000\n"


def test_time_of_children_that_nobody_waits_for_counts() -> None:
    code = """
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for _ in range(5):
            child = os.fork()
            if child == 0:
                while time.process_time() < 0.4:
                    pass
                os._exit(0)
            try:
                os.waitpid(child, 0)
            except ChildProcessError:
                pass
    """

    result = run("process", marked(textwrap.dedent(code)), cpu_s=60)

    # less what each used after the last look at it
    assert result.cpu_s > 1.2


@both
def test_a_daemon_in_its_own_session_does_not_outlive_the_run(backend: str) -> None:
    code = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(300)
            os._exit(0)
        os.wait()
        print("done")
    """

    assert run(backend, marked(textwrap.dedent(code))).stdout == "done\n"


def test_too_many_processes_are_ended_without_isolation_too() -> None:
    # Children that do not fork themselves: without isolation nothing but us bounds a real bomb.
    code = """
        import os, time
        for _ in range(400):
            if os.fork() == 0:
                time.sleep(60)
        time.sleep(60)
    """

    result = run("process", marked(textwrap.dedent(code)), processes=50, cpu_s=20)

    assert result.stopped_by in {Stop.PROCESSES, Stop.MEMORY, Stop.CPU}


def test_a_large_input_and_a_large_output_arrive_whole() -> None:
    text = "0123456789" * 1_000_000

    result = run(
        "process", marked("import sys; sys.stdout.write(sys.stdin.read())"), text, output_kib=16384
    )

    assert result.stdout == text


@both
def test_a_command_that_does_not_exist_is_no_verdict_or_a_failure_of_the_command(
    backend: str,
) -> None:
    # Without isolation it is the sandbox that cannot execute it, isolated it is a program inside.
    try:
        result = run(backend, Program(("/no/such/command",)))
    except InfraError as error:
        told = error.message
    else:
        told = result.stderr
        assert result.exit_code in {1, 126, 127}

    assert "/no/such/command" in told


@both
def test_a_cancelled_run_leaves_nothing(backend: str) -> None:
    async def cancelled(sandbox: Sandbox) -> None:
        running = asyncio.ensure_future(
            sandbox.run(marked("import time\nopen('x', 'w').write('x'); time.sleep(300)"))
        )
        await until(program_runs)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()

    within(settings_of(backend), cancelled)


@both
def test_when_we_are_killed_nothing_is_left(backend: str) -> None:
    settings, others = settings_of(backend), living()
    code = f"""
        import asyncio
        from palestra.sandbox import Program, Sandbox, SandboxSettings
        program = Program.python("import time; time.sleep(300)", {MARK!r})
        async def main():
            async with Sandbox(SandboxSettings(backend={settings.backend!r}, at_once=2)) as sandbox:
                await asyncio.gather(*(sandbox.run(program) for _ in range(2)))
        asyncio.run(main())
    """
    with (
        own_temporary_directory() as directory,
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "TMPDIR": str(directory)},
        ) as victim,
    ):
        deadline = time.monotonic() + 30
        while sum("main.py" in line for line in living()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert sum("main.py" in line for line in living()) >= 2
        victim.kill()
        assert nothing_left(victim.pid, besides=others)
        assert list(directory.iterdir()) == []


@both
@pytest.mark.parametrize("late", [False, True])
def test_a_keeper_that_is_killed_is_a_failure_of_the_sandbox_and_what_it_kept_ends(
    backend: str, late: bool
) -> None:
    others = keepers()

    async def killed(sandbox: Sandbox) -> None:
        await sandbox.run(marked("pass"))
        await until(lambda: len(keepers() - others) == 1)
        before = keepers()
        running = asyncio.ensure_future(sandbox.run(marked("import time; time.sleep(300)")))
        await until(lambda: keepers() - before and (not late or program_runs()))
        for keeper in keepers() - before:
            with contextlib.suppress(ProcessLookupError):  # one that ended by itself
                os.kill(keeper, signal.SIGKILL)
        with pytest.raises(InfraError):
            await running
        await until(lambda: not program_runs())
        assert (await sandbox.run(marked("print(1)"))).stdout == "1\n"

    within(settings_of(backend), killed)


def test_directories_of_others_stay_whatever_their_names() -> None:
    with own_temporary_directory() as directory:
        with subprocess.Popen(["true"]) as last:
            pids = range(last.pid, last.pid + 300)
        theirs = {directory / f"palestra-sandbox-{pid}-theirs" for pid in pids}
        for each in theirs:
            each.mkdir()
        asyncio.run(_one_after_another(SandboxSettings(backend="process"), 2))
        assert nothing_left()

        assert set(directory.iterdir()) == theirs


async def _one_after_another(settings: SandboxSettings, count: int) -> None:
    async with Sandbox(settings) as sandbox:
        for _ in range(count):
            await sandbox.run(marked("pass"))


def test_folders_too_deep_for_any_path_are_removed() -> None:
    code = "import os\nfor _ in range(1500):\n    os.mkdir('d' * 50); os.chdir('d' * 50)\nprint(1)"

    assert run("process", marked(code)).stdout == "1\n"


@both
def test_a_cancelled_run_has_its_place_until_its_processes_are_gone(backend: str) -> None:
    async def cancelled(sandbox: Sandbox) -> bool:
        running = asyncio.ensure_future(sandbox.run(marked("import time; time.sleep(300)")))
        await until(program_runs)
        running.cancel()
        async with sandbox._slots():
            return program_runs()

    assert not within(settings_of(backend, at_once=1), cancelled)


@both
@pytest.mark.parametrize(
    ("does", "stopped_by"),
    [
        ("time.sleep(300)", Stop.WALL),
        ("channel.send(bytes(100_000))", Stop.OUTPUT),
        ("os._exit(3)", None),
    ],
)
def test_a_conversation_says_for_what_it_was_ended(
    backend: str, does: str, stopped_by: Stop | None
) -> None:
    code = (
        f"import os, time\nfrom frames import Channel\nchannel = Channel()\n{does}\ntime.sleep(9)"
    )

    async def talk(sandbox: Sandbox) -> SandboxResult:
        program = conversing(code.encode())
        async with sandbox.converse(program, limits=Limits(output_kib=64)) as conversation:
            with pytest.raises(ConversationEnded):
                await conversation.ask(b"?", within_s=2)
            return await conversation.end()

    assert within(settings_of(backend), talk).stopped_by is stopped_by


def test_a_launcher_that_is_killed_is_replaced() -> None:
    others = keepers()

    async def killed(sandbox: Sandbox) -> None:
        assert (await sandbox.run(marked("print(1)"))).stdout == "1\n"
        for launcher in keepers() - others:
            os.kill(launcher, signal.SIGKILL)
        await until(lambda: not keepers() - others)
        assert (await sandbox.run(marked("print(2)"))).stdout == "2\n"

    within(settings_of("process"), killed)


def keepers() -> set[int]:
    """Process ids of our launchers and keepers."""
    return {int(line.partition(":")[0]) for line in living() if "sandbox.keeping" in line}


def program_runs() -> bool:
    """Whether a marked program has got so far as to be executed."""
    return any("'main.py'" in line and "bwrap" not in line for line in living())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # of other processes, there is no event
            await asyncio.sleep(0.005)


@both
@pytest.mark.timeout(300)
def test_two_hundred_programs_at_once_all_end_right(backend: str) -> None:
    code = "n = int(input())\nprint(sum(i * i for i in range(20_000)) + n)"
    right = sum(i * i for i in range(20_000))

    async def many(sandbox: Sandbox) -> list[SandboxResult]:
        return await asyncio.gather(
            *(sandbox.run(marked(code), stdin=str(n), limits=Limits(cpu_s=5)) for n in range(200))
        )

    results = within(settings_of(backend), many)

    wrong = [result for n, result in enumerate(results) if result.stdout != f"{right + n}\n"]
    assert wrong == []


def test_time_without_a_core_does_not_pass_for_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "ENDS_WITHIN_S", 0.3)  # nor for who waits for its result
    crowd = """
        import os, time
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for _ in range(3):
            os.fork()
        while time.process_time() < 0.15:
            pass
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
    """

    result = run("process", marked(textwrap.dedent(crowd)), wall_s=0.5, cpu_s=60)

    assert result.wall_s > 1
    assert result.stopped_by is None


def test_no_more_programs_run_at_a_time_than_there_are_places(tmp_path: Path) -> None:
    count = tmp_path / "running"
    count.mkdir()
    code = (
        "import os, sys, time, uuid\n"
        f"own = {str(count)!r} + '/' + uuid.uuid4().hex\n"
        f"open(own, 'w').close()\nprint(len(os.listdir({str(count)!r})))\n"
        "time.sleep(0.05)\nos.unlink(own)"
    )

    async def many(sandbox: Sandbox) -> list[SandboxResult]:
        return await asyncio.gather(*(sandbox.run(marked(code)) for _ in range(12)))

    results = within(settings_of("process", at_once=3), many)

    assert max(int(result.stdout) for result in results) <= 3


@pytest.mark.skipif(
    not Path(np.__file__).is_relative_to(sys.prefix), reason="numpy is not the interpreter's own"
)
def test_programs_find_the_packages_of_our_interpreter() -> None:
    result = run("bubblewrap", marked("import numpy; print(numpy.arange(3).sum())"))

    assert (result.stdout, result.stderr) == ("3\n", "")


def test_an_interpreter_below_tmp_is_still_to_be_seen() -> None:
    isolating()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        venv.create(folder, with_pip=False)
        settings = SandboxSettings(backend="bubblewrap", python=f"{folder}/bin/python")
        code = "import sys; open('/tmp/mine', 'w').close(); print(sys.prefix)"
        result = within(settings, lambda sandbox: sandbox.run(marked(code)))

    assert (result.stdout, result.stderr) == (f"{folder}\n", "")
