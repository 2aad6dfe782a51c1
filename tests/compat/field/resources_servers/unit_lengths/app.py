from field_lengths import to_metres

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)


class UnitLengthsResourcesServerConfig(BaseResourcesServerConfig):
    tolerance: float = 1e-9


class UnitLengthsRunRequest(BaseRunRequest):
    expected_length: str


class UnitLengthsVerifyRequest(UnitLengthsRunRequest, BaseVerifyRequest):
    pass


class UnitLengthsVerifyResponse(BaseVerifyResponse):
    expected_length: str
    expected_metres: float


class UnitLengthsResourcesServer(SimpleResourcesServer):
    config: UnitLengthsResourcesServerConfig

    async def verify(self, body: UnitLengthsVerifyRequest) -> UnitLengthsVerifyResponse:
        expected = to_metres(body.expected_length)
        try:
            answer = to_metres(body.response.output_text)
        except ValueError:
            answer = None
        same = answer is not None and abs(answer - expected) <= self.config.tolerance
        return UnitLengthsVerifyResponse(
            **body.model_dump(), reward=1.0 if same else 0.0, expected_metres=expected
        )


if __name__ == "__main__":
    UnitLengthsResourcesServer.run_webserver()
