"""A fake of GitLab's model registry, which speaks MLflow's protocol in its own way, and the real
server of that protocol.

GitLab's way: a version is what the tag says, its files are those of a package, `source` and
`run_id` are not asked for.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faulty_http import FaultyHandler, FaultyState, Refusal, serving

TOKEN = "glpat-canary-77b1"
START_DEADLINE_S = 240


@dataclass
class FakeGitlab(FaultyState):
    """What the registry holds: models, their versions, the versions' files."""

    models: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """By the run of their version."""

    @property
    def uri(self) -> str:
        """`mlflow_tracking_uri`."""
        return f"{self.endpoint}/api/v4/projects/7/ml/mlflow"

    def put(self, name: str, version: str, files: dict[str, bytes]) -> None:
        """A version that is there already."""
        run = f"run-{len(self.files)}"
        tags = [{"key": "gitlab.version", "value": version}]
        made = {"name": name, "version": version, "run_id": run, "tags": tags}
        self.models.setdefault(name, {})[version] = made
        self.files[run] = dict(files)

    def file(self, name: str, version: str, artifact: str) -> bytes:
        """What is stored."""
        return self.files[self.models[name][version]["run_id"]][artifact]


@contextlib.contextmanager
def fake_gitlab() -> Iterator[FakeGitlab]:
    """A registry of one's own, on loopback."""
    gitlab = FakeGitlab()
    with serving(_Handler, gitlab):
        yield gitlab


class _Handler(FaultyHandler):
    state: FakeGitlab

    def _asked(self) -> dict[str, Any]:
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "401 Unauthorized")
        query = {name: values[0] for name, values in self._query.items()}
        return {**query, **json.loads(self._body or b"{}")}

    def _refuse(self, status: int, error: str, code: str) -> None:
        """As GitLab: the status stands in the text only."""
        if status == 401:
            quoted = f"{error}: {dict(self.headers.items())}"
            self.json_({"message": quoted}, status)
        else:
            super()._refuse(status, error, code)

    def _missing(self, what: str) -> None:
        told = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"no such {what}"}
        self.json_(told, 404)

    def create_model(self) -> None:
        name = self._asked()["name"]
        if name in self.state.models:
            self.json_({"error_code": "RESOURCE_ALREADY_EXISTS", "message": name}, 400)
            return
        self.state.models[name] = {}
        self.json_({"registered_model": {"name": name}})

    def get_model(self) -> None:
        name = self._asked()["name"]
        if name not in self.state.models:
            self._missing("model")
            return
        versions = list(self.state.models[name].values())
        self.json_({"registered_model": {"name": name, "latest_versions": versions[-1:]}})

    def search_models(self) -> None:
        self._asked()
        self.json_({"registered_models": [{"name": name} for name in self.state.models]})

    def delete_model(self) -> None:
        if self.state.models.pop(self._asked()["name"], None) is None:
            self._missing("model")
            return
        self.json_({})

    def create_version(self) -> None:
        asked = self._asked()
        tags = {tag["key"]: tag["value"] for tag in asked.get("tags", [])}
        version, run = tags["gitlab.version"], f"run-{len(self.state.files)}"
        made = {
            "name": asked["name"],
            "version": version,
            "run_id": run,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        self.state.models[asked["name"]][version] = made
        self.state.files[run] = {}
        self.json_({"model_version": made})

    def get_version(self) -> None:
        asked = self._asked()
        found = self.state.models.get(asked["name"], {}).get(asked["version"])
        if found is None:
            self._missing("version")
            return
        self.json_({"model_version": found})

    def get_run(self) -> None:
        run = self._asked()["run_id"]
        uri = f"{self.state.endpoint}/api/v4/projects/7/packages/ml_models/{run}/files/"
        self.json_({"run": {"info": {"run_id": run, "artifact_uri": uri}, "data": {}}})

    def put_file(self, run: str, name: str) -> None:
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "401 Unauthorized")
        self.state.files[run][name] = self._body
        self.json_({"message": "201 Created"}, 201)

    def get_file(self, run: str, name: str) -> None:
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            # As GitLab does for pages: to where one logs in, with status 200.
            page = b"<html>Sign in</html>"
            self._answer(200, page, {"Content-Type": "text/html; charset=utf-8"})
            return
        if name not in self.state.files[run]:
            raise Refusal(404, "404 Not Found")
        self.bytes_(self.state.files[run][name], {"Content-Type": "application/octet-stream"})


_API = "/api/v4/projects/7/ml/mlflow/api/2.0/mlflow"
_FILE = "/api/v4/projects/7/packages/ml_models/(?P<run>[^/]+)/files/(?P<name>.+)"
_Handler.routes = [
    (f"POST {_API}/registered-models/create", _Handler.create_model),
    (f"GET {_API}/registered-models/get", _Handler.get_model),
    (f"GET {_API}/registered-models/search", _Handler.search_models),
    (f"DELETE {_API}/registered-models/delete", _Handler.delete_model),
    (f"POST {_API}/model-versions/create", _Handler.create_version),
    (f"GET {_API}/model-versions/get", _Handler.get_version),
    (f"GET {_API}/runs/get", _Handler.get_run),
    (f"PUT {_FILE}", _Handler.put_file),
    (f"GET {_FILE}", _Handler.get_file),
]


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The address of a real `mlflow server`, with its data in `folder`."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", f"sqlite:///{folder}/registry.db", "--workers", "1"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={
                **os.environ,
                "MLFLOW_DISABLE_TELEMETRY": "true",
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, folder / "server.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(timeout=10)


def _wait_for(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())
