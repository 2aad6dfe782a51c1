"""Rows against what the servers publish, before the first rollout."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, model_validator
from scripted_runs import AGENT, settings, task, write_rows

from palestra.errors import ConfigError, InfraError, InputDataError
from palestra.rollouts import AgentRoute, check_rows, plan
from palestra.rollouts.row_checks import published_document
from palestra.schema import (
    Response,
    ResponseCreateParams,
    RunRequest,
    VerifyRequest,
    VerifyResponse,
    WireModel,
)
from palestra.server import (
    Episode,
    Opening,
    ResourcesServer,
    ResourcesServerConfig,
    Session,
    Step,
    TurnsServer,
)
from palestra.server.published import published_schema
from palestra.transport import HttpClient, ServerClient, Target


class Question(VerifyRequest):
    """What the environment of these tests needs of a row."""

    expected_answer: str
    points: int = 1
    kind: Annotated[str, BeforeValidator(str)] = ""


class Quiz(ResourcesServer):
    """An environment with a typed row."""

    async def verify(self, body: Question) -> VerifyResponse:
        return self.reply(body, 1.0)


def checked(
    folder: Path,
    *rows: Any,
    server: type[ResourcesServer] = Quiz,
    environments: tuple[str, ...] = ("quiz",),
    forwards: bool = True,
    agent: str = "",
) -> None:
    """Plan a run over `rows`, and hold them to what the environment publishes."""
    write_rows(folder / "tasks.jsonl", rows)
    planned = plan(settings(folder), agents={AGENT}, semantics={}, version="1")
    targets: dict[str, Target] = {}
    client = ServerClient(targets, HttpClient())
    quiz = server(config=ResourcesServerConfig(name="quiz"), server_client=client)
    for name in environments:
        targets[name] = Target(name, "resources_servers", local=quiz)
    targets[AGENT] = Target(AGENT, "responses_api_agents", local=quiz)
    asyncio.run(check_rows(planned, client, [AgentRoute(AGENT, environments, forwards, agent)]))


def refused(folder: Path, *rows: Any, **how: Any) -> str:
    with pytest.raises(InputDataError) as refusal:
        checked(folder, *rows, **how)
    return refusal.value.message


def test_rows_that_fit_pass(tmp_path: Path) -> None:
    checked(tmp_path, task(1, expected_answer="4"), task(2, expected_answer="5", points=3))


def test_every_row_that_the_verifier_would_reject_is_named(tmp_path: Path) -> None:
    message = refused(
        tmp_path, task(1), task(2, expected_answer="4"), task(3), task(4, expected_answer=["4"])
    )

    assert "tasks.jsonl: 3 rows cannot be used" in message
    assert 'lines 1, 3: /: "expected_answer" is a required property' in message
    assert "line 4: /expected_answer" in message
    assert "(required by quiz/verify)" in message


def test_scalars_pass_as_each_other_as_they_do_in_the_request_model(tmp_path: Path) -> None:
    checked(tmp_path, task(1, expected_answer="4", points="3"))


def test_a_text_that_is_no_number_is_found_before_the_run(tmp_path: Path) -> None:
    message = refused(tmp_path, task(1, expected_answer="4", points="three"))

    assert 'line 1: /points: the value is not a "whole number" (required by quiz/verify)' in message


def test_a_parameter_that_the_verifier_rejects_is_found_before_the_run(tmp_path: Path) -> None:
    class Params(ResponseCreateParams):
        model_config = ConfigDict(extra="forbid")

    class Strict(Question):
        responses_create_params: Params

    class StrictQuiz(ResourcesServer):
        async def verify(self, body: Strict) -> VerifyResponse:
            return self.reply(body, 1.0)

    row = task(1, expected_answer="4")
    row["responses_create_params"]["instructions_2"] = "Be brief."
    checked(tmp_path, row)
    message = refused(tmp_path, row, server=StrictQuiz)

    assert "line 1: /responses_create_params: " in message
    assert "'instructions_2'" in message
    assert "did you mean 'instructions'?" in message
    assert "(required by quiz/verify)" in message


def test_an_agent_that_may_add_fields_answers_for_those_that_are_missing(tmp_path: Path) -> None:
    checked(tmp_path, task(1), forwards=False)

    assert "line 2: /expected_answer" in refused(
        tmp_path, task(1), task(2, expected_answer=["4"]), forwards=False
    )


def test_of_several_environments_none_is_owed_every_field(tmp_path: Path) -> None:
    checked(tmp_path, task(1), environments=("quiz", "other"))

    message = refused(tmp_path, task(1, expected_answer=["4"]), environments=("quiz", "other"))
    assert "/expected_answer" in message


def test_a_field_that_changes_its_input_is_left_to_the_server(tmp_path: Path) -> None:
    checked(tmp_path, task(1, expected_answer="4", kind=["any", "shape"]))


def test_a_model_that_reshapes_its_input_is_left_to_the_server(tmp_path: Path) -> None:
    class Reshaping(VerifyRequest):
        expected_answer: str

        @model_validator(mode="before")
        @classmethod
        def _reshape(cls, data: dict[str, Any]) -> dict[str, Any]:
            return {**data, "expected_answer": "made"}

    class Lenient(ResourcesServer):
        async def verify(self, body: Reshaping) -> VerifyResponse:
            return self.reply(body, 1.0)

    checked(tmp_path, task(1), server=Lenient)


def test_a_field_of_several_names_is_marked() -> None:
    class Named(RunRequest):
        answer: str = Field(validation_alias=AliasChoices("answer", "solution"))
        plain: str

    properties = published_schema(Named)["properties"]

    assert properties["answer"]["x-palestra-transforms"] is True
    assert "x-palestra-transforms" not in properties["plain"]


class SlowClient:
    """A client of one server, which answers after `after_s` seconds."""

    def __init__(self, after_s: float) -> None:
        self.targets = {"quiz": None}
        self.requests = 0
        self._after_s = after_s

    async def get(self, *_: Any, **__: Any) -> Any:
        self.requests += 1
        await asyncio.sleep(self._after_s)
        raise InfraError("no answer")


@pytest.mark.parametrize(("answers_after_s", "lines"), [(0.2, 1), (0.0, 0)])
def test_a_server_whose_schema_is_waited_for_is_named(
    answers_after_s: float, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    client: Any = SlowClient(answers_after_s)

    assert asyncio.run(published_document(client, "quiz", notice_after_s=0.05)) == {}
    assert len(caplog.messages) == lines
    assert all("waiting for quiz" in message for message in caplog.messages)


def test_a_server_that_does_not_answer_is_waited_for_once(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    planned = plan(settings(tmp_path), agents={AGENT}, semantics={}, version="1")
    route = AgentRoute(AGENT, ("quiz",), is_shipped=True, implementation="simple_agent")
    client: Any = SlowClient(0.0)

    asyncio.run(check_rows(planned, client, [route]))

    assert client.requests == 1


class Game(TurnsServer):
    """An environment that takes turns."""

    async def reset(self, body: WireModel, session: Session) -> Opening:
        del body
        self.begin(session, None)
        return Opening()

    async def answer(self, turn: Response, episode: Episode) -> Step:
        raise NotImplementedError


class Replayed(Game):
    """It scores a stored episode from its row."""

    async def rescored(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


@pytest.mark.parametrize("agent", ["simple_agent", "mcp_agent"])
def test_an_agent_that_takes_no_turns_is_refused_for_an_environment_that_does(
    tmp_path: Path, agent: str
) -> None:
    with pytest.raises(ConfigError, match="quiz plays episodes") as refusal:
        checked(tmp_path, task(1), server=Game, agent=agent)

    assert f"gymnasium_agent in place of {agent}" in refusal.value.hint


@pytest.mark.parametrize(
    ("server", "agent", "forwards"),
    [
        (Game, "gymnasium_agent", True),
        (Game, "simple_agent", False),
        (Replayed, "simple_agent", True),
        (Quiz, "simple_agent", True),
    ],
    ids=["plays", "is the author's own", "scores rows", "takes no turns"],
)
def test_an_agent_that_may_take_turns_is_not_refused(
    tmp_path: Path, server: type[ResourcesServer], agent: str, forwards: bool
) -> None:
    row = task(1, expected_answer="4")

    checked(tmp_path, row, server=server, agent=agent, forwards=forwards)


def test_an_agent_without_rows_is_not_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "tasks.jsonl", [task(1)])
    planned = plan(settings(tmp_path), agents={AGENT}, semantics={}, version="1")
    client = ServerClient({}, HttpClient())
    game = Game(config=ResourcesServerConfig(name="game"), server_client=client)
    targets = {"game": Target("game", "resources_servers", local=game)}
    other = AgentRoute("idle", ("game",), is_shipped=True, implementation="simple_agent")

    asyncio.run(check_rows(planned, ServerClient(targets, HttpClient()), [other]))
