"""`resources_servers.gymnasium`: the base class of environments that take turns with the model.

    class Guess(GymnasiumServer):
        async def reset(self, metadata, session_id=None):
            return "Guess my number.", {}

        async def step(self, action, metadata, session_id=None):
            right = extract_text(action) == metadata["number"]
            return "Again.", float(right), right, False, {}

`POST /reset` begins an episode, `POST /step` takes one turn of the model, and `/verify` answers the
sum of the rewards. A project that has its own `resources_servers/gymnasium` uses that.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from palestra.compat.nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from palestra.compat.openai_types.responses import NeMoGymResponse
from palestra.errors import status_for
from palestra.schema import CREATE_PARAMS, VERIFIES_EPISODES, JsonDict
from palestra.server import SESSION_ID_KEY, no_episode


class ResetRequest(BaseModel):
    """The task row that begins an episode."""

    model_config = ConfigDict(extra="allow")


class ResetResponse(BaseModel):
    """The beginning of an episode. `observation`: a user message, or None to add none."""

    observation: str | None = None
    info: JsonDict = Field(default_factory=dict)


class StepRequest(BaseModel):
    """One turn of the model, and perhaps the task row."""

    model_config = ConfigDict(extra="allow")

    response: NeMoGymResponse


class StepResponse(BaseModel):
    """What a turn leads to. `terminated`: the episode is at its own end; `truncated`: it is cut
    off.
    """

    observation: str | None = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: JsonDict = Field(default_factory=dict)


class GymnasiumVerifyRequest(BaseVerifyRequest):
    """The task row and the whole episode as one response."""

    model_config = ConfigDict(extra="allow")


class GymnasiumVerifyResponse(BaseVerifyResponse):
    """The result of an episode: the sum of its rewards, and its last step."""

    model_config = ConfigDict(extra="allow")

    terminated: bool = False
    truncated: bool = False
    info: JsonDict = Field(default_factory=dict)


@dataclass(slots=True)
class _Episode:
    metadata: JsonDict
    reward: float = 0.0
    last: StepResponse = field(default_factory=StepResponse)


class GymnasiumServer(SimpleResourcesServer):
    """The base class of such an environment. Subclass it and write `step`, and `reset` if an
    episode begins with an observation.
    """

    config: BaseResourcesServerConfig
    session_state: dict[str, Any] = Field(default_factory=dict)
    """Your state of each episode, by session id. It is dropped when the episode is verified."""

    _episodes: dict[str, _Episode] = PrivateAttr(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        """Return the app with `/reset` and `/step`, and the endpoints of every environment."""
        app = super().setup_webserver()
        app.post("/reset")(self._begin)
        app.post("/step")(self._take)
        kind = type(self)
        if kind.verify is GymnasiumServer.verify and kind.seed_session is _SEED_SESSION:
            for route in app.routes:
                if isinstance(route, APIRoute) and route.path == "/verify":
                    route.openapi_extra = {VERIFIES_EPISODES: True}
        return app

    async def reset(
        self, metadata: JsonDict, session_id: str | None = None
    ) -> tuple[str | None, JsonDict]:
        """Begin an episode and return its first observation and `info`.

        `metadata`: the row's fields, and those of its `verifier_metadata`.
        """
        del metadata, session_id
        return None, {}

    @abstractmethod
    async def step(
        self, action: NeMoGymResponse, metadata: JsonDict, session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, JsonDict]:
        """Take one turn of the model. Return observation, reward, terminated, truncated and `info`."""

    async def verify(  # type: ignore[override]  # the author's own may take the request too
        self, body: GymnasiumVerifyRequest, request: Request
    ) -> GymnasiumVerifyResponse:
        """Return the result of the session's episode, which ends. Answers 409 when it has none."""
        session_id = _session_id(request)
        episode = self._episodes.pop(session_id, None)
        self.session_state.pop(session_id, None)
        if episode is None:
            raise self._no_episode("/verify")
        fields = body.model_dump() | episode.last.model_dump(exclude={"observation"})
        return GymnasiumVerifyResponse.model_validate(fields | {"reward": episode.reward})

    async def _begin(self, request: Request, body: ResetRequest) -> ResetResponse:
        session_id = _session_id(request)
        episode = self._episodes[session_id] = _Episode(_metadata(body))
        observation, info = await self.reset(episode.metadata, session_id)
        return ResetResponse(observation=observation, info=info)

    async def _take(self, request: Request, body: StepRequest) -> StepResponse:
        session_id = _session_id(request)
        episode = self._episodes.get(session_id)
        if episode is None:
            raise self._no_episode("/step")
        observation, reward, terminated, truncated, info = await self.step(
            body.response, episode.metadata, session_id
        )
        episode.last = StepResponse(
            observation=observation,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info=info,
        )
        episode.reward += episode.last.reward
        return episode.last

    def _no_episode(self, path: str) -> Exception:
        failure = no_episode(self.config.name, path)
        # A bare app has no envelope for errors of a fleet.
        is_in_fleet = self.server_client.is_in_fleet is True
        return failure if is_in_fleet else HTTPException(status_for(failure), failure.message)


_SEED_SESSION: Final = GymnasiumServer.seed_session


def extract_text(response: NeMoGymResponse) -> str:
    """Return the text that the model wrote in this turn."""
    return response.output_text


def _metadata(body: ResetRequest) -> JsonDict:
    fields = {**(body.model_extra or {})}
    fields.pop(CREATE_PARAMS, None)
    verifier_metadata = fields.get("verifier_metadata")
    return fields | (verifier_metadata if isinstance(verifier_metadata, dict) else {})


def _session_id(request: Request) -> str:
    session_id: str = request.session[SESSION_ID_KEY]
    return session_id


EnvResetRequest = ResetRequest
EnvResetResponse = ResetResponse
EnvStepRequest = StepRequest
EnvStepResponse = StepResponse

__all__ = [
    "EnvResetRequest",
    "EnvResetResponse",
    "EnvStepRequest",
    "EnvStepResponse",
    "GymnasiumServer",
    "GymnasiumVerifyRequest",
    "GymnasiumVerifyResponse",
    "ResetRequest",
    "ResetResponse",
    "StepRequest",
    "StepResponse",
    "extract_text",
]
