from typing import Any, Dict, Optional, Union

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.sandbox import (
    AsyncSandbox,
    SandboxCreateError,
    SandboxResources,
    SandboxSpec,
    resolve_provider_config,
    resolve_provider_metadata,
)


class ShellAnswersResourcesServerConfig(BaseResourcesServerConfig):
    sandbox_provider: Union[str, Dict[str, Any]]
    sandbox_spec: Dict[str, Any] = {}
    timeout_s: float = 20.0


class ShellAnswersRunRequest(BaseRunRequest):
    expected_output: str


class ShellAnswersVerifyRequest(ShellAnswersRunRequest, BaseVerifyRequest):
    pass


class ShellAnswersVerifyResponse(BaseVerifyResponse):
    expected_output: str
    stdout: Optional[str] = None
    return_code: Optional[int] = None
    sandbox_metadata: Dict[str, Any] = {}
    sandbox_error: Optional[str] = None


class ShellAnswersResourcesServer(SimpleResourcesServer):
    config: ShellAnswersResourcesServerConfig

    def _make_sandbox(self) -> AsyncSandbox:
        spec = {
            "files": {"numbers.txt": "17\n4\n"},
            "resources": SandboxResources(cpu=1, memory_mib=256),
            **self.config.sandbox_spec,
        }
        return AsyncSandbox(
            resolve_provider_config(self.config.sandbox_provider), SandboxSpec(**spec)
        )

    async def verify(self, body: ShellAnswersVerifyRequest) -> ShellAnswersVerifyResponse:
        fields = body.model_dump()
        metadata = resolve_provider_metadata(self.config.sandbox_provider)
        try:
            async with self._make_sandbox() as sandbox:
                result = await sandbox.exec(
                    body.response.output_text, timeout_s=self.config.timeout_s
                )
        except SandboxCreateError as e:
            return ShellAnswersVerifyResponse(**fields, reward=0.0, sandbox_error=str(e))
        same = result.return_code == 0 and (result.stdout or "").strip() == body.expected_output
        return ShellAnswersVerifyResponse(
            **fields,
            reward=1.0 if same else 0.0,
            stdout=result.stdout,
            return_code=result.return_code,
            sandbox_metadata=metadata,
        )


if __name__ == "__main__":
    ShellAnswersResourcesServer.run_webserver()
