"""Every instruction by the id that rows name it by."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from palestra.config import did_you_mean
from palestra.resources_servers.instruction_following import (
    cases,
    formats,
    keywords,
    lengths,
    wording,
)
from palestra.resources_servers.instruction_following.instruction import Instruction
from palestra.schema import rejected_fields, rejection_text

IFEVAL: Final[Mapping[str, type[Instruction]]] = MappingProxyType(
    {
        "change_case:capital_word_frequency": cases.CapitalWords,
        "change_case:english_capital": cases.EnglishCapital,
        "change_case:english_lowercase": cases.EnglishLowercase,
        "combination:repeat_prompt": wording.RepeatPrompt,
        "combination:two_responses": wording.TwoResponses,
        "detectable_content:number_placeholders": formats.Placeholders,
        "detectable_content:postscript": formats.Postscript,
        "detectable_format:constrained_response": formats.ConstrainedResponse,
        "detectable_format:json_format": formats.JsonFormat,
        "detectable_format:multiple_sections": formats.Sections,
        "detectable_format:number_bullet_lists": formats.Bullets,
        "detectable_format:number_highlighted_sections": formats.Highlights,
        "detectable_format:title": formats.Title,
        "keywords:existence": keywords.Existence,
        "keywords:forbidden_words": keywords.ForbiddenWords,
        "keywords:frequency": keywords.Frequency,
        "keywords:letter_frequency": keywords.LetterFrequency,
        "language:response_language": cases.ResponseLanguage,
        "length_constraints:nth_paragraph_first_word": lengths.ParagraphsFirstWord,
        "length_constraints:number_paragraphs": lengths.NumberOfParagraphs,
        "length_constraints:number_sentences": lengths.NumberOfSentences,
        "length_constraints:number_words": lengths.NumberOfWords,
        "punctuation:no_comma": formats.NoComma,
        "startend:end_checker": wording.EndPhrase,
        "startend:quotation": formats.Quotation,
    }
)
"""The 25 instructions of IFEval (Zhou et al. 2023)."""

FURTHER: Final[Mapping[str, type[Instruction]]] = MappingProxyType(
    {
        "copy:copy": wording.CopyPrompt,
        "copy:copying_multiple": wording.CopySeveral,
        "copy:copying_simple": wording.CopyPrompt,
        "copy:repeat_phrase": wording.RepeatPhrase,
        "count:count_increment_word": keywords.OnceAndTwice,
        "count:count_unique": keywords.UniqueWords,
        "count:counting_composition": lengths.Composition,
        "count:lowercase_counting": keywords.LowercaseWords,
        "detectable_format:bigram_wrapping": formats.WrappedBigrams,
        "detectable_format:sentence_hyphens": formats.SentenceHyphens,
        "detectable_format:square_brackets": formats.SquareBrackets,
        "first_word:first_word_answer": wording.FirstWord,
        "first_word:first_word_sent": wording.FirstWordOfSentences,
        "keywords:exclude_word_harder": keywords.ExcludedWord,
        "keywords:keyword_specific_position": keywords.AtPosition,
        "keywords:no_adjacent_consecutive": keywords.NoConsecutiveLetters,
        "keywords:palindrome": keywords.Palindrome,
        "keywords:start_end": keywords.SameStartAndEnd,
        "keywords:word_count_different_numbers": keywords.Frequency,
        "keywords:word_once": keywords.Once,
        "last_word:last_word_answer": wording.LastWord,
        "last_word:last_word_sent": wording.LastWordOfSentences,
        "letters:letter_counting": keywords.LetterCount,
        "letters:letter_counting2": keywords.LetterFrequency,
        "new:copy_span_idx": wording.CopySpan,
        "paragraphs:paragraphs": lengths.TwoDividedParagraphs,
        "paragraphs:paragraphs2": lengths.TwoParagraphs,
        "punctuation:punctuation_dot": formats.NoPeriod,
        "punctuation:punctuation_exclamation": formats.NoExclamationMark,
    }
)
"""The 29 that training sets after IFEval added (IF-RLVR, Pyatkin et al. 2025)."""

INSTRUCTIONS: Final = MappingProxyType({**IFEVAL, **FURTHER})


def bind(instruction_id: str, kwargs: Mapping[str, Any] | None) -> Instruction:
    """The instruction of a row. Raises ValueError for an unknown id, and for what kwargs lack."""
    found = INSTRUCTIONS.get(instruction_id)
    if found is None:
        near = did_you_mean(instruction_id, INSTRUCTIONS)
        raise ValueError(f"there is no instruction {instruction_id!r}{near}")
    given = {name: value for name, value in (kwargs or {}).items() if value is not None}
    try:
        return found.model_validate(given)
    except ValidationError as error:
        raise ValueError(
            f"{instruction_id}: {rejection_text(rejected_fields(given, error))}"
        ) from None
