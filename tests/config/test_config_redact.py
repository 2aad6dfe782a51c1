"""Secrets are masked by name and by value, in structures and in text."""

import json
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from config_world import FLEET, POLICY, World
from hypothesis import given
from hypothesis import strategies as st

from palestra.config import (
    MASK,
    Redactor,
    dump_yaml,
    find_secrets,
    is_secret_name,
    redact,
    secrets_in,
)
from palestra.config.yaml_text import parse_yaml, write_yaml


@pytest.mark.parametrize(
    "name",
    [
        "openai_api_key", "hf_token", "apiKey", "APIKey", "CLIENT_SECRET", "x-api-key", "Key",
        "client.secret", "Password", "fleet_token", "Authorization", "Proxy-Authorization",
        "apikey", "HFToken", "token2", "api_key_openai",
    ],
)  # fmt: skip
def test_a_name_with_a_secret_word_is_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_output_tokens", "num_tokens", "key_metrics", "keyMetrics", "tokenizer", "monkey",
        "keys", "passwords", "keyboard", "secretary", "tokens", 3, None, True, 1.5,
    ],
)  # fmt: skip
def test_a_name_with_a_longer_word_is_not_secret(name: object) -> None:
    assert not is_secret_name(name)


def test_only_strings_that_are_not_empty_are_masked() -> None:
    value = {"return_token_id_information": True, "token_ids": [1, 2], "api_key": "", "key": None}

    assert redact(value) == value


def test_strings_at_any_depth_below_a_secret_name_are_masked() -> None:
    value = {"api_key": ["one", {"x": "two", 3: ("three",)}]}

    assert redact(value) == {"api_key": [MASK, {"x": MASK, 3: (MASK,)}]}


def test_numbers_are_masked_below_password_and_secret() -> None:
    assert redact({"password": 12345678, "token": 3, "url": "x?12345678"}) == {
        "password": MASK,
        "token": 3,
        "url": f"x?{MASK}",
    }


@pytest.mark.parametrize("name", ["policy_api_key", "apiKey", "API_KEY_OPENAI", "Authorization"])
def test_numbers_are_masked_below_the_name_of_a_key(name: str) -> None:
    assert redact({name: 8812345678901234, "x": [{name: 1.5}]}) == {name: MASK, "x": [{name: MASK}]}


def test_a_long_whole_number_is_masked_below_a_name_that_ends_with_a_secret_word() -> None:
    assert redact({"hf_token": 88123456, "access_key": 8812345678}) == {
        "hf_token": MASK,
        "access_key": MASK,
    }


def test_numbers_of_tokens_are_no_secrets() -> None:
    value = {"eos_token_id": 151645, "pad_token": 151643, "token_logprobs": [-0.123456789]}
    value |= {"prompt_token_ids": [1, 99999999], "api_key": True, "max_tokens": 123456789}

    assert redact(value) == {**value}
    assert not find_secrets(value)


def test_a_secret_number_is_masked_wherever_it_turns_up() -> None:
    value = {"api_key": 8812345678901234, "team": 8812345678901234, "x": "Bearer 8812345678901234"}

    assert redact(value) == {"api_key": MASK, "team": MASK, "x": f"Bearer {MASK}"}
    assert find_secrets(value) == {"8812345678901234"}


def test_a_secrets_value_is_masked_wherever_it_turns_up() -> None:
    value = {"api_key": "sk-abc", "url": "http://x/?k=sk-abc", "l": [{"b": b"\xff sk-abc"}]}

    masked = redact(value)

    assert masked["url"] == f"http://x/?k={MASK}"
    assert masked["l"] == [{"b": b"\xff " + MASK.encode()}]


def test_a_short_secret_is_masked_by_name_only() -> None:
    assert redact({"key": "abc", "x": "abcdef"}) == {"key": MASK, "x": "abcdef"}


@pytest.mark.parametrize("word", ["dummy", "EMPTY", "none", "****"])
def test_a_placeholder_for_a_key_is_not_masked_in_other_text(word: str) -> None:
    assert redact({"api_key": word, "x": word}) == {"api_key": MASK, "x": word}


def test_secrets_known_from_elsewhere_are_masked_too() -> None:
    assert redact(["see sk-abc"], {"sk-abc"}) == [f"see {MASK}"]


def test_the_token_of_an_authorization_header_is_masked_alone() -> None:
    secrets = find_secrets({"headers": {"Authorization": "Bearer abc.def"}})

    assert Redactor(secrets)("sent abc.def") == f"sent {MASK}"


def test_the_password_of_a_url_is_a_secret() -> None:
    assert redact({"proxy": "http://me:hunter2@host/x"}) == {"proxy": f"http://me:{MASK}@host/x"}


def test_a_key_that_contains_a_long_secret_is_masked_and_none_gets_lost() -> None:
    masked = redact({"api_key": "sk-abcdef", "sk-abcdef": 1, "a sk-abcdef": 2, "b": 3})

    assert "sk-abcdef" not in str(masked)
    assert len(masked) == 4


def test_a_secret_is_masked_where_json_or_a_url_escapes_it() -> None:
    secret = 'p"ä/ö\\x'
    hide = Redactor([secret])

    for text in (secret, json.dumps(secret), repr(secret), quote(secret), quote(secret, safe="")):
        assert MASK in hide(text)
        assert secret not in hide(text)


def test_a_secret_that_begins_another_leaves_no_tail() -> None:
    assert Redactor(["abcd", "abcdefgh"])("abcdefgh abcd") == f"{MASK} {MASK}"


def test_no_secrets_leave_text_unchanged() -> None:
    assert Redactor([])("a.b") == "a.b"


def test_what_is_redacted_is_not_changed() -> None:
    value = {"api_key": "sk-abc", "l": ["sk-abc"]}

    redact(value)

    assert value == {"api_key": "sk-abc", "l": ["sk-abc"]}


# Characters that no mask, key or number contains, so that a secret cannot turn up by chance.
_SECRETS = st.text("αβγδε/+%\"' \\\n", min_size=4, max_size=12).filter(lambda s: not s.isspace())
_NAMES = st.sampled_from(["api_key", "hfToken", "CLIENT-SECRET", "password"])
_SCALARS = st.none() | st.booleans() | st.integers(0, 9) | st.text("xyz", max_size=4)


@st.composite
def _leaky(draw: st.DrawFn) -> tuple[list[str], Any]:
    secrets = draw(st.lists(_SECRETS, min_size=1, max_size=3, unique=True))
    texts = st.builds("{}{}{}".format, st.text("xyz"), st.sampled_from(secrets), st.text("xyz"))
    nested = st.recursive(
        _SCALARS | texts,
        lambda below: (
            st.lists(below, max_size=3)
            | st.dictionaries(st.text("xyz", max_size=3) | st.integers(), below, max_size=3)
        ),
        max_leaves=8,
    )
    named = {f"{draw(_NAMES)}_{'xyz'[i]}": secret for i, secret in enumerate(secrets)}
    return secrets, {"public": draw(nested), "deep": [{"settings": named}]}


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [s for pair in value.items() for item in pair for s in _strings(item)]
    if isinstance(value, list):
        return [s for item in value for s in _strings(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.slow
@given(_leaky())
def test_redaction_never_leaks_a_secret(example: tuple[list[str], Any]) -> None:
    secrets, value = example

    shown = _strings(redact(value))

    assert not [s for s in shown if any(secret in s for secret in secrets)]


@pytest.mark.slow
@given(_leaky())
def test_a_redacted_text_never_holds_a_secret(example: tuple[list[str], Any]) -> None:
    secrets, value = example
    hide = Redactor(find_secrets(value))

    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), *_strings(value)):
        assert not [secret for secret in secrets if secret in hide(text)]
        assert not [secret for secret in secrets if json.dumps(secret)[1:-1] in hide(text)]


@pytest.mark.slow
@given(_leaky())
def test_redaction_keeps_the_shape(example: tuple[list[str], Any]) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(item) for key, item in value.items()}
        if isinstance(value, list):
            return [shape(item) for item in value]
        return "text" if isinstance(value, str) else value

    _, value = example
    assert shape(redact(value)) == shape(value)


def test_a_dump_is_the_resolved_tree_with_secrets_masked(world: World) -> None:
    config = world.load_text(FLEET + "note: uses sk-abc123\n", *POLICY)

    dump = dump_yaml(config)

    assert "sk-abc123" not in dump
    shown = yaml.safe_load(dump)
    assert shown["policy_api_key"] == MASK
    assert shown["note"] == f"uses {MASK}"
    assert shown["mcqa"] == config.tree["mcqa"]
    model = shown["policy_model"]["responses_api_models"]["openai_model"]
    assert model["openai_base_url"] == "http://localhost:8000/v1"


def test_a_dump_is_the_same_every_time(world: World) -> None:
    assert dump_yaml(world.load_text(FLEET, *POLICY)) == dump_yaml(world.load_text(FLEET, *POLICY))


def test_config_secrets_are_the_values_to_mask(world: World) -> None:
    assert world.load_text(FLEET, *POLICY).secrets == {"sk-abc123"}


_TREES = st.dictionaries(
    st.text(max_size=5) | st.integers(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False)
        | st.sampled_from(["1e-3", "1e5", "2026-01-02", "yes", "null", "0x1f", "12:30", "="]),
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)  # fmt: skip


@given(_TREES)
def test_written_yaml_is_read_back_unchanged(tree: dict) -> None:
    assert parse_yaml(write_yaml(tree), where="test") == (tree, ())


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_a_secret_is_found_in_text_that_was_quoted_several_times(levels: int) -> None:
    text = 'sk-"quoted"/and\\more'
    for _ in range(levels):
        text = json.dumps(["x", text])

    shown = Redactor(['sk-"quoted"/and\\more'])(text)

    assert "quoted" not in shown
    assert MASK in shown


def test_a_variable_with_a_secret_name_gives_its_value_away_wherever_it_is_used() -> None:
    tree = {"headers": {"x-team": "Team third-key-of-three"}, "note": "unrelated"}
    environ = {"TEAM_TOKEN": "third-key-of-three", "MY_TOKEN": "not-used-here", "NOTE": "unrelated"}

    assert secrets_in(tree, environ) == {"third-key-of-three"}
