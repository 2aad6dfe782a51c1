"""A turn with token ids as a chat completion."""

import pytest

from palestra.errors import ModelError
from palestra.responses_api_models.vllm_model.app import chat_answer
from palestra.responses_api_models.vllm_model.token_ids import (
    State,
    TokenChoice,
    TokenCompletion,
    TurnTokens,
)
from palestra.responses_api_models.vllm_model.turns import ModelTurn
from palestra.schema import UpstreamMessage


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_turn_that_was_broken_off_is_no_answer(reason: str) -> None:
    choice = TokenChoice(UpstreamMessage(content="I am"), finish_reason=reason)
    turn = ModelTurn(TokenCompletion([choice]), TurnTokens([1], [2], [-0.1]), State.FIRST)

    with pytest.raises(ModelError, match="stopped in the middle of its answer"):
        chat_answer(turn, model="m", with_log_probs=False)
