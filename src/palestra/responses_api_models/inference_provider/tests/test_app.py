"""`inference_provider`: a hosted provider by its name."""

from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.testing import model_response, scripted_endpoint

FOLDER = Path(__file__).parents[1]
SETTINGS = "++policy_model.responses_api_models.inference_provider"
GROQ = ("++policy_provider=groq", f"{SETTINGS}.api_key=gsk-1", "++policy_model_name=scripted")


def test_the_providers_answer_is_the_response() -> None:
    with scripted_endpoint("4") as endpoint:
        base_url = f"{SETTINGS}.base_url={endpoint.url}/v1"
        response = model_response(FOLDER, "2 + 2 = ?", *GROQ, base_url)

    assert response.final_text == "4"
    assert endpoint.asked[0].headers["authorization"] == "Bearer gsk-1"


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(ConfigError, match="grok"):
        model_response(FOLDER, "2 + 2 = ?", *GROQ, "++policy_provider=grok")
