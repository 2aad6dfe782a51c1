"""Keys of servers: in no command line, and in no log."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planning import HOSTED, options, planned

from palestra.cluster.supervisor.keyed import copy_masked
from palestra.cluster.writing import supervisor_zip
from palestra.errors import ConfigError

KEY = "0123456789abcdef0123456789abcdef"
SERVER = """
import subprocess, sys, time
if __name__ == "__main__":
    print("launch_server", sys.argv, flush=True)
    print(open("/proc/self/cmdline").read().replace(chr(0), " "), flush=True)
    from multiprocessing import get_context
    child = get_context("spawn").Process(target=print, args=("of", __name__))
    child.start(); child.join()
    sys.exit(7)
"""


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama_cpp"])
def test_the_key_of_a_server_stands_in_none_of_its_arguments(kind: str) -> None:
    asked = options(**{**HOSTED, "server_type": kind})
    server = planned(asked).jobs[0].components[0]

    assert not any("{nonce}" in word for word in server.argv)
    assert "{nonce}" in server.env.values()


def test_a_generic_server_does_not_get_the_key_as_an_argument() -> None:
    asked = options(
        model="m", server_type="generic", server_cpu=True, server_entrypoint="x {port} {nonce}"
    )

    with pytest.raises(ConfigError, match="PALESTRA_SERVER_KEY"):
        planned(asked)


def test_sglang_gets_its_key_inside_its_process_and_its_log_does_not(tmp_path: Path) -> None:
    asked = options(
        **{**HOSTED, "server_type": "sglang"}, server_entrypoint=f"{sys.executable} -m fake_server"
    )
    argv = planned(asked).jobs[0].components[0].argv
    supervisor = tmp_path / "supervisor.pyz"
    supervisor.write_bytes(supervisor_zip())
    (tmp_path / "fake_server.py").write_text(SERVER)

    done = subprocess.run(
        [word.replace("{supervisor}", str(supervisor)) for word in argv],
        cwd=tmp_path,
        env={**os.environ, "PALESTRA_SERVER_KEY": KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    said, cmdline, child = done.stdout.splitlines()
    assert done.returncode == 7, done.stderr
    assert "'--api-key', '****']" in said
    assert "--api-key" not in cmdline
    assert child == "of __main__"
    assert KEY not in done.stdout


def test_a_server_that_is_told_to_end_is_ended(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    supervisor = tmp_path / "supervisor.pyz"
    supervisor.write_bytes(supervisor_zip())
    process = subprocess.Popen(
        [sys.executable, supervisor, "--keyed", "sleeps"],
        cwd=tmp_path,
        env={**os.environ, "PALESTRA_SERVER_KEY": KEY},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"

    process.terminate()

    assert process.wait(20) == 143
    process.stdout.close()


def test_a_key_that_comes_in_pieces_is_masked() -> None:
    target = io.BytesIO()
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb", buffering=0) as feed:
        for piece in (b"a 0123", b"456789abcdef0123456789abcdef b ", KEY.encode(), b" 012345"):
            feed.write(piece)
            time.sleep(0)
        feed.close()
        copy_masked(source, target, KEY.encode())

    assert target.getvalue() == b"a **** b **** 012345"


def test_an_sglang_that_cannot_be_given_its_key_is_refused() -> None:
    asked = options(**{**HOSTED, "server_type": "sglang"}, server_entrypoint="sglang serve")

    with pytest.raises(ConfigError, match="PYTHON -m MODULE"):
        planned(asked)
