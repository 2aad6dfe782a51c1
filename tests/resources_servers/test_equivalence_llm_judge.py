"""Short answers that a judge compares with the right one."""

from typing import Any

import pytest
from verifying import post_verify, recorded, said, verify

from judge_fakes import REFERENCE, fleet, question_text
from palestra.resources_servers.equivalence_llm_judge.app import (
    EquivalenceConfig,
    EquivalenceServer,
)

ROW = {"expected_answer": "the sun", "question": "What heats the sea?"}


def server(says: Any, **settings: Any) -> tuple[EquivalenceServer, Any]:
    client, judge = fleet(says)
    made = {"name": "under_test", "judge_model_server": REFERENCE, **settings}
    config = EquivalenceConfig.model_validate(made)
    return EquivalenceServer(config=config, server_client=client), judge


def always(label: str) -> Any:
    return lambda _text: f"Because.\n{label}"


@pytest.mark.parametrize(("label", "reward"), [("[[A=B]]", 1.0), ("[[A!=B]]", 0.0)])
def test_the_judges_verdict_is_the_reward(label: str, reward: float) -> None:
    result = verify(server(always(label))[0], ROW, said("Sunlight."))

    assert result["reward"] == reward
    assert {evaluation["verdict_label"] for evaluation in result["judge_evaluations"]} == {label}


def test_the_judge_sees_question_reference_and_answer() -> None:
    made, judge = server(
        always("[[A!=B]]"), judge_responses_create_params={"input": [], "top_p": 0.5}
    )

    verify(made, ROW, said("Sunlight."))

    text = question_text(judge.asked[0])
    assert all(part in text for part in ("What heats the sea?", "the sun", "Sunlight."))
    assert judge.asked[0].top_p == 0.5


def test_without_a_question_the_judge_sees_the_prompts_last_message() -> None:
    made, judge = server(always("[[A!=B]]"))
    params = {"input": [{"role": "user", "content": "first"}, {"role": "user", "content": "Why?"}]}

    verify(made, {"expected_answer": "x", "responses_create_params": params}, said("y"))

    assert "Why?" in question_text(judge.asked[0])
    assert "first\n" not in question_text(judge.asked[0])


def test_equal_in_one_order_only_is_worth_what_the_config_says() -> None:
    def first_order(text: str) -> str:
        return "[[A=B]]" if text.index("the sun") < text.index("Sunlight") else "[[A!=B]]"

    assert verify(server(first_order)[0], ROW, said("Sunlight"))["reward"] == 0.0
    partial = server(first_order, reward_if_swap_fails=0.25)[0]
    assert verify(partial, ROW, said("Sunlight"))["reward"] == 0.25


def test_nothing_is_worth_nothing_and_the_judge_is_not_bothered() -> None:
    made, judge = server(always("[[A=B]]"))

    result = verify(made, {**ROW, "judge_evaluations": [{"made": "up"}]}, said("  "))

    assert (result["reward"], result["judge_evaluations"], judge.asked) == (0.0, [], [])


def test_the_quick_check_spares_the_judge_an_exact_answer() -> None:
    made, judge = server(always("[[A!=B]]"), quick_check=True)

    assert verify(made, ROW, said(r"\boxed{the  sun}"))["reward"] == 1.0
    assert judge.asked == []
    assert verify(made, ROW, said(r"\boxed{the sun or the moon}"))["reward"] == 0.0


def test_a_judge_without_verdict_is_a_judge_error_and_never_a_reward() -> None:
    status, answer = post_verify(server(always("Both, somehow."))[0], ROW, said("Sunlight"))

    assert status >= 500
    assert answer["error"]["type"] == "judge_error"


def test_recorded_rollouts_get_their_reward_from_the_recorded_judge() -> None:
    made, judge = server(always("?"))

    for row, result in recorded("equivalence_llm_judge"):
        replay = {**row, "judge_evaluations": result["judge_evaluations"], "_ng_judge_replay": True}
        ours = verify(made, replay, *result["response"]["output"])
        assert ours["reward"] == result["reward"]
        assert ours["judge_evaluations"] == result["judge_evaluations"]
    assert judge.asked == []
