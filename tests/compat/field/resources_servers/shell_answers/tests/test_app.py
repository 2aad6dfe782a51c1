from unittest.mock import AsyncMock, MagicMock, patch

import pytest

from nemo_gym.openai_utils import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputText,
)
from nemo_gym.sandbox import SandboxCreateError, SandboxExecResult, SandboxHandle, register_provider
from nemo_gym.server_utils import ServerClient
from resources_servers.shell_answers import app as shell_app
from resources_servers.shell_answers.app import (
    ShellAnswersResourcesServer,
    ShellAnswersResourcesServerConfig,
    ShellAnswersVerifyRequest,
)


class FakeProvider:
    name = "fake"

    def __init__(self, result: str = "42\n") -> None:
        self.result = result
        self.uploaded = []

    async def create(self, spec):
        return SandboxHandle(sandbox_id="1", provider_name="fake", raw=spec)

    async def upload_file(self, handle, source_path, target_path):
        self.uploaded.append(target_path)

    async def exec(self, handle, command, *, cwd=None, env=None, timeout_s=None, user=None):
        return SandboxExecResult(self.result, "", 0)

    async def close(self, handle):
        pass

    async def aclose(self):
        pass


register_provider("fake", FakeProvider, override=True)


def make_server(provider) -> ShellAnswersResourcesServer:
    return ShellAnswersResourcesServer(
        config=ShellAnswersResourcesServerConfig(
            host="0.0.0.0", port=8080, entrypoint="", name="", sandbox_provider=provider
        ),
        server_client=MagicMock(spec=ServerClient),
    )


def make_request(script: str) -> ShellAnswersVerifyRequest:
    return ShellAnswersVerifyRequest(
        responses_create_params=NeMoGymResponseCreateParamsNonStreaming(input="Print 6 times 7."),
        expected_output="42",
        response=NeMoGymResponse(
            id="resp",
            created_at=0.0,
            model="m",
            object="response",
            output=[
                NeMoGymResponseOutputMessage(
                    id="msg",
                    content=[
                        NeMoGymResponseOutputText(annotations=[], text=script, type="output_text")
                    ],
                    role="assistant",
                    status="completed",
                    type="message",
                )
            ],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        ),
    )


class TestApp:
    async def test_registered_provider(self) -> None:
        server = make_server({"fake": None, "default_metadata": {"team": "field"}})
        result = await server.verify(make_request("echo 42"))
        assert result.reward == 1.0
        assert result.sandbox_metadata == {"team": "field"}

    async def test_arguments_of_the_provider(self) -> None:
        result = await make_server({"fake": {"result": "41"}}).verify(make_request("echo 42"))
        assert (result.reward, result.stdout) == (0.0, "41")

    async def test_sandbox_that_cannot_be_made(self) -> None:
        with patch.object(shell_app.AsyncSandbox, "start", AsyncMock(side_effect=SandboxCreateError("full"))):
            result = await make_server({"fake": {}}).verify(make_request("echo 42"))
        assert (result.reward, result.sandbox_error) == (0.0, "full")

    @pytest.mark.parametrize(
        "script, reward", [("echo $((6 * 7))", 1.0), ("head -n 1 numbers.txt", 0.0), ("exit 3", 0.0)]
    )
    async def test_process_provider(self, script: str, reward: float) -> None:
        result = await make_server({"process": {}}).verify(make_request(script))
        assert result.sandbox_error is None
        assert result.reward == reward

    async def test_unknown_provider_config(self) -> None:
        with pytest.raises(ValueError):
            await make_server("no_such_config").verify(make_request("echo 42"))
