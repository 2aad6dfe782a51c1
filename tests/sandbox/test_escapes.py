"""Programs that try to get out of the sandbox, or to take the machine down from inside."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from escaping import MARK, isolating, living, marked, nothing_left, run_isolated

import palestra
from palestra.sandbox import Limits, Sandbox, Stop

pytestmark = pytest.mark.slow

ATTEMPT = """
import ctypes, errno

libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0: raise OSError(ctypes.get_errno(), name)

class Nothing(Exception):
    pass

def something(found):
    if not found: raise Nothing
    return found

def attempt(name, action):
    try:
        found = action()
    except Nothing:
        print(name, "refused: nothing is there")
    except OSError as error:
        known = errno.errorcode.get(error.errno)
        print(name, "refused:", known or f"{type(error).__name__} {error.errno}")
    except BaseException as error:
        print(name, "FAILED:", repr(error))
    else:
        print(name, "SUCCEEDED:", found)
"""


def attempts(code: str, *refusals: str) -> list[str]:
    """What a program printed about its attempts, each of which must have been refused.

    `refusals`: what may be said then; another error would mean that nothing was attempted.
    """
    result = run_isolated(ATTEMPT + code)
    lines = result.stdout.splitlines()
    assert lines, result
    others = [line for line in lines if line.partition(" refused: ")[2] not in refusals]
    assert others == [], result.stderr
    assert result.stderr == ""
    return lines


@pytest.mark.parametrize("code", ["nobody_knows_this", "[][0]", "open('/tmp/not-there')", "1"])
def test_only_the_refusals_that_are_expected_are_some(code: str) -> None:
    with pytest.raises(AssertionError):
        attempts(f"attempt('x', lambda: {code})\n", "EPERM", "nothing is there")


@contextmanager
def listening(family: int, kind: int, address: object) -> Iterator[socket.socket]:
    with socket.socket(family, kind) as server:
        server.bind(address)
        if kind == socket.SOCK_STREAM:
            server.listen()
        server.settimeout(0.2)
        yield server


# The network


def test_no_tcp_connection_to_the_host_or_beyond() -> None:
    with listening(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = attempts(
            "import socket\n"
            f"for host in ('127.0.0.1', '192.0.2.1', '169.254.169.254', '10.0.0.1'):\n"
            f"    attempt(host, lambda: socket.create_connection((host, {port}), 2))\n"
            f"attempt('ipv6', lambda: socket.create_connection(('::1', {port}), 2))\n",
            "EAFNOSUPPORT",
        )
    assert len(lines) == 5


def test_no_udp_datagram_leaves() -> None:
    with listening(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        attempts(
            "import socket\n"
            "def send():\n"
            "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            f"    return s.sendto(b'x', ('127.0.0.1', {port}))\n"
            "attempt('udp', send)\n",
            "EAFNOSUPPORT",
        )
        with pytest.raises(TimeoutError):
            server.recv(10)


def test_no_name_is_resolved() -> None:
    attempts(
        "import socket\nattempt('dns', lambda: socket.getaddrinfo('example.com', 80))\n",
        "gaierror -3",
        "gaierror -2",
    )


def test_no_socket_of_the_host_is_reached_by_path_or_abstract_name(tmp_path: Path) -> None:
    path, name = str(tmp_path / "socket"), f"\0palestra-{os.getpid()}"
    with (
        listening(socket.AF_UNIX, socket.SOCK_STREAM, path),
        listening(socket.AF_UNIX, socket.SOCK_STREAM, name),
    ):
        attempts(
            "import socket\n"
            "def connect(address):\n"
            "    s = socket.socket(socket.AF_UNIX)\n"
            "    s.settimeout(2)\n"
            "    return s.connect(address)\n"
            f"attempt('path', lambda: connect({path!r}))\n"
            f"attempt('abstract', lambda: connect({name!r}))\n",
            "ENOENT",
            "ECONNREFUSED",
        )


def test_no_raw_netlink_or_vsock_socket() -> None:
    attempts(
        "import socket\n"
        "for family in (socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):\n"
        "        attempt(f'{family} {kind}', lambda: socket.socket(family, kind))\n",
        "EAFNOSUPPORT",
    )


# Files


def test_nothing_can_be_written_outside_of_tmp(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("as it was")

    attempts(
        "import os, sys, pathlib, sysconfig\n"
        "def write(path):\n"
        "    return open(path, 'a').write('x')\n"
        f"for path in ({str(target)!r}, '/x', '/etc/passwd', '/usr/lib/x', '/home/x', '/root/x',\n"
        "        '/var/x', '/run/x', '/sys/x', '/proc/x', sys.executable, os.__file__,\n"
        "        sysconfig.get_path('purelib') + '/x.pth'):\n"
        "    attempt(path, lambda: write(path))\n"
        "attempt('mkdir', lambda: os.mkdir('/made'))\n"
        "attempt('unlink', lambda: os.unlink(os.__file__))\n"
        "attempt('chmod', lambda: os.chmod(os.__file__, 0o777))\n"
        "attempt('rename', lambda: os.rename('/usr', '/usr2'))\n",
        "EROFS",
        "EACCES",
        "ENOENT",
    )

    assert target.read_text() == "as it was"


def test_nothing_of_the_host_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_TEST_SECRET", "do-not-tell")
    secret = tmp_path / "secret"
    secret.write_text("do-not-tell")
    paths = ["/etc/shadow", "/etc/passwd", str(secret), str(Path.home()), "/proc/1/environ"]

    attempts(
        "import os\n"
        "def read(path):\n"
        "    return os.listdir(path) if os.path.isdir(path) else open(path).read(10)\n"
        f"for path in {paths!r}:\n"
        # the interpreter may be in the home directory: then there is its path, and nothing else
        "    attempt(path, lambda: something([x for x in read(path) if x not in ('.pyenv', '.local')]))\n"
        "for path in ('/home', '/var', '/etc/ssh', '/run', '/boot', '/mnt', '/srv', '/sys'):\n"
        "    attempt(path, lambda: something(os.listdir(path)))\n"
        "attempt('environment', lambda: something([v for v in os.environ.values() if 'tell' in v]))\n",
        "ENOENT",
        "EACCES",
        "nothing is there",
    )


def test_links_lead_nowhere_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do-not-tell")

    attempts(
        "import os\n"
        f"os.symlink({str(secret)!r}, '/tmp/soft')\n"
        "os.symlink('/proc/1/root/etc/shadow', '/tmp/root')\n"
        "os.symlink('../../../../../../etc/shadow', '/tmp/up')\n"
        "for name in ('soft', 'root', 'up'):\n"
        "    attempt(name, lambda: open('/tmp/' + name).read())\n"
        "attempt('hard', lambda: os.link(os.__file__, '/tmp/hard'))\n",
        "ENOENT",
        "EXDEV",
    )

    assert secret.read_text() == "do-not-tell"


def test_devices_are_the_harmless_ones_and_stay_as_they_are() -> None:
    before = Path("/dev/null").stat().st_mode

    attempts(
        "import os, stat\n"
        "attempt('file', lambda: open('/dev/x', 'w'))\n"
        "attempt('mode', lambda: os.chmod('/dev/null', 0o600))\n"
        "attempt('disk', lambda: os.mknod('/tmp/disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0)))\n"
        "attempt('memory', lambda: open('/dev/mem', 'rb').read(1))\n"
        "attempt('kernel log', lambda: open('/dev/kmsg', 'rb').read(1))\n"
        "attempt('terminal', lambda: open('/dev/tty', 'rb'))\n",
        "EROFS",
        "EPERM",
        "ENOENT",
        "ENXIO",
    )

    assert Path("/dev/null").stat().st_mode == before


def test_the_disk_cannot_be_filled() -> None:
    result = run_isolated(
        "import os\n"
        "for where in ('/tmp', '/dev/shm'):\n"
        "    total = 0\n"
        "    try:\n"
        "        for n in range(1000):\n"
        "            with open(f'{where}/{n}', 'wb', buffering=0) as f:\n"
        "                for _ in range(8): total += f.write(bytes(1 << 20))\n"
        "    except OSError as error:\n"
        "        print(where, -(-total // (1 << 20)), error.errno)\n",
        limits=Limits(tmp_mib=40, memory_mib=256),
    )

    # less the program itself, and rounded up
    assert result.stdout == "/tmp 40 28\n/dev/shm 16 28\n"


def test_too_many_files_without_content_are_refused_in_shared_memory_too() -> None:
    result = run_isolated(
        "n = 0\nwhile n < 400_000:\n    n += 1\n    open(f'/dev/shm/{n}', 'w').close()\n",
        limits=Limits(cpu_s=30),
    )

    assert result.stopped_by is Stop.FILES


def test_what_is_installed_with_us_is_not_there_for_programs() -> None:
    ours = Path(palestra.__file__).parent

    async def list_it() -> str:
        settings = isolating().model_copy(update={"read_only": (str(ours.parent),)})
        async with Sandbox(settings) as sandbox:
            code = f"import os; print(os.listdir({str(ours)!r}), os.listdir({str(ours.parent)!r}))"
            return (await sandbox.run(marked(code))).stdout

    assert asyncio.run(list_it()) == "[] ['palestra']\n"


def test_one_huge_file_and_too_many_small_ones_are_refused() -> None:
    huge = run_isolated(
        "import os\n"
        "try: open('x', 'wb').write(bytes(5 << 20))\n"
        "except OSError as error: print(error.errno)\n"
        "try: os.truncate('x', 1 << 40)\n"
        "except OSError as error: print(error.errno)\n",
        limits=Limits(file_mib=4, tmp_mib=64),
    )
    many = run_isolated(
        "n = 0\nwhile True:\n    n += 1\n    open(str(n), 'w').close()\n", limits=Limits(cpu_s=30)
    )

    assert huge.stdout == "27\n27\n"
    assert many.stopped_by is Stop.FILES


# Memory, processes, output


def test_a_fork_bomb_stays_within_its_number_of_processes() -> None:
    result = run_isolated(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n",
        limits=Limits(cpu_s=2, processes=20),
    )

    assert result.stopped_by in {Stop.CPU, Stop.MEMORY}


def test_a_thread_bomb_is_refused() -> None:
    result = run_isolated(
        "import threading, time\n"
        "n = 0\n"
        "try:\n"
        "    while True:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\n"
        "except RuntimeError: print(n)\n",
        limits=Limits(processes=10),
    )

    assert 1 <= int(result.stdout) <= 10


@pytest.mark.parametrize(
    "code",
    [
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "x = bytearray(1 << 40)",
        (
            "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 1 << 24); m.write(bytes(1 << 24))\n"
            "    x.append(m)"
        ),
        "import os\nfor _ in range(3): os.fork()\nx = []\nwhile True: x.append(bytearray(1 << 20))",
    ],
    ids=["bit by bit", "at once", "mapped", "by many"],
)
def test_a_memory_bomb_is_stopped(code: str) -> None:
    result = run_isolated(code, limits=Limits(memory_mib=128, cpu_s=30))

    assert result.out_of_memory
    assert result.peak_memory_bytes < 1 << 30


def test_memory_that_no_limit_counts_is_not_to_be_had() -> None:
    attempts(
        "import os\n"
        "attempt('memfd', lambda: os.memfd_create('x'))\n"
        "attempt('shared memory', lambda: call('shmget', 0, 1 << 20, 0o1600))\n"
        "attempt('queue', lambda: call('msgget', 0, 0o1600))\n",
        "EPERM",
    )


@pytest.mark.parametrize("fd", [1, 2])
def test_endless_output_is_cut_and_ends_the_program(fd: int) -> None:
    result = run_isolated(
        f"import os\nwhile True: os.write({fd}, b'x' * 65536)", limits=Limits(output_kib=100)
    )

    assert result.output_truncated
    assert len(result.stdout if fd == 1 else result.stderr) == 100 * 1024
    assert result.cpu_s < 5


# Other processes


def test_no_process_of_the_host_is_seen_signalled_or_traced() -> None:
    ours = os.getpid()

    attempts(
        "import os, signal\n"
        f"attempt('us', lambda: os.kill({ours}, 0))\n"
        # The first of its own namespace is out of reach or, for one who may, cannot be killed.
        "for pid in (1, os.getppid()):\n"
        "    try: os.kill(pid, signal.SIGKILL)\n"
        "    except PermissionError: pass\n"
        "attempt('processes', lambda: something(os.listdir('/proc')))\n"
        "for pid in (1, os.getppid()):\n"
        "    attempt(f'trace {pid}', lambda: call('ptrace', 16, pid, 0, 0))\n"
        "    attempt(f'peek {pid}', lambda: call('process_vm_readv', pid, 0, 0, 0, 0, 0))\n"
        f"attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, {ours}, 19))\n"
        "attempt('nicer', lambda: os.nice(-5))\n",
        "ESRCH",
        "ENOENT",
        "EPERM",
    )


def test_killing_everything_in_sight_kills_the_program_alone() -> None:
    result = run_isolated(
        "import os\ntry: os.kill(-1, 9)\nexcept ProcessLookupError: print('nobody else is here')"
    )

    assert result.stdout == "nobody else is here\n"


def test_no_namespace_mount_or_user_can_be_had() -> None:
    attempts(
        "import os\n"
        "attempt('unshare', lambda: call('unshare', 0x10000000))\n"
        "attempt('clone', lambda: call('syscall', 56, 0x10000000 | 17, 0, 0, 0, 0))\n"
        "attempt('mount', lambda: call('mount', b'none', b'/tmp', b'tmpfs', 0, 0))\n"
        "attempt('umount', lambda: call('umount2', b'/tmp', 2))\n"
        "attempt('remount', lambda: call('mount', b'none', b'/', b'', 32, 0))\n"
        "attempt('chroot', lambda: os.chroot('/tmp'))\n"
        "attempt('root', lambda: os.setuid(0))\n"
        "attempt('group', lambda: os.setgroups([0]))\n"
        "attempt('host name', lambda: call('sethostname', b'x', 1))\n"
        "attempt('bpf', lambda: call('syscall', 321, 0, 0, 0))\n"
        "attempt('io_uring', lambda: call('syscall', 425, 1, 0))\n"
        "attempt('keyring', lambda: call('syscall', 248, b'user', b'a', b'b', 1, -3))\n",
        "EPERM",
        "EINVAL",
    )


def test_only_the_three_standard_descriptors_are_open(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as kept:
        os.set_inheritable(kept.fileno(), True)  # a careless library
        result = run_isolated(
            "import os\n"
            "found = []\n"
            "for fd in range(1024):\n"
            "    try: found.append((fd, os.fstat(fd).st_mode))\n"
            "    except OSError: pass\n"
            "print([fd for fd, _ in found])\n"
        )

    assert result.stdout == "[0, 1, 2]\n"


@pytest.mark.parametrize(
    "code",
    [
        (
            "import os, time\n"
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    if os.fork(): os._exit(0)\n"
            "    for fd in range(3): os.close(fd)\n"
            "    time.sleep(300)\n"
            "print('done')"
        ),
        "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(300)\nprint('done')",
        (
            "import subprocess, sys\nfrom sys import argv\n"
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', argv[1]],\n"
            "    start_new_session=True)\nprint('done')"
        ),
    ],
    ids=["daemon", "session", "executed"],
)
def test_what_a_program_leaves_behind_ends_with_it(code: str) -> None:
    result = run_isolated(code)

    assert (result.stdout, result.exit_code) == ("done\n", 0)
    assert result.wall_s < 30


def test_a_program_that_ignores_every_signal_is_stopped_at_its_limit() -> None:
    result = run_isolated(
        "import signal, time\n"
        "for number in range(1, 65):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True:\n"
        "    try: time.sleep(1)\n"
        "    except BaseException: pass\n",
        limits=Limits(wall_s=1),
    )

    assert result.stopped_by is Stop.WALL


def test_a_program_that_stops_itself_is_stopped_at_its_limit() -> None:
    result = run_isolated(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", limits=Limits(wall_s=1)
    )

    assert result.stopped_by is Stop.WALL


def test_reading_more_input_than_there_is_does_not_hang() -> None:
    result = run_isolated(
        "import sys\nprint(len(sys.stdin.read()), repr(sys.stdin.read()))\n"
        "try: input()\nexcept EOFError: print('end')",
        stdin="x" * 1_000_000,
    )

    assert result.stdout == "1000000 ''\nend\n"


def test_a_program_that_closes_its_output_and_goes_on_is_stopped() -> None:
    result = run_isolated(
        "import os\nos.close(1); os.close(2)\nwhile True: pass", limits=Limits(cpu_s=0.5)
    )

    assert result.stopped_by is Stop.CPU


def test_children_cannot_be_had_that_nobody_waits_for() -> None:
    attempts(
        "import signal\n"
        "attempt('ignored', lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))\n"
        "attempt('handled', lambda: signal.signal(signal.SIGCHLD, print))\n"
        "something(signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL)\n"
        "something(not call('sigaction', signal.SIGCHLD, None, None))\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n",
        "EPERM",
    )


def test_processor_time_of_many_processes_counts_together() -> None:
    result = run_isolated(
        "import os\nfor _ in range(3): os.fork()\nwhile True: pass", limits=Limits(cpu_s=2)
    )

    assert result.stopped_by is Stop.CPU
    assert 2 <= result.cpu_s < 4


def test_a_program_cannot_pretend_that_the_sandbox_failed() -> None:
    result = run_isolated(
        "import os, sys\n"
        "sys.stderr.write('bwrap: setting up uid map: Permission denied\\n')\n"
        "os._exit(1)\n"
    )

    assert (result.exit_code, result.stopped_by) == (1, None)


def test_the_filter_and_the_files_hold_for_programs_that_are_executed_by_programs() -> None:
    result = run_isolated(
        marked(
            "import subprocess, sys\n"
            "print(subprocess.run([sys.executable, 'inner.py'], capture_output=True).stdout)\n",
            files={
                "inner.py": b"import socket\ntry: socket.socket()\nexcept OSError as e: print(e.errno)"
            },
        )
    )

    assert result.stdout == "b'97\\n'\n"


def test_these_tests_would_see_a_process_that_stays() -> None:
    command = ["sh", "-c", "echo started; read x", MARK]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as stays:
        assert stays.stdout is not None
        assert stays.stdout.readline() == "started\n"
        assert any(line.startswith(f"{stays.pid}:") for line in living())
        stays.communicate("\n", timeout=10)

    assert nothing_left()
