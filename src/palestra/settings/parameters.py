"""Find misspelt parameters of a request to a model."""

import re
from collections.abc import Collection, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from palestra.config import is_one_slip, is_variant, slip_of

_OTHER_PARAMETERS: Final = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "min_tokens",
        "top_k",
        "min_p",
        "seed",
        "stop",
        "logprobs",
        "prompt_logprobs",
        "models",
        "mode",
        "min_output_tokens",
    }
    | {"frequency_penalty", "presence_penalty", "repetition_penalty", "ignore_eos"}
    | {"length_penalty", "best_of", "use_beam_search", "bad_words", "logit_bias", "stop_token_ids"}
    | {"allowed_token_ids", "truncate_prompt_tokens", "priority", "cache_salt", "vllm_xargs"}
    | {"chat_template", "chat_template_kwargs", "structured_outputs", "response_format"}
    | {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "thinking_token_budget"}
    | {"skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output"}
    | {"add_generation_prompt", "add_special_tokens", "continue_final_message", "echo"}
    | {"return_token_ids", "return_tokens_as_token_ids", "mm_processor_kwargs"}
    | {"prompt_cache_key", "safety_identifier", "reasoning_effort", "verbosity", "thinking"}
    | {"reasoning_format", "include_reasoning", "service_tier", "search_settings", "provider"}
    | {"cache_prompt", "grammar", "json_schema", "n_keep", "n_predict", "n_probs", "samplers"}
    | {"mirostat", "mirostat_eta", "mirostat_tau", "min_keep", "typical_p", "top_n_sigma"}
    | {"repeat_last_n", "repeat_penalty", "dynatemp_exponent", "dynatemp_range", "id_slot"}
    | {
        "dry_multiplier",
        "xtc_probability",
        "xtc_threshold",
        "parse_tool_calls",
        "timings_per_token",
    }
    | {"ebnf", "regex", "stop_regex", "no_stop_trim", "separate_reasoning", "stream_reasoning"}
    | {"lora_path", "session_params", "custom_logit_processor", "return_hidden_states"}
    | {"documents", "logits_processors", "kv_transfer_params", "request_id"}
)
"""Parameters that some endpoints have beside those of the Responses API."""

_FOR_OUR_SERVERS: Final = frozenset({"chat_template_kwargs", "extra_body"})
"""What a model server of ours takes out of `metadata`: JSON text, or the object itself."""

CHAT_NAMES: Final = {
    "extra_body": "metadata.extra_body",
    "max_completion_tokens": "max_output_tokens",
    "max_gen_toks": "max_output_tokens",
    "max_length": "max_output_tokens",
    "max_new_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
}
"""What Chat Completions and its clients, transformers and lm-eval call parameters of a request. An
endpoint may accept them in a row, but no part of Palestra knows them for what they are."""
_SHORTEST: Final = 3
"""The fewest letters of a name that was cut short."""
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def misspelt_parameters(names: Collection[str]) -> dict[str, str]:
    """Return the parameters of a request that are most likely misspelt, each with the parameter that
    it resembles. Endpoints may have further parameters, which resemble none.
    """
    unknown = [name for name in names if name not in _known_names()]
    slips = ((name, _near(name)) for name in unknown)
    return {name: near for name, near in slips if near is not None and near not in names}


def parameter_meant(name: str) -> str | None:
    """Return the parameter of a request that has this name here, or in another product; None when it
    is the name of none.
    """
    return CHAT_NAMES.get(name) or (name if name in _known_names() else None)


def no_text_in(metadata: Any) -> list[str]:
    """Return the names in a request's `metadata` whose values are no texts, as the Responses API
    has them.

    Left out are objects for our model servers, which may be given as they are, and null, which is
    absent. The Responses API also has limits of length (16 values of 512 characters), which only
    some endpoints have.
    """
    return [
        str(name)
        for name, value in (metadata.items() if isinstance(metadata, Mapping) else ())
        if value is not None
        and not isinstance(value, str)
        and not (name in _FOR_OUR_SERVERS and isinstance(value, Mapping))
    ]


def not_a_parameter(near: str) -> str:
    """Return what is wrong with a parameter that resembles `near`, as the end of a sentence."""
    return f"is no parameter of a request; did you mean {near!r}?"


@lru_cache(maxsize=256)  # rows of one data set have the same names
def _near(name: str) -> str | None:
    plain_name = _CAPITAL.sub("_", name).lower().replace("-", "_")
    if plain_name in _known_names():
        return plain_name
    full_names = [p for p in _of_the_api() if p.startswith(plain_name)]
    if len(plain_name) >= _SHORTEST and len(full_names) == 1:
        return full_names[0]
    is_long = len(plain_name) > _SHORTEST
    slips = (p for p in sorted(_known_names()) if is_long and is_one_slip(name, p))
    near = slip_of(name, _known_names()) or next(slips, None)
    return None if near is None or is_variant(name, near) else near


@cache
def _of_the_api() -> frozenset[str]:
    from palestra.schema import ResponseCreateParams

    return frozenset(ResponseCreateParams.model_fields)


@cache
def _known_names() -> frozenset[str]:
    return _of_the_api() | _OTHER_PARAMETERS
