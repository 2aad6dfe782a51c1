"""Which back end is chosen, and what is said when none can be used."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from pydantic import ValidationError

from palestra.errors import ConfigError
from palestra.sandbox import Limits, Program, Sandbox, SandboxResult, SandboxSettings, Stop
from palestra.sandbox.bubblewrap import (
    IsolationMethod,
    Tools,
    command_line,
    find_tools,
    forbidden_by,
)
from palestra.sandbox.sandbox import choose
from palestra.sandbox.seccomp import seccomp_filter

TOOLS = Tools("bwrap", "setpriv", IsolationMethod.ROOT, "/opt/py/bin/python", ("/opt/py/lib",))


def chosen(settings: SandboxSettings, environ: Mapping[str, str]) -> str:
    async def main() -> str:
        backend = await choose(settings, environ)
        await backend.aclose()
        return backend.name

    return asyncio.run(main())


def test_without_bubblewrap_untrusted_code_is_refused_and_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ConfigError, match="bubblewrap is not installed") as refused:
        chosen(SandboxSettings(), {})

    assert "apt-get install bubblewrap" in refused.value.hint
    assert refused.value.exit_code == 2


def test_settings_may_permit_to_go_without_isolation_which_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with caplog.at_level(logging.WARNING, "palestra.sandbox"):
        assert chosen(SandboxSettings(allow_process=True), {}) == "process"

    assert "nothing keeps them from this machine's files" in caplog.text


def test_the_environment_variable_names_a_service_which_must_be_there() -> None:
    environ = {"NEMO_SKILLS_SANDBOX_HOST": "127.0.0.1", "NEMO_SKILLS_SANDBOX_PORT": "1"}

    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1 cannot be used"):
        chosen(SandboxSettings(), environ)


def test_a_port_that_is_none_is_refused() -> None:
    environ = {"NEMO_SKILLS_SANDBOX_HOST": "h", "NEMO_SKILLS_SANDBOX_PORT": "six"}

    with pytest.raises(ConfigError, match=r"NEMO_SKILLS_SANDBOX_PORT .* 'six'"):
        chosen(SandboxSettings(), environ)


def test_the_kernel_setting_that_forbids_user_namespaces_is_named(tmp_path) -> None:
    (tmp_path / "kernel").mkdir()
    setting = tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns"
    setting.write_text("1\n")

    assert forbidden_by(tmp_path) == "kernel.apparmor_restrict_unprivileged_userns = 1"
    setting.write_text("0\n")
    assert forbidden_by(tmp_path) == ""


def test_root_gives_its_user_up_before_the_program_starts() -> None:
    line = command_line(TOOLS, Program(("python", "x.py")), tmp_mib=1, seccomp=True, user=7)

    inner = line[line.index("--") + 1 :]
    assert inner[:5] == ("setpriv", "--reuid", "7", "--regid", "7")
    assert inner[-2:] == ("/opt/py/bin/python", "x.py")
    assert "--unshare-user" not in line


def test_an_ordinary_user_gets_a_user_namespace() -> None:
    tools = Tools(
        "bwrap", "", IsolationMethod.USER_NAMESPACE, "/opt/py/bin/python", ("/opt/py/lib",)
    )

    line = command_line(tools, Program(("python", "x.py")), tmp_mib=1, seccomp=False)

    assert line[line.index("--") + 1 :] == ("/opt/py/bin/python", "x.py")
    assert "--unshare-user" in line
    assert "--seccomp" not in line


def test_every_directory_above_what_is_mounted_may_be_entered() -> None:
    line = command_line(TOOLS, Program(("python",)), tmp_mib=1, seccomp=False)

    made = [line[n + 1] for n, word in enumerate(line) if word == "--dir"]
    assert {"/opt", "/opt/py"} <= set(made)
    assert not any(path.startswith("/opt/py/lib") for path in made)


def test_root_without_setpriv_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    found = find_tools("/usr/bin/python3", (), as_root=True)

    assert found == "setpriv is not installed, and programs must not run as root"


def test_root_in_a_container_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    for name in ("bwrap", "setpriv"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    status = tmp_path / "status"
    status.write_text("CapPrm:\t000001ffffffffff\nCapEff:\t00000000a80425fb\n")

    found = find_tools("/usr/bin/python3", (), as_root=True, status=status)

    assert found == (
        "this is root without CAP_NET_ADMIN, CAP_SYS_ADMIN, as in a container: be an ordinary user"
    )
    status.write_text("CapEff:\t000001ffffffffff\n")
    assert isinstance(find_tools("/usr/bin/python3", (), as_root=True, status=status), Tools)


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../x", "", ".", "a//b", "a\0"])
def test_a_program_has_no_files_outside_of_its_directory(name: str) -> None:
    with pytest.raises(ValueError, match="not a plain relative path"):
        Program(("x",), {name: b""})


@pytest.mark.parametrize("name", ["a/" * 2000 + "b", "a" * 2000])
def test_a_programs_files_lie_no_deeper_than_they_can(name: str) -> None:
    with pytest.raises(ValueError, match="too deep a path, or too long"):
        Program(("x",), {name: b""})


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_ends_with_permission_and_jumps_stay_inside(machine: str) -> None:
    made = seccomp_filter(machine)
    steps = [made[at : at + 8] for at in range(0, len(made), 8)]

    assert len(made) % 8 == 0
    assert steps[-1] == b"\x06\x00\x00\x00\x00\x00\xff\x7f"
    for number, step in enumerate(steps):
        if step[0] in {0x15, 0x35, 0x45}:
            assert number + 1 + max(step[2], step[3]) < len(steps)


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp_filter("vax") == b""


class Slow:
    """A back end that holds programs until it is told to let one end."""

    name = "slow"
    isolates = True

    def __init__(self) -> None:
        self.running = 0
        self.go = asyncio.Semaphore(0)

    async def run(self, program: Program, stdin: bytes, limits: Limits) -> SandboxResult:
        self.running += 1
        await self.go.acquire()
        self.running -= 1
        return SandboxResult(stdout="", stderr="", exit_code=0)

    @asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, *, rests: bool
    ) -> AsyncIterator["Slow"]:
        yield self

    async def aclose(self) -> None:
        pass


def test_programs_wait_for_a_place_and_one_that_is_cancelled_gives_its_own_back() -> None:
    async def main() -> list[int]:
        slow, seen = Slow(), []
        sandbox = Sandbox(SandboxSettings(at_once=2), backend=slow)
        tasks = [asyncio.ensure_future(sandbox.run(Program(("x",)))) for _ in range(4)]
        await _settled()
        seen.append(slow.running)
        tasks[0].cancel()
        tasks[3].cancel()
        await _settled()
        slow.go.release()
        await _settled()
        seen.append(sum(task.done() for task in tasks))
        slow.go.release()
        await asyncio.wait(tasks)
        return seen

    assert asyncio.run(main()) == [2, 3]


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("stderr", "exit_code", "stopped_by", "out_of_memory"),
    [
        ("", 137, Stop.MEMORY, True),
        ("Traceback\nMemoryError\n", 1, None, True),
        ("MemoryError: x", 1, None, True),
        ("MemoryError\n", 0, None, False),
        ("MemoryError\nValueError\n", 1, None, False),
        ("", 137, Stop.CPU, False),
    ],
)
def test_a_program_that_was_refused_memory_is_out_of_memory(
    stderr: str, exit_code: int, stopped_by: Stop | None, out_of_memory: bool
) -> None:
    result = SandboxResult(stdout="", stderr=stderr, exit_code=exit_code, stopped_by=stopped_by)

    assert result.out_of_memory is out_of_memory


def test_an_unknown_limit_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValidationError, match="no limit 'wall'; did you mean 'wall_s'"):
        Limits.model_validate({"wall": 3})


def test_code_in_the_place_of_a_program_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"write Program\.python\(code\)"):
        asyncio.run(Sandbox().run("print(1)"))  # type: ignore[arg-type]
