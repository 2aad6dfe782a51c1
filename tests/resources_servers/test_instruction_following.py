import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langdetect.detector_factory import PROFILES_DIRECTORY
from verifying import agrees, post_verify, recorded, said, server_of, verify

from palestra.resources_servers.instruction_following.app import InstructionFollowingServer
from palestra.resources_servers.instruction_following.instruction import Answer
from palestra.resources_servers.instruction_following.registry import (
    INSTRUCTIONS,
    LANGUAGES,
    LanguageDetector,
    bind,
)
from palestra.resources_servers.instruction_following.sentences import split_sentences
from palestra.resources_servers.instruction_following.words import treebank_words

SHOUT = {
    "instruction_id_list": ["punctuation:no_comma", "detectable_format:title"],
    "kwargs": [None, {}],
}
KWARGS: dict[str, Any] = {
    "N": 3,
    "capital_frequency": 1,
    "capital_relation": "at least",
    "end_phrase": "The end",
    "first_word": "so",
    "forbidden_words": ["part", "aaaaab"],
    "frequency": 1,
    "keyword": "aaaaab",
    "keyword1": "a?a?a?b",
    "keyword2": "(a+)+$",
    "keywords": ["a.a.a.b", "(a|aa)+$"],
    "language": "de",
    "last_word": "end",
    "let_frequency": 1,
    "let_relation": "at least",
    "letter": "a",
    "m": 2,
    "n": 2,
    "n_end": 9,
    "n_sent": 2,
    "n_start": 1,
    "n_words": 2,
    "nth_paragraph": 1,
    "num_bullets": 3,
    "num_highlights": 3,
    "num_paragraphs": 3,
    "num_placeholders": 3,
    "num_sections": 3,
    "num_sentences": 3,
    "num_words": 3,
    "phrase": "a b a",
    "postscript_marker": "P.S.",
    "prompt_to_repeat": "Sing a song",
    "relation": "at least",
    "section_spliter": "Section",
    "small_n": 2,
}
LONG = 300_000
HOSTILE = {
    "one letter": "a" * LONG,
    "blank lines": "\n" * LONG + "x",
    "spaces": " " * LONG + ".",
    "stars": "*" * LONG,
    "star lines": "*\n" * (LONG // 2),
    "open brackets": "[" * LONG,
    "open titles": "<" * LONG,
    "exclamations": "!" * LONG,
    "lone periods": ". " * (LONG // 2),
    "quotes": "\"'" * (LONG // 2),
    "digits": "Section 1" * (LONG // 9),
    "nesting": "[" * (LONG // 2) + "]" * (LONG // 2),
    "at signs": "a@a." * (LONG // 4),
    "control characters": bytes(range(256)).decode("latin-1") * (LONG // 256),
    "phrases": "a " * (LONG // 2),
}


def test_recorded_rollouts_get_their_recorded_rewards() -> None:
    server = server_of(InstructionFollowingServer)

    assert [r for row, r in recorded("instruction_following") if not agrees(server, row, r)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "rewards"), [("zh", [1.0, 1.0, 0.0]), ("zh-cn", [1.0, 0.0, 0.0])]
)
def test_chinese_is_asked_for_in_either_script_or_in_one(
    language: str, rewards: list[float]
) -> None:
    row = {
        "instruction_id_list": ["language:response_language"],
        "kwargs": [{"language": language}],
    }
    server = server_of(InstructionFollowingServer)
    texts = ["这是一个关于学习汉语的问题", "這是一個關於學習漢語的問題", "Das ist eine Frage."]

    assert [verify(server, row, said(text))["reward"] for text in texts] == rewards


def test_all_instructions_followed_is_worth_one() -> None:
    result = verify(server_of(InstructionFollowingServer), SHOUT, said("<<ode>> la la"))

    assert result["reward"] == 1.0
    assert result["follow_all_instructions"] is True
    assert result["follow_instruction_list"] == [True, True]
    assert result["kwargs"] == SHOUT["kwargs"]


def test_one_instruction_not_followed_is_worth_nothing() -> None:
    result = verify(server_of(InstructionFollowingServer), SHOUT, said("la la"))

    assert (result["reward"], result["follow_instruction_list"]) == (0.0, [True, False])
    assert result["follow_all_instructions"] is False


def test_graded_by_fraction_the_part_that_is_followed_counts() -> None:
    row = {**SHOUT, "grading_mode": "fraction"}

    assert verify(server_of(InstructionFollowingServer), row, said("la la"))["reward"] == 0.5


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_an_answer_that_says_nothing_follows_nothing(text: str) -> None:
    result = verify(server_of(InstructionFollowingServer), SHOUT, said(text))

    assert result["follow_instruction_list"] == [False, False]


def test_only_the_last_message_is_read() -> None:
    output = (said("<<ode>>, la"), said("<<ode>> la"))

    assert verify(server_of(InstructionFollowingServer), SHOUT, *output)["reward"] == 1.0


@pytest.mark.parametrize(
    ("instruction_id", "kwargs", "message"),
    [
        ("keywords:existance", {"keywords": ["a"]}, "did you mean 'keywords:existence'?"),
        ("keywords:existence", {}, "keywords:existence: /keywords: Field required"),
        ("keywords:existence", {"keywords": []}, "/keywords"),
        ("keywords:existence", {"keywords": [" "]}, "/keywords/0"),
        ("keywords:existence", {"keywords": ["a"], "keyword": "b"}, "/keyword"),
        ("length_constraints:number_words", {"num_words": 9, "relation": "about"}, "/relation"),
        ("length_constraints:number_words", {"num_words": -1, "relation": "at least"}, "/num"),
        (
            "language:response_language",
            {"language": "cn"},
            "'cn' cannot be detected; choose one of af, ar",
        ),
        ("keywords:letter_frequency", {"letter": "ab"}, "/letter"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "nth_paragraph 3 is beyond num_paragraphs 2",
        ),
        ("new:copy_span_idx", {"prompt_to_repeat": "a", "n_start": 4, "n_end": 9}, "no words from"),
    ],
)
def test_an_instruction_that_cannot_be_checked_is_the_rows_fault(
    instruction_id: str, kwargs: dict[str, Any], message: str
) -> None:
    row = {"instruction_id_list": [instruction_id], "kwargs": [kwargs]}

    status, body = post_verify(server_of(InstructionFollowingServer), row, said("a"))

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert message in body["error"]["message"]


@pytest.mark.parametrize("kwargs", [[], [None], [None, None, None]])
def test_each_instruction_has_one_entry_of_kwargs(kwargs: list[None]) -> None:
    row = {**SHOUT, "kwargs": kwargs}

    status, body = post_verify(server_of(InstructionFollowingServer), row, said("a"))

    assert (status, body["error"]["type"]) == (422, "data_error")
    assert "2 instructions have" in body["error"]["message"]


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector()


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_answer_keeps_any_instruction_busy(name: str, detector: LanguageDetector) -> None:
    answer = Answer(HOSTILE[name], detector.detect)
    slow = {}

    for instruction_id, made in INSTRUCTIONS.items():
        instruction = bind(instruction_id, {k: KWARGS[k] for k in made.model_fields if k in KWARGS})
        started = time.thread_time()
        instruction.follows(answer)
        spent = time.thread_time() - started
        if spent > 5:  # a search in quadratic time takes many minutes
            slow[instruction_id] = spent

    assert slow == {}


@pytest.mark.parametrize(
    ("keyword", "found", "missed"),
    [
        ("C++", "in c++ now", "in ccc"),
        ("(a+)+$", "so (A+)+$", "aaaa"),
        ("5*3", "5*3", "555553"),
        ("colou?r", "color", "colouur"),
        ("e.g", "e-g", "eg"),
    ],
)
def test_a_keyword_is_a_plain_regular_expression_or_its_own_characters(
    keyword: str, found: str, missed: str
) -> None:
    existence = bind("keywords:existence", {"keywords": [keyword]})

    assert existence.follows(Answer(found, str))
    assert not existence.follows(Answer(missed, str))


def test_a_text_has_one_language_whichever_detector_is_asked(detector: LanguageDetector) -> None:
    unclear = "BONA TEST 3 la"
    other = LanguageDetector()

    assert len({each.detect(unclear) for each in (detector, detector, other)}) == 1


def test_the_known_languages_are_those_of_the_detector() -> None:
    assert {path.name for path in Path(PROFILES_DIRECTORY).iterdir()} == LANGUAGES


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Ray came. He left.", ["Dr. Ray came.", "He left."]),
        ("It is 3.5 percent. (Again.) Bah!", ["It is 3.5 percent.", "(Again.)", "Bah!"]),
        ('"Stop!" he said. Why?', ['"Stop!"', "he said.", "Why?"]),
        ("J. Bach wrote it. I. Then II.", ["J. Bach wrote it.", "I.", "Then II."]),
        ("Well... maybe. Well... The end", ["Well... maybe.", "Well...", "The end"]),
        ("Milk, eggs, etc. Also tea.", ["Milk, eggs, etc.", "Also tea."]),
        ("In the U.S. today. In the U.S. The", ["In the U.S. today.", "In the U.S.", "The"]),
        ("really!!! yes", ["really!!!", "yes"]),
        ("", []),
    ],
)
def test_sentences_end_where_punkt_ends_them(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("They'll say it's $3.88.", ["They", "'ll", "say", "it", "'s", "$", "3.88", "."]),
        ('"I can\'t," she said.', ["``", "I", "ca", "n't", ",", "''", "she", "said", "."]),
        ("One (two) -- three: 3,000!", ["One", "(", "two", ")", "--", "three", ":", "3,000", "!"]),
        ("I cannot go. Wait...", ["I", "can", "not", "go", ".", "Wait", "..."]),
        ("it's gonna stay", ["it", "'s", "gon", "na", "stay"]),
    ],
)
def test_words_are_separated_as_in_the_penn_treebank(text: str, words: list[str]) -> None:
    assert treebank_words(text) == words


marks = st.text(st.sampled_from("ab *-[]<>\n\t.!?'\"1"), max_size=40)


@given(marks)
def test_searches_in_linear_time_find_what_the_plain_expressions_find(text: str) -> None:
    bullets = len(re.findall(r"^\s*\*[^\*].*$", text, re.MULTILINE))
    bullets += len(re.findall(r"^\s*-.*$", text, re.MULTILINE))
    places = len(re.findall(r"\[.*?\]", text))
    titles = [t for t in re.findall(r"<<[^\n]+>>", text) if t.lstrip("<").rstrip(">").strip()]
    answer = Answer(text, str)

    assert bind("detectable_format:number_bullet_lists", {"num_bullets": bullets}).follows(answer)
    for number in (places, places + 1):
        placeholders = bind("detectable_content:number_placeholders", {"num_placeholders": number})
        assert placeholders.follows(answer) is (number == places)
    assert bind("detectable_format:title", {}).follows(answer) is bool(titles)


@given(marks, marks)
def test_phrases_are_found_as_by_the_plain_expression(text: str, more: str) -> None:
    text = f"{text} b {more}"
    found = [copy.split() for copy in re.findall(r"a .*? b", text)]
    changes = [sum(x != y for x, y in zip(copy, "axb", strict=False)) for copy in found]
    right = bool(found) and all(len(copy) == 3 for copy in found) and max(changes) <= 1
    instruction = bind("copy:repeat_phrase", {"phrase": "a x b", "small_n": max(1, len(found))})

    assert instruction.follows(Answer(text, str)) is (right and changes[-1] == 1)


def test_accuracies_are_of_prompts_of_instructions_and_of_each_instruction() -> None:
    def result(*followed: bool) -> dict[str, Any]:
        ids = SHOUT["instruction_id_list"]
        return {
            "reward": float(all(followed)),
            "instruction_id_list": ids,
            "follow_instruction_list": list(followed),
        }

    server = server_of(InstructionFollowingServer)
    metrics = server.compute_metrics([[result(True, False), result(True, True)]])

    assert metrics["prompt_accuracy"] == 50
    assert metrics["instruction_accuracy"] == 75
    assert metrics["instruction_accuracy/detectable_format:title"] == 50
    assert metrics["pass@2/reward"] == 100
    assert "prompt_accuracy" in server.get_key_metrics(metrics)
