"""`local_model`: a small real model on the CPU."""

from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.responses_api_models.local_model.running import require_engine
from palestra.responses_api_models.local_model.weights import find_weights
from palestra.testing import model_response

FOLDER = Path(__file__).parents[1]
SETTINGS = "++policy_model.responses_api_models.local_model"


def test_the_model_answers() -> None:
    try:
        require_engine()
        find_weights(None)
    except ConfigError as error:
        pytest.skip(error.message)

    response = model_response(
        FOLDER, "Say hello.", f"{SETTINGS}.slots=1", f"{SETTINGS}.max_output_tokens_default=8"
    )

    assert response.output
    assert response.usage is not None
    assert response.usage.output_tokens > 0


def test_an_endpoint_is_refused() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        model_response(FOLDER, "Say hello.", f"{SETTINGS}.base_url=http://127.0.0.1:1/v1")
