"""Instructions about language and case, and the detector that tells languages apart."""

from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import field_validator

from palestra.resources_servers.instruction_following.instruction import (
    Answer,
    Count,
    Instruction,
    Relation,
    holds,
)

_LANGUAGES: Final = """
    af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk
    ml mr ne nl no pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh-cn zh-tw
"""
LANGUAGES: Final = frozenset(_LANGUAGES.split())
"""What the detector can tell apart."""
CHINESE: Final = "zh"
"""In either script; the detector always says which."""
LONGEST_TEXT: Final = 50_000
"""Characters looked at. The detector samples the first 10,000, without addresses."""
SEED: Final = 0


class LanguageDetector:
    """The detector that the published checker uses, langdetect.

    It draws random samples of a text. Here every text gets the same seed, of a detector of its own,
    so that an answer has one reward. It loads 75 MiB of profiles at the first text, in half a
    second.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._factory: Any = None

    def detect(self, text: str) -> str | None:
        """The ISO 639-1 code, or None for a text without letters of any language."""
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
    """The answer is in a language; one that shows none passes."""

    language: str

    @field_validator("language")
    @classmethod
    def _is_known(cls, language: str) -> str:
        known = LANGUAGES | {CHINESE}
        if language not in known:
            names = ", ".join(sorted(known))
            raise ValueError(
                f"no language that can be detected: {language!r}; it is one of {names}"
            )
        return language

    def follows(self, answer: Answer) -> bool:
        found = answer.language
        return found is None or self.language in {found, found.partition("-")[0]}


class EnglishCapital(Instruction):
    """The answer is in English and has no lower case."""

    def follows(self, answer: Answer) -> bool:
        return answer.text.isupper() and answer.language in {"en", None}


class EnglishLowercase(Instruction):
    """The answer is in English and has no capitals."""

    def follows(self, answer: Answer) -> bool:
        return answer.text.islower() and answer.language in {"en", None}


class CapitalWords(Instruction):
    """Less than, or at least, so many words wholly in capitals; a hyphenated one is one."""

    capital_frequency: Count
    capital_relation: Relation

    def follows(self, answer: Answer) -> bool:
        found = sum(1 for word in answer.tokens if word.isupper())
        return holds(found, self.capital_relation, self.capital_frequency)
