"""Servers written against `nemo_gym`, alone: their app and a client, without a fleet."""

from typing import Any
from unittest.mock import MagicMock

from fastapi import FastAPI
from fastapi.testclient import TestClient

from palestra.compat.nemo_gym.server_utils import ServerClient

RESPONSE = {
    "id": "r",
    "created_at": 0,
    "model": "m",
    "object": "response",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
ROW = {"responses_create_params": {"input": "q"}, "response": RESPONSE}


def server_of(cls: Any, tree: dict[str, Any] | None = None, **settings: Any) -> Any:
    """An object of `cls` as the field's tests make it: with a mock as its client."""
    config = cls.model_fields["config"].annotation
    client = MagicMock(spec=ServerClient)
    if tree is not None:
        client.global_config_dict = tree
    values = {"host": "0.0.0.0", "port": 8080, "entrypoint": "", "name": "mine", **settings}
    return cls(config=config(**values), server_client=client)


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


def called(name: str) -> dict[str, str]:
    return {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}
