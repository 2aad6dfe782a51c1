"""`verifiers_agent`: what is handed to the library, and what comes back from it."""

from palestra.responses_api_agents.verifiers_agent.conversion import sampling_of
from palestra.schema import ResponseCreateParams


def test_sampling_goes_to_the_library_by_its_names() -> None:
    params = ResponseCreateParams.model_validate(
        {"input": "?", "temperature": 0.5, "max_output_tokens": 16}
    )

    sampling = sampling_of(params)

    assert sampling["temperature"] == 0.5
    assert sampling["max_tokens"] == 16
