"""For every instruction: answers that follow it, and answers that do not."""

from typing import Any

import pytest

from palestra.resources_servers.instruction_following.instruction import Answer
from palestra.resources_servers.instruction_following.registry import (
    FURTHER,
    IFEVAL,
    LanguageDetector,
    bind,
)

ENGLISH = "the rain fell all night and nobody in the village could sleep because of the noise. "
FRENCH = "la pluie est tombée toute la nuit et personne dans le village ne pouvait dormir. "
MARKED = "First.\n\n***\n\nSecond.\n***\nThird."

Case = tuple[str, dict[str, Any], list[str], list[str]]

CASES_OF_IFEVAL: list[Case] = [
    (
        "keywords:existence",
        {"keywords": ["kite", "wind"]},
        ["The KITE loves wind.", "kites in a windstorm"],
        ["A kite.", "wind"],
    ),
    (
        "keywords:frequency",
        {"keyword": " kite ", "frequency": 2, "relation": "at least"},
        ["kite Kite", "kites and a kitesurfer"],
        ["kite", "none"],
    ),
    (
        "keywords:frequency",
        {"keyword": "kite", "frequency": 2, "relation": "less than"},
        ["kite", "none"],
        ["kite kite"],
    ),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["part", "C++"]},
        ["partly", "apart", "C+"],
        ["a Part.", "part"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "Q", "let_frequency": 2, "let_relation": "at least"},
        ["Quite quick"],
        ["quick"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "!", "let_frequency": 2, "let_relation": "less than"},
        ["Oh!"],
        ["Oh!!"],
    ),
    (
        "language:response_language",
        {"language": "fr"},
        [FRENCH, "1234 5678"],
        [ENGLISH],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "at least"},
        ["One. Two! Three?", "1. Buy bread. Go.", "It works. Really... The end."],
        ["Mr. Smith met J. Jones at 3.5 p.m. today. Bye.", "One. Two."],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "less than"},
        ['She said "No." Then she left.', "no end", "In the U.S. it rains. So what?"],
        ["One. Two. Three."],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 3},
        [MARKED, f"***{MARKED}***"],
        ["One.\n\nTwo.\n\nThree.", "One. *** *** Three.", f"{MARKED}***Fourth."],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": "at least"},
        ["it's three words", "a-b-c-d"],
        ["only three words"],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": "less than"},
        ["only three words"],
        ["it's three words"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Gates"},
        [
            "One.\n\ngates, they open.",
            'One.\n\n"Gates" they are called.',
            "One.\n\nGATES",
            "\n\ngates\n\nTwo",
        ],
        ["One.\ngates", "One.\n\ntwo", "One.\n\ngates\n\nthree", "gates"],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["Dear [name] of [city]", "[][]", "[[a] [b]"],
        ["Dear [name]", "[a\n] [b]", "]["],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        ["Bye.\n\nP.S. Write.", "p. s. write"],
        ["PS: write", "P.P. Rubens"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["P.P.S. Write", "p. p. s"],
        ["P.S. Write"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "PS:"},
        ["Bye.\nps: write"],
        ["P.S. write"],
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 3},
        ["* one\n* two\n- three", "\n\n  * one\n\t- two\n* three\n** no", "---\n- a\n- b"],
        ["* one\n* two", "* 1\n* 2\n* 3\n* 4", "a * b\n* c\n* d"],
    ),
    (
        "detectable_format:constrained_response",
        {},
        ["My answer is maybe.", "Well. My answer is no. Sorry."],
        ["Maybe.", "my answer is yes."],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*a* and *b*", "*a* and **b**", "*a* * * *b*"],
        ["*a*", "**a**", "*a\nb* *", "none", "** ** **"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "SECTION", "num_sections": 2},
        ["SECTION 1\na\nSECTION 2\nb", "SECTION1 SECTION2 SECTION3"],
        ["SECTION 1", "Section 1\nSection 2", "SECTION one SECTION two"],
    ),
    (
        "detectable_format:json_format",
        {},
        ['{"a": [1, null]}', '```json\n{"a": 1}\n```', "```\n[]\n```", "3"],
        ['Here: {"a": 1}', "{a: 1}", '{"a": 1}}', "```json```"],
    ),
    (
        "detectable_format:title",
        {},
        ["<<ode>>", "a <<b>> c >>", "x\n<< t >>\ny"],
        ["<ode>", "<<\node>>", "<<>>", "<< >>", "<<<>>>", ">>ode<<"],
    ),
    (
        "combination:two_responses",
        {},
        ["One ****** Two", "****** One ****** Two ******"],
        ["One", "Same ****** Same", "a ****** b ****** c", "a ****** ****** b"],
    ),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "Why is it dark? "},
        ["why is it dark? Because.", " WHY IS IT DARK?"],
        ["You ask: why is it dark?", "Why is it"],
    ),
    (
        "startend:end_checker",
        {"end_phrase": " Any questions? "},
        ["So. any questions?", '"Well, any questions?"', "Any questions?\n"],
        ["Any questions? Ask.", "Any questions"],
    ),
    (
        "startend:quotation",
        {},
        ['"All of it."', ' "x" '],
        ['"Not all', '"', "“curly”"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        ["NASA and ESA", "I AM", "X-RAY and CT."],
        ["NASA-ESA", "Nasa", "A b"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "less than"},
        ["NASA", "none"],
        ["I AM"],
    ),
    (
        "change_case:english_capital",
        {},
        ["WHAT IS THAT? THE BIRDS ARE FLYING SOUTH EARLY THIS YEAR, AND THE LAKE IS FROZEN."],
        [ENGLISH, FRENCH.upper(), "123"],
    ),
    (
        "change_case:english_lowercase",
        {},
        [ENGLISH],
        [ENGLISH.capitalize(), FRENCH, "123"],
    ),
    (
        "punctuation:no_comma",
        {},
        ["one; two"],
        ["one, two"],
    ),
]

CASES_OF_FURTHER: list[Case] = [
    ("copy:copy", {"prompt_to_repeat": "Sing!"}, [" sing! "], ["Sing! La."]),
    ("copy:copying_simple", {"prompt_to_repeat": "Sing!"}, ["Sing!"], ["Sing"]),
    (
        "copy:copying_multiple",
        {"prompt_to_repeat": "Sing!", "N": 2},
        ["Sing! ****** sing!"],
        ["Sing!", "Sing! ****** Sing! ****** Sing!"],
    ),
    (
        "copy:repeat_phrase",
        {"phrase": "the cat sat here", "small_n": 2},
        ["the cat sat here, the dog sat here", "the cat sat here\nthe cat lay here"],
        [
            "the dog sat here",
            "the cat sat here the cat sat here",
            "the dog lay here the cat lay here",
        ],
    ),
    (
        "count:count_increment_word",
        {"keyword1": "kite", "keyword2": "wind"},
        ["kite wind Wind"],
        ["kite wind", "kite kite wind wind"],
    ),
    ("count:count_unique", {}, ["Each word once."], ["one and one", "One. Two."]),
    (
        "count:counting_composition",
        {"n_sent": 2, "n_words": 3},
        ["I go. You stay. *** It rains. It stops. *** We eat. We sleep."],
        [
            "I go. You stay.",
            "I go. You stay. *** It rains. *** We eat. We sleep.",
            "I go now. You stay. *** It rains. It stops. *** We eat. We sleep.",
            "I go. You stay. *** It rains. It stops. *** We eat. We sleep. ***",
        ],
    ),
    ("count:lowercase_counting", {"N": 2}, ["TWO small words", "NONE"], ["now these are four"]),
    (
        "detectable_format:bigram_wrapping",
        {},
        ["<<I am>> <<at home>>", "odd"],
        ["<<I am>> at home"],
    ),
    (
        "detectable_format:sentence_hyphens",
        {},
        ["One is here.-Two is there."],
        ["One is here. Two is there.", "One is here. - Two is there."],
    ),
    (
        "detectable_format:square_brackets",
        {},
        ["[all] [of] [it]"],
        ["[all] of [it]", "[all of it]"],
    ),
    ("first_word:first_word_answer", {"first_word": "Well"}, ["well then"], ["Well, then", "oh"]),
    (
        "first_word:first_word_sent",
        {"first_word": ["we"]},
        ["We go. We stay.", "We met Dr. Who."],
        ["We go. They stay.", "Oh. We go."],
    ),
    (
        "keywords:exclude_word_harder",
        {"keyword": "kite"},
        ["Kite flying", "kites fly"],
        ["a kite flies"],
    ),
    (
        "keywords:keyword_specific_position",
        {"keyword": "kite", "n": 2, "m": 3},
        ["Look. The red kite flies."],
        ["Look. The kite flies.", "The red kite flies.", "Look. The red Kite flies."],
    ),
    ("keywords:no_adjacent_consecutive", {}, ["go up", "b a"], ["go home", "A bee"]),
    ("keywords:palindrome", {}, ["my level", "I sing"], ["no such word"]),
    ("keywords:start_end", {}, ["So it is so"], ["So it is so.", "so", "So it is"]),
    (
        "keywords:word_count_different_numbers",
        {"keyword": "kite", "frequency": 2, "relation": "at least"},
        ["kite kite"],
        ["kite"],
    ),
    ("keywords:word_once", {"keyword": "kite"}, ["a Kite"], ["kite kite", "none"]),
    ("last_word:last_word_answer", {"last_word": "end"}, ["The End.", "end!"], ["end of it"]),
    (
        "last_word:last_word_sent",
        {"last_word": "end"},
        ["The end. No end!"],
        ["The end. No more."],
    ),
    ("letters:letter_counting", {"N": 3, "relation": "at least"}, ["a1 b2 c3"], ["a1 b2"]),
    ("letters:letter_counting", {"N": 3, "relation": "less than"}, ["ab1"], ["abc"]),
    (
        "letters:letter_counting2",
        {"letter": "k", "let_frequency": 1, "let_relation": "at least"},
        ["Kite"],
        ["wind"],
    ),
    (
        "new:copy_span_idx",
        {"prompt_to_repeat": "Sing a song", "n_start": 0, "n_end": 6},
        ["sing a"],
        ["Sing a song", "ing a"],
    ),
    ("paragraphs:paragraphs", {}, ["One.\n\n***\nTwo."], ["One.\n\nTwo.", MARKED]),
    (
        "paragraphs:paragraphs2",
        {},
        ["One.\n\nTwo.", "\n\nOne.\n\nTwo."],
        ["One.\nTwo.", "a\n\n\n\nb"],
    ),
    ("punctuation:punctuation_dot", {}, ["no dots!"], ["a dot."]),
    ("punctuation:punctuation_exclamation", {}, ["calm."], ["loud!"]),
]

CASES = CASES_OF_IFEVAL + CASES_OF_FURTHER

every_case = pytest.mark.parametrize(
    ("instruction_id", "kwargs", "good", "bad"), CASES, ids=[case[0] for case in CASES]
)


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector()


def test_every_instruction_has_answers_that_follow_it_and_others() -> None:
    assert {case[0] for case in CASES_OF_IFEVAL} == IFEVAL.keys()
    assert {case[0] for case in CASES_OF_FURTHER} == FURTHER.keys()
    assert all(good and bad for _, _, good, bad in CASES)


@every_case
def test_it_tells_answers_that_follow_it_from_others(
    instruction_id: str,
    kwargs: dict[str, Any],
    good: list[str],
    bad: list[str],
    detector: LanguageDetector,
) -> None:
    instruction = bind(instruction_id, kwargs)

    def follows(text: str) -> bool:
        return instruction.follows(Answer(text, detector.detect))

    assert [text for text in good if not follows(text)] == []
    assert [text for text in bad if follows(text)] == []


@every_case
def test_nulls_beside_its_kwargs_change_nothing(
    instruction_id: str, kwargs: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    assert bind(instruction_id, {**kwargs, "of_another": None}) == bind(instruction_id, kwargs)
