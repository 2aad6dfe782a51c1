"""`ServerClient` as suites of the field make, copy and replace it."""

from unittest.mock import AsyncMock, MagicMock

import pytest
from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ValidationError

from palestra.compat.nemo_gym.config_types import BaseServerConfig
from palestra.compat.nemo_gym.server_utils import ServerClient

TREE = {"math": {"resources_servers": {"math": {"host": "127.0.0.1", "port": 1}}}}


def made() -> ServerClient:
    return ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=11000),
        global_config_dict=OmegaConf.create(TREE),
    )


def test_a_client_is_a_model_of_its_two_fields() -> None:
    client = made()

    assert issubclass(ServerClient, BaseModel)
    assert set(ServerClient.model_fields) == {"head_server_config", "global_config_dict"}
    assert client.head_server_config.port == 11000
    assert client.global_config_dict["math"] == TREE["math"]


def test_a_copy_of_a_client_may_hold_another_configuration() -> None:
    client = made()

    other = client.model_copy(update={"global_config_dict": DictConfig({})})

    assert other.global_config_dict == {}
    assert client.global_config_dict["math"] == TREE["math"]


def test_a_client_without_its_fields_is_refused() -> None:
    with pytest.raises(ValidationError, match="global_config_dict"):
        ServerClient(head_server_config=BaseServerConfig())  # type: ignore[call-arg]


def test_a_mock_of_a_client_is_a_client() -> None:
    class Holder(BaseModel):
        client: ServerClient

    mock = MagicMock(spec=ServerClient)

    assert Holder(client=mock).client is mock
    assert isinstance(mock.post, AsyncMock)
