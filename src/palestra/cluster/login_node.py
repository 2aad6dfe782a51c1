"""A cluster's login node, reached by OpenSSH's own client: run a command there, send files there.

One connection is shared by all commands (ControlMaster), so a user who has to type a password or a
code does so once. Secrets go through standard input, never through a command line.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.cluster.configs import SshSettings
from palestra.cluster.executors import ClusterUnreachable
from palestra.errors import ConfigError
from palestra.system import Finished, end_group, run, start

CONNECT_S: Final = 20
"""The limit in seconds for one connection."""
ALIVE_S: Final = 15
"""The seconds between two signs of life. After four missing ones, the connection is given up."""
SSH_FAILED: Final = 255
"""The exit code of `ssh` when it could not connect. Other codes are those of the command."""
NOT_FOUND: Final = 127
_HOST_KEY_CHANGED: Final = "REMOTE HOST IDENTIFICATION HAS CHANGED"
_UNKNOWN_HOST: Final = "Host key verification failed"


@dataclass(frozen=True, slots=True)
class LoginNode:
    """Runs commands on a login node. `timeout_s`: the limit of each, except for `palestra`."""

    settings: SshSettings
    timeout_s: float = 60.0

    def run(self, script: str, *, data: bytes = b"") -> Finished:
        """Run a line of sh with `data` as input. Raises as `check` does, but for the line's own exit
        code.
        """
        try:
            finished = run([*self.argv, script], timeout_s=self.timeout_s, data=data)
        except FileNotFoundError:
            raise _no_client() from None
        except TimeoutError as error:
            raise ClusterUnreachable(
                f"{self.settings.host} gave no answer within {self.timeout_s:g} s",
                hint="nothing is known about the jobs: try again, or raise command_timeout_s",
            ) from error
        self.check(finished.code, finished.complaint)
        return finished

    def palestra(
        self,
        words: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str] | None = None,
        captured: bool = False,
        on_line: Callable[[bytes], None] | None = None,
    ) -> Finished:
        """Run a command of Palestra in `folder` to its end. Raises as `run` does.

        `environment`: more variables of the command. They reach it through standard input.
        `captured`: return its output, instead of passing it on while the command runs. `on_line`:
        called with each line of its output, which is not passed on either.
        """
        self.run("true")  # here `ssh` can be asked why it failed: its errors are not passed on
        program = shlex.split(self.settings.palestra)
        exports = "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in (environment or {}).items()
        )
        script = (
            f"{exports}cd {shlex.quote(folder)} || exit 1\nexec {shlex.join([*program, *words])}\n"
        )
        sys.stdout.flush()
        try:
            argv = [*self.argv, "sh", "-s"]
            finished = (
                run(argv, timeout_s=None, data=script.encode(), inherits_output=not captured)
                if on_line is None
                else _run_with_lines(argv, script.encode(), on_line)
            )
        except FileNotFoundError:
            raise _no_client() from None
        if finished.code == SSH_FAILED:
            raise ClusterUnreachable(
                f"the connection to {self.settings.host} ended {finished.complaint}".rstrip(),
                hint="what was submitted goes on: ask for its status",
            )
        return finished

    @property
    def argv(self) -> list[str]:
        """The command line of `ssh` up to the host."""
        settings = self.settings
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": str(CONNECT_S),
            "ServerAliveInterval": str(ALIVE_S),
            "ServerAliveCountMax": "4",
            "ControlMaster": "auto",
            "ControlPath": str(_control_folder() / "%C"),
            "ControlPersist": "60",
        }
        # Of a setting that is given twice, ssh takes the first.
        texts = (*settings.options, *(f"{name}={value}" for name, value in options.items()))
        return ["ssh", "-T", *_ssh_words(settings, texts)]

    @property
    def by_hand(self) -> str:
        """The command that logs in by hand."""
        return shlex.join(["ssh", *_ssh_words(self.settings, self.settings.options)])

    def check(self, code: int, complaint: str) -> None:
        """Raise ConfigError: the host is not the one that is known, or does not let the user in.

        Raises ClusterUnreachable: there is no connection.
        """
        if code != SSH_FAILED:
            return
        host = self.settings.host
        if _HOST_KEY_CHANGED in complaint:
            raise ConfigError(
                f"the host key of {host} is not the one that is known: another machine may answer",
                hint="ask the site; if the key was renewed, forget the old one: "
                + self._forgetting(complaint),
            )
        last_line = (complaint.splitlines() or ["ssh failed"])[-1]
        if _UNKNOWN_HOST in complaint:
            raise ConfigError(
                f"{host}: {last_line}",
                hint=f"connect once by hand, to accept its key: {self.by_hand}",
            )
        if "Permission denied" in complaint:
            by_hand = shlex.join(part for part in self.argv if part != "BatchMode=yes")
            raise ConfigError(
                f"{host}: {last_line}",
                hint="log in once by hand, then run the command again within a minute; it shares "
                f"that connection: {by_hand.replace('-o -o', '-o')}",
            )
        raise ClusterUnreachable(
            f"{host}: {last_line}", hint="nothing is known about the jobs: try again later"
        )

    def _forgetting(self, complaint: str) -> str:
        """Return the command that removes an old host key: as `ssh` names it, where it does."""
        lines = (line.strip() for line in complaint.splitlines())
        port, host = self.settings.port, self.settings.host
        address = f"[{host}]:{port}" if port not in {None, 22} else host
        ours = f"ssh-keygen -R {shlex.quote(address)}"
        return next((line for line in lines if line.startswith("ssh-keygen -")), ours)


def _run_with_lines(argv: Sequence[str], data: bytes, on_line: Callable[[bytes], None]) -> Finished:
    """Run a command to its end, and call `on_line` with each line of its output as it comes.

    `data`: its input. Its errors are passed on. Whatever `on_line` raises ends the command.
    """
    with tempfile.TemporaryFile() as stdin:
        stdin.write(data)
        stdin.seek(0)
        process = start(argv, stdin=stdin, stdout=subprocess.PIPE)
    with process:
        try:
            for line in process.stdout or ():
                on_line(line)
            return Finished(process.wait(), b"", b"")
        except BaseException:
            end_group(process.pid)
            raise


def _ssh_words(settings: SshSettings, options: Sequence[str]) -> list[str]:
    """Return the arguments of `ssh` that reach the host with these options."""
    words = [word for text in options for word in ("-o", text)]
    for flag, value in (
        ("-l", settings.user),
        ("-p", settings.port),
        ("-i", settings.identity),
    ):
        words += [flag, str(value)] if value is not None else []
    return [*words, "--", settings.host]


def _no_client() -> ConfigError:
    return ConfigError(
        "the command ssh does not exist on this machine", hint="install OpenSSH's client"
    )


def _control_folder() -> Path:
    """Return the folder of the shared connections. The paths of sockets must be short."""
    folder = Path(tempfile.gettempdir()) / f"palestra-ssh-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ConfigError(
            f"{folder} belongs to another user", hint="set TMPDIR to a folder of yours"
        )
    return folder
