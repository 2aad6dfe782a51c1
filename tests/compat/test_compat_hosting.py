"""Servers of the field in our fleets: what they are given, and what becomes of their failures."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from hosted_apps import HEAD, JUDGE, RESPONSE, ROW, run

from palestra.compat.hosting import Lifespan
from palestra.errors import (
    CallError,
    CredentialsRejected,
    JudgeFailure,
    KnownCause,
    ModelError,
    ModelRejectedRow,
    RowError,
    VerifierError,
)
from palestra.fleet import Fleet, Lag, Watchdog
from palestra.schema import AggregateMetrics, Response, VerifyResponse
from palestra.server import NOT_ASKED, ask_endpoint
from palestra.system import Pulse, watched_by
from palestra.testing import EndpointError, scripted_endpoint
from palestra.transport import Activity, CallContext, calling


def test_names_of_ours_are_free_for_authors(tmp_path: Path) -> None:
    source = """
    class Free(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        tools: dict = {}
        _sessions: Any = None
        _token: Any = None

        def setup_webserver(self):
            app = super().setup_webserver()
            for tool in (self.start, self.stop, self.routes, self.name):
                app.post(f"/{tool.__name__}")(tool)
            return app

        async def start(self): return "started"
        async def stop(self): return "stopped"
        async def routes(self): return "routes"
        async def name(self): return "name"
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            return BaseVerifyResponse(**body.model_dump(), reward=1.0)
    """

    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("free")
        assert await peer.call_tool("stop", {}) == '"stopped"'
        assert (await peer.call("/verify", ROW, VerifyResponse)).reward == 1.0

    run(tmp_path, {"resources_servers/free": source}, check)


def test_settings_and_the_configuration_are_those_of_the_fleet(tmp_path: Path) -> None:
    source = """
    class Settled(SimpleResourcesServer):
        config: BaseResourcesServerConfig

        async def verify(self, body: BaseVerifyRequest) -> dict:
            own = get_first_server_config_dict(get_global_config_dict(), self.config.name)
            same = self.server_client.global_config_dict[self.config.name]
            return {**body.model_dump(), "reward": 1.0, "own": own.extra, "name": self.config.name,
                    "also": self.config.extra, "kind": list(same)[0], "domain": self.config.domain}
    """

    async def check(fleet: Fleet) -> None:
        found = await fleet.client.peer("settled").call("/verify", ROW, VerifyResponse)
        assert found.model_extra is not None
        told = {name: found.model_extra[name] for name in ("own", "also", "name", "domain", "kind")}
        assert told == {
            "own": 3,
            "also": 3,
            "name": "settled",
            "domain": "math",
            "kind": "resources_servers",
        }

    run(tmp_path, {"resources_servers/settled": source}, check, {"extra": 3, "domain": "math"})


def test_a_class_may_come_from_a_neighbour_and_stand_among_others(tmp_path: Path) -> None:
    source = """
    from neighbour import Served
    from resources_servers.many.neighbour import Helper
    class Other(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse: ...
    if __name__ == "__main__":
        Served.run_webserver()
    """
    neighbour = """
    class Helper: pass
    class Served(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            return BaseVerifyResponse(**body.model_dump(), reward=0.25)
    """

    async def check(fleet: Fleet) -> None:
        found = await fleet.client.peer("many").call("/verify", ROW, VerifyResponse)
        assert found.reward == 0.25

    run(tmp_path, {"resources_servers/many": source}, check, neighbour=neighbour)


BROKEN_TOOLS = """
class Broken(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self):
        app = super().setup_webserver()
        for tool in (self.lookup, self.crash, self.refuse):
            app.post(f"/{tool.__name__}")(tool)
        return app

    async def lookup(self, body: dict = Body()):
        return {"Rome": "sunny"}[body["city"]]

    async def crash(self):
        raise HTTPException(500, "no index")

    async def refuse(self):
        raise HTTPException(404, "no such file")

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=0.0)
"""


BROKEN_LINES = ('return {"Rome": "sunny"}[body["city"]]', 'raise HTTPException(500, "no index")')


@pytest.mark.parametrize("cookies", [None, {"other": "server"}], ids=["embedded", "over HTTP"])
def test_a_bug_of_a_tool_is_in_the_row(tmp_path: Path, cookies: dict[str, str] | None) -> None:
    async def check(fleet: Fleet) -> None:
        peer, sibling = (fleet.client.peer("broken", cookies=cookies) for _ in range(2))
        for tool in ("lookup", "crash", "refuse"):
            await peer.call_tool(tool, {"city": "Oslo"})
        await sibling.call_tool("lookup", {"city": "Rome"})
        verdict = await peer.call("/verify", ROW, VerifyResponse)

        failures = (verdict.model_extra or {})["tool_failures"]
        app = f"{tmp_path}/resources_servers/broken/app.py"
        source = (HEAD + BROKEN_TOOLS).splitlines()
        lines = [source.index(f"        {code}") + 1 for code in BROKEN_LINES]
        assert [failure.pop("at") for failure in failures] == [
            f"{app}:{line} in {name}" for line, name in zip(lines, ("lookup", "crash"), strict=True)
        ]
        assert failures == [
            {"tool": "lookup", "type": "KeyError", "message": "'Oslo'"},
            {"tool": "crash", "type": "HTTPException", "message": "500: no index"},
        ]
        for other in (peer, sibling):
            verdict = await other.call("/verify", ROW, VerifyResponse)
            assert "tool_failures" not in (verdict.model_extra or {})

    run(tmp_path, {"resources_servers/broken": BROKEN_TOOLS}, check)


@pytest.mark.parametrize("cookies", [None, {"other": "server"}], ids=["embedded", "over HTTP"])
def test_a_tool_that_the_row_offers_in_vain_is_in_the_row(
    tmp_path: Path, cookies: dict[str, str] | None
) -> None:
    offer = {"type": "function", "name": "lookupp", "parameters": {"type": "object"}}
    row = {**ROW, "responses_create_params": {"input": "q", "tools": [offer]}}

    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("broken", cookies=cookies)
        for name in ("lookupp", "made_up"):
            await peer.call_tool(name, {"city": "Oslo"})
        verdict = await peer.call("/verify", row, VerifyResponse)

        [failure] = (verdict.model_extra or {})["tool_failures"]
        assert (failure["tool"], failure["type"]) == ("lookupp", "UnknownTool")
        assert "did you mean 'lookup'?" in failure["message"]

    run(tmp_path, {"resources_servers/broken": BROKEN_TOOLS}, check)


READING_AGENT = """
class Reading(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...
    async def run(self, body: BaseRunRequest) -> dict:
        call = {"server_name": "broken", "url_path": "/lookup", "json": {"city": "Oslo"}}
        replies = [await self.server_client.post(**call, **how) for how in ({}, {"headers": {"x": "y"}})]
        texts = [(await reply.content.read()).decode() for reply in replies]
        try:
            await raise_for_status(replies[0])
        except Exception as error:
            return {"texts": texts, "traceback": error.failure.evidence.traceback}
"""


def test_what_an_agent_reads_of_a_broken_tool_is_what_a_model_may_read(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        result = await (await fleet.client.post("reading", "/run", json=ROW)).json()
        document = await (await fleet.client.post("broken", "/lookup", json={"city": "x"})).json()

        assert result["texts"] == ["""{"error":"KeyError: 'Oslo'"}"""] * 2
        assert "app.py" in result["traceback"]
        assert "app.py" in document["error"]["traceback"]

    run(
        tmp_path,
        {"resources_servers/broken": BROKEN_TOOLS, "responses_api_agents/reading": READING_AGENT},
        check,
    )


FAILING = """
class Failing(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/missing")(self.missing)
        return app

    async def missing(self, body: dict = Body()):
        raise HTTPException(404, "no such file")

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        how = body.responses_create_params.input
        if how == "judge":
            await call_judge(self.server_client, "judge", input="verdict?")
        if how == "verdict":
            raise JudgeError("no verdict in it")
        if how == "relay":
            await raise_for_status(await self.server_client.post("judge", "/v1/responses", json={"input": "x"}))
        raise KeyError(how)
"""


@pytest.mark.parametrize(
    ("asked", "kind", "told"),
    [
        ("judge", JudgeFailure, "the endpoint is gone"),
        ("relay", JudgeFailure, "the endpoint is gone"),
        ("verdict", JudgeFailure, "no verdict in it"),
        ("bug", VerifierError, "KeyError"),
    ],
)
def test_a_failure_says_whose_it_was(
    tmp_path: Path, asked: str, kind: type[CallError], told: str
) -> None:
    async def check(fleet: Fleet) -> None:
        row = {**ROW, "responses_create_params": {"input": asked}}
        with pytest.raises(kind, match=told):
            await fleet.client.peer("failing").call("/verify", row, VerifyResponse)

    run(
        tmp_path,
        {"resources_servers/failing": FAILING, "responses_api_models/judge": JUDGE},
        check,
    )


NO_REWARDS = """
class Unsure(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        if body.responses_create_params.input == "nan":
            return BaseVerifyResponse(**body.model_dump(), reward=float("nan"))
        if body.responses_create_params.input == "none":
            return None
        if body.responses_create_params.input == "dict":
            return body.model_dump()
        if body.responses_create_params.input == "number":
            return 1.0
        if body.responses_create_params.input == "pair":
            return 1.0, "good"
        if body.responses_create_params.input == "reward":
            return {"reward": 1.0}
        if body.responses_create_params.input == "word":
            return {**body.model_dump(), "reward": "good"}
        if body.responses_create_params.input == "refuses":
            raise HTTPException(422, "my own 422")
        return BaseVerifyResponse(**body.model_dump())
"""


@pytest.mark.parametrize("cookies", [None, {"other": "server"}], ids=["embedded", "over HTTP"])
@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("nan", "/verify returned nan, which is not a reward"),
        ("none", "unsure/verify returned None, expected BaseVerifyResponse"),
        ("forgets", "BaseVerifyResponse rejects /reward: Field required"),
        ("dict", "unsure/verify returned a dict without reward ({"),
        ("number", "unsure/verify returned a float (1.0), expected BaseVerifyResponse"),
        ("pair", "unsure/verify returned a tuple ((1.0, 'good')), expected BaseVerifyResponse"),
        ("reward", "returned a dict without responses_create_params, response ({'reward': 1.0})"),
        ("word", "unsure/verify returned the reward 'good' (str), which is no number"),
        ("refuses", "unsure/verify answered 422: my own 422"),
    ],
)
def test_a_verifier_without_a_reward_is_quoted_with_the_reason(
    tmp_path: Path, question: str, reason: str, cookies: dict[str, str] | None
) -> None:
    async def check(fleet: Fleet) -> None:
        row = {**ROW, "responses_create_params": {"input": question}}
        with pytest.raises(VerifierError) as failure:
            await fleet.client.peer("unsure", cookies=cookies).call("/verify", row, VerifyResponse)
        assert reason in failure.value.message
        assert failure.value.evidence.traceback.endswith(" in verify")

    run(tmp_path, {"resources_servers/unsure": NO_REWARDS}, check)


FILLED_IN = """
from pydantic import model_validator

class Filled(BaseVerifyResponse):
    @model_validator(mode="before")
    @classmethod
    def fill(cls, fields):
        return {"reward": 0.5, **fields} if isinstance(fields, dict) else fields

class Filling(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    async def verify(self, body: BaseVerifyRequest) -> Filled:
        return body.model_dump()
"""


def test_a_response_model_may_fill_in_the_reward_of_a_dict(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        result = await fleet.client.peer("filling").call("/verify", ROW, VerifyResponse)
        assert result.reward == 0.5

    run(tmp_path, {"resources_servers/filling": FILLED_IN}, check)


def test_bad_bodies_and_refusals_of_tools_are_told(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        with pytest.raises(RowError, match="responses_create_params"):
            await fleet.client.peer("failing").call(
                "/verify", {"response": RESPONSE}, VerifyResponse
            )
        said = await fleet.client.peer("failing").call_tool("missing", {})
        assert said == '{"detail":"no such file"}'

    run(tmp_path, {"resources_servers/failing": FAILING}, check)


def test_a_model_server_fails_as_one_and_speaks_messages(tmp_path: Path) -> None:
    good = """
    class Good(SimpleResponsesAPIModel):
        config: BaseResponsesAPIModelConfig
        async def responses(self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
            item = NeMoGymResponseOutputMessage(content=[NeMoGymResponseOutputText(text=body.input[0].content[0].text)])
            return NeMoGymResponse(id="r", created_at=0, model="good", output=[item])
    """

    async def check(fleet: Fleet) -> None:
        with pytest.raises(ModelError, match="gone"):
            await fleet.client.peer("judge").call("/v1/responses", {"input": "x"}, Response)
        asked = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
        reply = await fleet.client.post("good", "/v1/messages", json=asked)
        assert (await reply.json())["content"][0]["text"] == "hi"

    run(
        tmp_path,
        {"responses_api_models/judge": JUDGE, "responses_api_models/good": good},
        check,
    )


def test_an_agent_keeps_its_session_by_the_cookies_of_the_last_answer(tmp_path: Path) -> None:
    environment = """
    class Env(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        seen: list = []
        def setup_webserver(self):
            app = super().setup_webserver()
            app.post("/look")(self.look)
            return app
        async def look(self, request: Request):
            self.seen.append(request.session[SESSION_ID_KEY])
            return {"seen": len(set(self.seen))}
        async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
            same = set(self.seen) == {request.session[SESSION_ID_KEY]}
            return BaseVerifyResponse(**body.model_dump(), reward=float(same))
    """
    agent = """
    class Agent(SimpleResponsesAPIAgent):
        config: BaseResponsesAPIAgentConfig
        async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...
        async def run(self, request: Request, body: BaseRunRequest) -> BaseVerifyResponse:
            row = body.model_dump()
            reply = await self.server_client.post("env", "/seed_session", json=row, cookies=request.cookies)
            for _ in range(3):
                reply = await self.server_client.post("env", "/look", json={}, cookies=reply.cookies)
                await raise_for_status(reply)
            verify = {**row, "response": {"id": "r", "created_at": 0, "model": "m", "output": []}}
            reply = await self.server_client.post("env", "/verify", json=verify, cookies=reply.cookies)
            return BaseVerifyResponse.model_validate(await get_response_json(reply))
    """

    async def check(fleet: Fleet) -> None:
        found = await fleet.client.peer("agent").call("/run", ROW, VerifyResponse)
        assert found.reward == 1.0

    run(
        tmp_path, {"resources_servers/env": environment, "responses_api_agents/agent": agent}, check
    )


def test_a_rollout_awaits_the_verifier_and_not_the_model_that_answered_before(
    tmp_path: Path,
) -> None:
    model = """
    from palestra.transport import current_call
    class Model(SimpleResponsesAPIModel):
        config: BaseResponsesAPIModelConfig
        async def chat_completions(self, body: dict = Body()) -> dict: ...
        async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
            current_call().activity.now("model server", "the endpoint of model (http://x)")
            return NeMoGymResponse(id="r", created_at=0, model="m", object="response", output=[])
    """
    environment = """
    from palestra.transport import current_call
    class Env(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            same = current_call().activity.awaiting == "env /verify"
            return BaseVerifyResponse(**body.model_dump(), reward=float(same))
    """
    agent = """
    class Agent(SimpleResponsesAPIAgent):
        config: BaseResponsesAPIAgentConfig
        async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...
        async def run(self, request: Request, body: BaseRunRequest) -> BaseVerifyResponse:
            row = body.model_dump()
            params = row["responses_create_params"]
            reply = await self.server_client.post("model", "/v1/responses", json=params)
            verify = {**row, "response": await get_response_json(reply)}
            reply = await self.server_client.post("env", "/verify", json=verify)
            return BaseVerifyResponse.model_validate(await get_response_json(reply))
    """

    async def check(fleet: Fleet) -> None:
        with calling(CallContext(activity=Activity())):
            found = await fleet.client.peer("agent").call("/run", ROW, VerifyResponse)
        assert found.reward == 1.0

    apps = {
        "resources_servers/env": environment,
        "responses_api_agents/agent": agent,
        "responses_api_models/model": model,
    }
    run(tmp_path, apps, check)


@pytest.mark.parametrize("raised", ["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("middleware", [False, True])
@pytest.mark.parametrize(
    ("server", "path", "outcome"),
    [
        ("agent", "/run", "agent_error"),
        ("env", "/verify", "verifier_error"),
        ("env", "/seed_session", "environment_error"),
    ],
)
def test_a_server_that_calls_exit_fails_as_one_that_raises(
    tmp_path: Path, server: str, path: str, outcome: str, middleware: bool, raised: str
) -> None:
    setup = """
        def setup_webserver(self):
            app = super().setup_webserver()
            @app.middleware("http")
            async def pass_on(request, call_next):
                return await call_next(request)
            return app
    """
    environment = f"""
    class Env(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        {setup if middleware else ""}
        async def seed_session(self, body: BaseSeedSessionRequest) -> BaseSeedSessionResponse:
            raise {raised}(4)
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            raise {raised}(4)
    """
    agent = f"""
    class Agent(SimpleResponsesAPIAgent):
        config: BaseResponsesAPIAgentConfig
        async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse: ...
        async def run(self, request: Request, body: BaseRunRequest) -> BaseVerifyResponse:
            raise {raised}(4)
    """

    async def check(fleet: Fleet) -> None:
        with pytest.raises(CallError) as caught:
            await fleet.client.peer(server).call(path, ROW, VerifyResponse)
        assert caught.value.outcome == outcome
        assert f"{server}{path} raised {raised}: 4" in caught.value.message
        assert "app.py:" in caught.value.evidence.traceback

    run(
        tmp_path, {"resources_servers/env": environment, "responses_api_agents/agent": agent}, check
    )


def test_lifespans_run_and_metrics_are_aggregated(tmp_path: Path) -> None:
    source = """
    from contextlib import asynccontextmanager
    import anyio
    class Living(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        def setup_webserver(self):
            app = super().setup_webserver()
            @asynccontextmanager
            async def lifespan(app):
                async with anyio.create_task_group():
                    app.state.up = True
                    yield
            app.router.lifespan_context = lifespan
            return app
        async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
            return BaseVerifyResponse(**body.model_dump(), reward=float(request.app.state.up))
        def compute_metrics(self, tasks):
            return {"tasks": len(tasks)}
    """

    async def check(fleet: Fleet) -> None:
        peer = fleet.client.peer("living")
        assert (await peer.call("/verify", ROW, VerifyResponse)).reward == 1.0
        rows = [{"reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": n} for n in range(2)]
        found = await peer.call("/aggregate_metrics", {"verify_responses": rows}, AggregateMetrics)
        assert found.agent_metrics["tasks"] == 1

    run(tmp_path, {"resources_servers/living": source}, check)


def test_a_route_that_is_left_out_of_the_document_stays_out(tmp_path: Path) -> None:
    source = """
    class Hidden(SimpleResourcesServer):
        config: BaseResourcesServerConfig
        def setup_webserver(self):
            app = FastAPI()
            app.post("/verify", include_in_schema=False)(self.verify)
            app.post("/seed_session")(self.seed_session)
            return app
        async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
            return BaseVerifyResponse(**body.model_dump(), reward=1.0)
    """

    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.get("hidden", "/openapi.json")
        paths = (await reply.json())["paths"]
        assert "/verify" not in paths
        assert "/seed_session" in paths

    run(tmp_path, {"resources_servers/hidden": source}, check)


def test_a_lifespan_whose_start_was_cancelled_stops_in_order() -> None:
    events: list[str] = []

    async def check() -> None:
        entered = asyncio.Event()

        @contextlib.asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            entered.set()
            await asyncio.sleep(0)
            events.append("started")
            yield
            events.append("stopped")

        served = Lifespan(FastAPI(lifespan=lifespan))
        start = asyncio.create_task(served.start())
        await entered.wait()
        start.cancel()
        await served.stop()
        assert start.cancelled()

    asyncio.run(check())

    assert events == ["started", "stopped"]


def test_a_model_server_says_that_its_endpoint_is_not_asked_and_what_to_do(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        answer = await ask_endpoint(fleet.client, "judge")
        assert answer.text == NOT_ASKED
        assert "not asked before the first rollout" in answer.text
        assert "nothing to do" in answer.text

    run(tmp_path, {"responses_api_models/judge": JUDGE}, check)


def test_an_unknown_path_lists_the_endpoints_there_are(tmp_path: Path) -> None:
    async def check(fleet: Fleet) -> None:
        document = await (await fleet.client.post("judge", "/v1/response", json={})).json()
        endpoints = document["error"]["hint"].removeprefix("endpoints: ").split(", ")
        assert "POST /v1/responses" in endpoints
        assert all(endpoint.partition(" /")[1] for endpoint in endpoints)

    run(tmp_path, {"responses_api_models/judge": JUDGE}, check)


OWN_MODEL = """
class Model(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        client = NeMoGymAsyncOpenAI(base_url=self.config.base_url, api_key="none")
        answer = await client.create_response(model="tiny", input=body.input)
        return NeMoGymResponse.model_validate(answer)
"""


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "temperature must be below 2", ModelRejectedRow),
        (401, "Incorrect API key provided", CredentialsRejected),
        (400, "maximum context length is 10 tokens", ModelRejectedRow),
    ],
)
def test_a_refusal_that_a_model_server_does_not_catch_is_told_as_by_one_of_ours(
    tmp_path: Path, status: int, words: str, kind: type[CallError]
) -> None:
    async def check(fleet: Fleet) -> None:
        with pytest.raises(CallError) as caught:
            await fleet.client.peer("model").call("/v1/responses", {"input": "q"}, Response)
        assert isinstance(caught.value, kind)
        assert f"/v1/responses answered {status}" in caught.value.message
        assert words in caught.value.message
        assert len(endpoint.asked) == 1

    with scripted_endpoint(*[EndpointError(status, words)] * 3) as endpoint:
        settings = {"base_url": f"{endpoint.url}/v1"}
        run(tmp_path, {"responses_api_models/model": OWN_MODEL}, check, settings)


OWN_JUDGE = """
class Judged(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        client = NeMoGymAsyncOpenAI(base_url=self.config.base_url, api_key="none")
        await client.create_response(model="judge", input="Is it right?")
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)
"""


@pytest.mark.parametrize(
    ("status", "words", "kind", "cause"),
    [
        (401, "Incorrect API key provided", CredentialsRejected, KnownCause.KEY_REFUSED),
        (400, "temperature must be below 2", JudgeFailure, KnownCause.JUDGE_REFUSES),
        (400, "maximum context length is 10 tokens", JudgeFailure, KnownCause.JUDGE_REFUSES),
    ],
)
def test_a_refusal_of_a_judge_that_an_environment_asks_itself_is_the_judges_at_its_line(
    tmp_path: Path, status: int, words: str, kind: type[CallError], cause: KnownCause
) -> None:
    async def check(fleet: Fleet) -> None:
        with pytest.raises(CallError) as caught:
            await fleet.client.peer("judged").call("/verify", ROW, VerifyResponse)
        assert isinstance(caught.value, kind)
        assert cause in {caught.value.cause, caught.value.usual_cause}
        assert words in caught.value.message
        assert re.search(r"judged/app\.py:\d+ in verify", caught.value.evidence.traceback)

    with scripted_endpoint(*[EndpointError(status, words)] * 3) as endpoint:
        settings = {"base_url": f"{endpoint.url}/v1"}
        run(tmp_path, {"resources_servers/judged": OWN_JUDGE}, check, settings)


BLOCKING = """
class Blocking(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        __import__("time").sleep(0.8)
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)
"""


def test_the_server_whose_code_blocks_the_loop_is_named(tmp_path: Path) -> None:
    lags: list[Lag] = []
    pulse = Pulse.create()

    async def check(fleet: Fleet) -> None:
        with watched_by(pulse):
            async with Watchdog(lags.append, threshold_s=0.2):
                await fleet.client.peer("blocking").call("/verify", ROW, VerifyResponse)

    run(tmp_path, {"resources_servers/blocking": BLOCKING}, check)
    pulse.close()
    assert [lag.blamed.server for lag in lags if lag.blamed] == ["blocking"]
