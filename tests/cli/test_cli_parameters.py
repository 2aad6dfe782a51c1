"""The names of a request's parameters: which are misspelt, and which are an endpoint's own."""

import pytest

from palestra.settings import misspelt_parameters

MEANT = {
    "temp": "temperature",
    "topP": "top_p",
    "top-k": "top_k",
    "maxOutputTokens": "max_output_tokens",
    "max_output": "max_output_tokens",
    "temprature": "temperature",
    "stopp": "stop",
}
OF_ENDPOINTS = (
    *("top_k", "min_p", "seed", "stop", "guided_json", "structured_outputs", "repeat_penalty"),
    *("mirostat", "top_a", "random_seed", "length", "stop_sequences", "prompt_cache_key", "to"),
)


@pytest.mark.parametrize(("name", "meant"), MEANT.items())
def test_a_misspelt_parameter_has_the_one_that_is_meant(name: str, meant: str) -> None:
    assert misspelt_parameters([name]) == {name: meant}


@pytest.mark.parametrize("name", OF_ENDPOINTS)
def test_a_parameter_of_an_endpoint_is_none_of_ours_misspelt(name: str) -> None:
    assert misspelt_parameters([name]) == {}
