"""Who types the commands: a reader in a folder, with fakes of what the commands meet."""

import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hub_fakes import WRITER, FakeHub, fake_hub
from installed_wheel import Installation
from nemo_gym_page.command import Session
from palestra.config import PACKAGE_ROOT
from palestra.testing import ScriptedEndpoint, scripted_endpoint
from registry_fakes import TOKEN, FakeGitlab, fake_gitlab

ROWS = (PACKAGE_ROOT / "resources_servers/example_multi_step/data/example.jsonl").read_bytes()
HUB_REPO = "nvidia/Nemotron-RL-instruction_following"
FILES = ("train.jsonl", "validation.jsonl")
TIMEOUT_S = 120


class CommandFailed(Exception):
    """A command did not do what the page promises."""


@contextmanager
def reader(installation: Installation, session: Session) -> Iterator["Reader"]:
    """A reader with a folder, a hub, a registry and a model of their own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub, gitlab = stack.enter_context(fake_hub()), stack.enter_context(fake_gitlab())
        model = stack.enter_context(scripted_endpoint(*session.answers))
        yield Reader(installation, folder, hub, gitlab, model)


class Reader:
    """Someone who types commands in a folder with an env.yaml, and files to upload."""

    def __init__(
        self,
        installation: Installation,
        folder: Path,
        hub: FakeHub,
        gitlab: FakeGitlab,
        model: ScriptedEndpoint,
    ) -> None:
        self._work = folder / "work"
        self._work.mkdir()
        hub.put(HUB_REPO, {"instruction_following.jsonl": ROWS, "if_validation.jsonl": ROWS})
        gitlab.put("example_multi_step", "0.0.1", dict.fromkeys(FILES, ROWS))
        for name in FILES:
            (self._work / name).write_bytes(ROWS)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            head_port = sock.getsockname()[1]
        settings = {
            "policy_base_url": f"{model.url}/v1",
            "policy_api_key": "sk-1234567890",
            "policy_model_name": "scripted",
            "hf_token": WRITER,
            "mlflow_tracking_uri": gitlab.uri,
            "mlflow_tracking_token": TOKEN,
            "head_server": f"{{port: {head_port}}}",
        }
        lines = [f"{key}: {value}\n" for key, value in settings.items()]
        (self._work / "env.yaml").write_text("".join(lines))
        self._environment = {
            **installation.environment,
            "PALESTRA_RUN_DIR": str(folder),
            "PALESTRA_STATE_DIR": str(folder / "state"),
            "HF_ENDPOINT": hub.endpoint,
            "RAY_USAGE_STATS_ENABLED": "0",
            "COLUMNS": "120",
        }
        self.places = {f"{self._work.resolve()}/": "", hub.endpoint: "https://huggingface.co"}
        """What differs from run to run, and how the page has it."""

    def types(self, session: Session) -> list[str]:
        """What each command prints, after the servers' words where these have stopped."""
        if not session.servers:
            return [self._run(command.text) for command in session.commands]
        while_running = [c.text for c in session.commands if not c.when_stopped]
        when_stopped = [c.text for c in session.commands if c.when_stopped]
        with (self._work / "servers.log").open("w+") as log:
            # A shell of its own would keep Ctrl-C from the command that it runs.
            servers = subprocess.Popen(  # noqa: S603  # as `_run`
                ["/bin/bash", "-c", session.servers.replace("\nng_run", "\nexec ng_run")],
                cwd=self._work,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                self._run(f"ng_status +wait={TIMEOUT_S}")
                printed = [self._run(text) for text in while_running]
            finally:
                servers.send_signal(signal.SIGINT)
                servers.wait(TIMEOUT_S)
            log.seek(0)
            said = log.read()
        return [*printed, *(f"{said}{self._run(text)}" for text in when_stopped)]

    def _run(self, text: str) -> str:
        done = subprocess.run(  # noqa: S603  # the documents' own commands
            ["/bin/bash", "-c", text],
            cwd=self._work,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"{text}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout
