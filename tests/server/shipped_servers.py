"""Every server that we ship, built as its config says, and the others of our HTTP apps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from palestra.config import PACKAGE_ROOT, SERVER_TREES, config_from_tree, load_config
from palestra.fleet import build_server, load_server_class, server_client
from palestra.fleet.head import head_app
from palestra.fleet.runfile import RunFile
from palestra.resources_servers.environment_file.app import (
    EnvironmentFileConfig,
    EnvironmentFileServer,
)
from palestra.sandbox import Sandbox, SandboxSettings
from palestra.sandbox.service import SandboxService
from palestra.server import Server
from palestra.transport import ASGIApp, ServerClient, call_asgi

ENDPOINT = (
    "++policy_base_url=http://127.0.0.1:9/v1",
    "++policy_api_key=none",
    "++policy_model_name=scripted",
    "++policy_provider=groq",
    "++policy_rollouts=recorded.jsonl",
)
KEY = "++policy_model.responses_api_models.inference_provider.api_key=none"
ONE_FILE = """
from palestra import environment

@environment(data=[{"question": "1 + 1?", "expected_answer": "2"}], prompt="{question}")
def verify(answer: str, expected_answer: str) -> float:
    return float(expected_answer == answer.strip())
"""


def configs() -> list[Path]:
    """The configs of our servers."""
    found = [
        path for tree in SERVER_TREES for path in PACKAGE_ROOT.glob(f"{tree}/*/configs/*.yaml")
    ]
    return sorted(found)


def servers_of(config: Path, client: ServerClient | None = None) -> Iterator[Server]:
    """The servers of one config."""
    own = [KEY] if config.stem == "inference_provider" else []
    loaded = load_config(
        overrides=[*ENDPOINT, *own], config_paths=[str(config)], required=(), use_env_yaml=False
    )
    for instance in loaded.instances.values():
        yield build_server(instance, client or server_client({}, {}))


def environment_file(path: Path, client: ServerClient | None = None) -> Server:
    """The server of an environment in one file, which is written to `path`."""
    path.write_text(ONE_FILE)
    return EnvironmentFileServer(
        config=EnvironmentFileConfig(name="one_file", path=path),
        server_client=client or server_client({}, {}),
    )


def head() -> ASGIApp:
    """A head server of an empty fleet."""
    run = RunFile(host="127.0.0.1", port=1, nonce="n", pid=1, started=0.0)
    return head_app(config_from_tree({}), run, list)


def sandbox_service(sandbox: Sandbox) -> SandboxService:
    """A sandbox service that ends a forgotten conversation soon."""
    return SandboxService(sandbox, lease_s=0.5, idle_s=0.5)


def unisolated_sandbox() -> Sandbox:
    """A sandbox without isolation, and with places for every conversation of a test."""
    return Sandbox(SandboxSettings(backend="process", at_once=64))


def folders(tree: str) -> set[str]:
    """The names of the servers of one tree."""
    return {path.parent.name for path in PACKAGE_ROOT.glob(f"{tree}/*/app.py")}


def bases(environment: str) -> set[str]:
    """The classes that an environment's server shares with those of other folders."""
    server_class = load_server_class(PACKAGE_ROOT / f"resources_servers/{environment}/app.py")
    shared = [
        base for base in server_class.__mro__ if base.__module__.startswith("palestra.server")
    ]
    return {base.__name__ for base in shared}


async def document_of(app: ASGIApp) -> dict[str, Any]:
    """The OpenAPI document that an app answers with."""
    reply = await call_asgi(app, "GET", "/openapi.json", headers={"host": "127.0.0.1"})
    assert reply.status == 200, reply.body
    document: dict[str, Any] = orjson.loads(reply.body)
    return document
