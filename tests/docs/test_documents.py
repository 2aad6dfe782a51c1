"""What the documents say is true: links lead somewhere, and commands do what they say."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest
from documents import REPOSITORY, console_commands, documents, exit_code, files, links

import palestra
from forked_commands import ForkedCommands
from hub_fakes import WRITER, fake_hub
from registry_fakes import TOKEN as GITLAB_TOKEN
from registry_fakes import fake_gitlab

README = REPOSITORY / "README.md"
MODELS = REPOSITORY / "docs" / "topics" / "models.md"
TOKEN_IDS = REPOSITORY / "docs" / "topics" / "token-ids.md"
"""Its commands serve a model of the reader's with vLLM: `tests/vllm` runs them with a real one."""
DATA = REPOSITORY / "docs" / "how-to" / "data.md"
SHARING = REPOSITORY / "docs" / "how-to" / "sharing.md"
"""The commands of both meet a hub and a registry that are fakes of ours."""
GUIDES = [README, *sorted({*(REPOSITORY / "docs").rglob("*.md")} - {TOKEN_IDS})]
SHORT_ANSWERS = """
policy_model:
  responses_api_models:
    local_model:
      max_output_tokens_default: 24
"""
"""Of the README's reader, whose model would ramble for a minute: nobody looks at what it says."""
SCRIPTS = Path(sys.executable).parent
START_DEADLINE_S = 60
SERVING = ("ng_run", "palestra run", "palestra serve-rollouts", "gym env start")
READY = re.compile("servers ready!|rollout service ready")
IN_A_SHELL = set("|&;<>$`*?~#")
"""What of a command only a shell does."""


@pytest.mark.source
@pytest.mark.parametrize("path", documents(), ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_every_relative_link_of_a_document_leads_somewhere(path: Path) -> None:
    assert [str(target) for target in links(path) if not target.exists()] == []


def test_the_readme_shows_things_in_their_order() -> None:
    text = README.read_text()
    wanted = [
        "make demo",
        "# my_env.py",
        "ng_collect_rollouts",
        "## Where servers live",
        "## Where to go next",
    ]

    places = [text.index(word) for word in wanted]

    assert places == sorted(places)


@pytest.mark.source
def test_the_page_of_model_servers_names_each_of_them() -> None:
    folder = Path(palestra.__file__).parent / "responses_api_models"
    servers = {path.parent.parent.name for path in folder.glob("*/configs/*.yaml")}

    assert {path.parent.name for path in links(MODELS) if path.name == "README.md"} == servers
    assert all((folder / server / "README.md").exists() for server in servers)


@pytest.fixture(scope="module")
def readers(
    tmp_path_factory: pytest.TempPathFactory, commands: ForkedCommands | None
) -> Iterator["Readers"]:
    pytest.importorskip("xllamacpp", reason="the documents' model is the local one")
    with contextlib.ExitStack() as stack:
        yield Readers(tmp_path_factory.mktemp("readers"), stack, commands)


class Reader:
    """Someone who types a document's commands, in order, in an empty folder."""

    def __init__(
        self,
        folder: Path,
        document: Path,
        variables: Mapping[str, str],
        commands: ForkedCommands | None,
    ) -> None:
        self._folder = folder
        # The commands of the README are started, as they are by who reads it first.
        self._commands = None if document == README else commands
        self._variables = variables
        self._fleets: list[subprocess.Popen[str]] = []
        # A head port of their own, so that the commands stay word for word what they are.
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        own = SHORT_ANSWERS if document == README else ""
        (folder / "env.yaml").write_text(f"head_server:\n  port: {port}\n{own}")
        for name, text in files(document).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fleet in self._fleets:
            fleet.send_signal(signal.SIGINT)
            fleet.wait(timeout=10)

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end; a fleet is left running."""
        if command.startswith(SERVING):
            return self._start(command)
        word, *arguments = shlex.split(command)
        ours = word.startswith(("palestra", "ng_", "nemo_gym_")) and not IN_A_SHELL & {*command}
        if ours and self._commands is not None:
            environment = self._environment()
            return self._commands.run(
                word, arguments, cwd=self._folder, env=environment, timeout_s=600
            )
        folder = REPOSITORY if command.startswith("make") else self._folder
        return subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def _start(self, command: str) -> subprocess.CompletedProcess[str]:
        log = self._folder / "fleet.log"
        with log.open("w") as out:
            fleet = subprocess.Popen(
                ["bash", "-c", "exec " + command],
                cwd=self._folder,
                env=self._environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._fleets.append(fleet)
        deadline = time.monotonic() + START_DEADLINE_S
        while not READY.search(log.read_text()) and time.monotonic() < deadline:
            if fleet.poll() is not None:
                break
            time.sleep(0.1)
        return subprocess.CompletedProcess(command, fleet.poll() or 0, log.read_text(), "")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
            "PALESTRA_RUN_DIR": str(self._folder / "run-files"),
            **self._variables,
        }


class Readers:
    """One reader for each document."""

    def __init__(
        self, folder: Path, stack: contextlib.ExitStack, commands: ForkedCommands | None
    ) -> None:
        self._folder = folder
        self._commands = commands
        self._stack = stack
        self._readers: dict[Path, Reader] = {}

    def of(self, document: Path) -> Reader:
        if document not in self._readers:
            folder = self._folder / document.stem
            folder.mkdir()
            reader = Reader(folder, document, self._variables_for(document), self._commands)
            self._readers[document] = self._stack.enter_context(reader)
        return self._readers[document]

    def _variables_for(self, document: Path) -> dict[str, str]:
        """What the reader of this document has set."""
        if document not in {DATA, SHARING}:
            return {}
        gitlab = self._stack.enter_context(fake_gitlab())
        return {
            "HF_ENDPOINT": self._stack.enter_context(fake_hub()).endpoint,
            "HF_TOKEN": WRITER,
            "MLFLOW_TRACKING_URI": gitlab.uri,
            "MLFLOW_TRACKING_TOKEN": GITLAB_TOKEN,
        }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("document", "command"),
    [
        pytest.param(document, command, id=f"{document.stem}-{command}")
        for document in GUIDES
        for command in console_commands(document)
    ],
)
def test_a_documents_command_works_as_it_stands(
    readers: Readers, document: Path, command: str
) -> None:
    if command.startswith("make demo") and not (REPOSITORY / ".venv" / "installed").exists():
        pytest.skip("not run by make: installing would touch this checkout")

    line, code = exit_code(command)

    done = readers.of(document).types(line)

    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
