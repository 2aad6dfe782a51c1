"""Episodes: who says what when, and how they end."""

import asyncio
from typing import Any

import pytest
from scripted_fleet import ENVIRONMENT, MODEL, ScriptedModel, client_of, said, turn

from palestra.errors import CallError, VerifierError
from palestra.responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig
from palestra.schema import Response, RunRequest, VerifyResponse
from palestra.server import (
    Episode,
    ModelReference,
    ModelServerConfig,
    Opening,
    ResourcesReference,
    ResourcesServerConfig,
    Session,
    Step,
    TurnsServer,
)
from palestra.transport import HttpClient, ServerClient

ROW = {"responses_create_params": {"input": "Count to three."}, "last": 3}


class Counting(TurnsServer):
    """Counts along, one point a number."""

    async def reset(self, body: dict[str, Any], session: Session) -> Opening:
        self.begin(session, body["last"])
        return Opening(observation="Begin.")

    async def answer(self, turn: Response, episode: Episode) -> Step:
        said_now = episode.steps + 1
        right = turn.final_text == str(said_now)
        return Step(
            observation=f"{said_now}, and then?",
            reward=float("nan") if turn.final_text == "?" else float(right),
            terminated=said_now == episode.state,
            info={"at": said_now},
        )


def played(*turns: Response, **settings: Any) -> tuple[VerifyResponse, ScriptedModel]:
    unconnected = ServerClient({}, HttpClient())
    environment = Counting(
        config=ResourcesServerConfig(name=ENVIRONMENT), server_client=unconnected
    )
    model = ScriptedModel(
        config=ModelServerConfig(name=MODEL), server_client=unconnected, turns=list(turns)
    )
    agent = GymnasiumAgent(
        config=GymnasiumAgentConfig(
            name="agent",
            resources_server=ResourcesReference(type="resources_servers", name=ENVIRONMENT),
            model_server=ModelReference(type="responses_api_models", name=MODEL),
            **settings,
        ),
        server_client=client_of(environment, model),
    )
    return asyncio.run(agent.run(RunRequest.model_validate(ROW))), model


ONE, TWO, THREE = (turn(said(text)) for text in "123")


def test_an_episode_goes_on_until_the_environment_ends_it() -> None:
    result, _ = played(ONE, TWO, THREE)

    assert result.reward == 3.0
    spoken = [item.role for item in result.response.output]
    assert spoken == ["assistant", "user", "assistant", "user", "assistant"]
    assert (result.model_extra or {})["info"] == {"at": 3}
    assert (result.model_extra or {})["terminated"] is True


def test_a_step_whose_reward_is_not_finite_is_a_verifier_error() -> None:
    with pytest.raises(VerifierError, match="/step returned nan, which is not a reward"):
        played(ONE, turn(said("?")), THREE)


def test_the_model_reads_the_whole_episode_at_each_turn() -> None:
    result, model = played(ONE, TWO, THREE)
    read = [item.text for item in model.asked[2].input]

    assert read == ["Count to three.", "Begin.", "1", "1, and then?", "2", "2, and then?"]
    assert [item.text for item in result.responses_create_params.input] == read[:2]


def test_usage_is_summed_over_the_turns() -> None:
    result, _ = played(ONE, TWO, THREE)

    assert result.response.usage is not None
    assert result.response.usage.total_tokens == 45


def test_rewards_of_wrong_steps_are_missing_from_the_sum() -> None:
    result, _ = played(ONE, turn(said("three")), THREE)

    assert result.reward == 2.0


def test_a_turn_that_was_cut_off_is_not_stepped() -> None:
    cut = turn(said("2"), incomplete_details={"reason": "max_output_tokens"})
    result, _ = played(ONE, cut)

    assert result.reward == 1.0
    assert result.response.incomplete_details is not None
    assert (result.model_extra or {})["terminated"] is False


def test_max_steps_ends_an_episode() -> None:
    result, model = played(ONE, TWO, max_steps=2)

    assert (result.reward, len(model.asked)) == (2.0, 2)
    assert len(result.response.output) == 3


def test_a_result_without_its_episode_is_refused() -> None:
    result, _ = played(ONE, TWO, THREE)
    environment = Counting(
        config=ResourcesServerConfig(name=ENVIRONMENT),
        server_client=ServerClient({}, HttpClient()),
    )
    with pytest.raises(CallError, match="no episode"):
        asyncio.run(environment.verify(result, Session("another")))
