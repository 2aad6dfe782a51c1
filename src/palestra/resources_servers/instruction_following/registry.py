"""All instructions by id, and the instructions about language and letter case."""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError, field_validator

from palestra.config import did_you_mean
from palestra.resources_servers.instruction_following import (
    formats,
    keywords,
    lengths,
    wording,
)
from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    Relation,
    holds,
)
from palestra.schema import JsonObject, rejected_fields, rejection_text

_LANGUAGES: Final = """
    af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk
    ml mr ne nl no pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh-cn zh-tw
"""
LANGUAGES: Final = frozenset(_LANGUAGES.split())
"""The languages that the detector can identify."""
CHINESE: Final = "zh"
"""Chinese in either script. The detector returns zh-cn or zh-tw."""
LONGEST_TEXT: Final = 50_000
"""The number of characters that are checked. The detector samples the first 10,000, without
addresses."""
SEED: Final = 0


class LanguageDetector:
    """langdetect, the language detector of the published checker.

    langdetect draws random samples of a text. Every text gets a detector of its own with the same
    seed, so an answer always gets the same reward. The first text loads 75 MiB of profiles, in half
    a second.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._factory: Any = None

    def detect(self, text: str) -> str | None:
        """Return the ISO 639-1 code of a text; None when the text has no letters of any language."""
        from langdetect.lang_detect_exception import (  # type: ignore[import-untyped]
            LangDetectException,
        )

        detector = self._loaded().create()
        detector.append(text[:LONGEST_TEXT])
        try:
            return str(detector.detect())
        except LangDetectException:
            return None

    def _loaded(self) -> Any:
        with self._lock:
            if self._factory is None:
                self._factory = _load()
            return self._factory


def _load() -> Any:
    from langdetect.detector_factory import (  # type: ignore[import-untyped]
        PROFILES_DIRECTORY,
        DetectorFactory,
    )

    factory = DetectorFactory()
    factory.set_seed(SEED)
    # In an order that is the same on every machine: sums of probabilities depend on it.
    profiles = sorted(Path(PROFILES_DIRECTORY).iterdir())
    factory.load_json_profile([profile.read_text("utf-8") for profile in profiles])
    return factory


class ResponseLanguage(Instruction):
    """The answer is in the language `language`. An answer without a detectable language passes."""

    language: str

    @field_validator("language")
    @classmethod
    def _is_known(cls, language: str) -> str:
        languages = LANGUAGES | {CHINESE}
        if language not in languages:
            names = ", ".join(sorted(languages))
            raise ValueError(f"the language {language!r} cannot be detected; choose one of {names}")
        return language

    def follows(self, answer: Answer) -> bool:
        language = answer.language
        return language is None or self.language in {language, language.partition("-")[0]}


class EnglishCapital(Instruction):
    """The answer is in English and has no lower-case letters."""

    def follows(self, answer: Answer) -> bool:
        return answer.text.isupper() and answer.language in {"en", None}


class EnglishLowercase(Instruction):
    """The answer is in English and has no capital letters."""

    def follows(self, answer: Answer) -> bool:
        return answer.text.islower() and answer.language in {"en", None}


class CapitalWords(Instruction):
    """Less than, or at least, `capital_frequency` words are all in capitals. A hyphenated word
    counts as one.
    """

    capital_frequency: Count
    capital_relation: Relation

    def follows(self, answer: Answer) -> bool:
        count = sum(1 for word in answer.tokens if word.isupper())
        return holds(count, self.capital_relation, self.capital_frequency)


IFEVAL: Final[Mapping[str, type[Instruction]]] = MappingProxyType(
    {
        "change_case:capital_word_frequency": CapitalWords,
        "change_case:english_capital": EnglishCapital,
        "change_case:english_lowercase": EnglishLowercase,
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
        "language:response_language": ResponseLanguage,
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
"""The 29 instructions that later training sets added (IF-RLVR, Pyatkin et al. 2025)."""

INSTRUCTIONS: Final = MappingProxyType({**IFEVAL, **FURTHER})


def bind(instruction_id: str, kwargs: JsonObject | None) -> Instruction:
    """Build the instruction of a row. Raises ValueError: unknown id, or wrong or missing
    parameters.
    """
    instruction_class = INSTRUCTIONS.get(instruction_id)
    if instruction_class is None:
        near = did_you_mean(instruction_id, INSTRUCTIONS)
        raise ValueError(f"there is no instruction {instruction_id!r}{near}")
    arguments = {name: value for name, value in (kwargs or {}).items() if value is not None}
    try:
        return instruction_class.model_validate(arguments)
    except ValidationError as error:
        raise ValueError(
            f"{instruction_id}: {rejection_text(rejected_fields(arguments, error))}"
        ) from None
