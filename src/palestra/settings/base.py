"""The base classes of command settings, and the validation of settings."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape, has_magic
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from palestra.config import PACKAGE_ROOT, ConfigTree, Flag, flag, resolve_path
from palestra.errors import ConfigError
from palestra.system import matching_files

Args = TypeVar("Args", bound=BaseModel)
HOW_TO_GIVE: Final = "give a setting by its flag, as +name=value, or as a line of env.yaml"
_BY_OVERRIDES: Final = "give a setting as +name=value, or as a line of env.yaml"
"""The same hint for the users of a program without flags."""


_FLAG_BESIDE_NAME: Final = re.compile(r"(\w+) \((--[\w-]+)\)")
"""A setting's name with its flag, as messages about several settings have it."""


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """What is wrong with one setting."""

    name: str
    """The setting's name; empty for a problem of several settings."""
    flags: tuple[str, ...]
    """The flags of the setting; the first one is the usual one."""
    sentence: str
    """The rest of the message, such as `should be at least 1, got 0`."""
    is_missing: bool = False

    def text(self, arguments: Sequence[str] = (), *, by_flags: bool | None = None) -> str:
        """Return the message in the words of a command line.

        `arguments`: the command line; a flag that is in it names the setting. `by_flags`: whether
        users of this command give settings as flags; None: it is unknown, so both are named.
        """
        if not self.name:
            if by_flags is None:
                return self.sentence
            return _FLAG_BESIDE_NAME.sub(r"\2" if by_flags else r"\1", self.sentence)
        typed = next((flag for flag in self.flags if is_typed(flag, arguments)), "")
        if by_flags and self.is_missing and self.flags:
            return f"{self.flags[0]} {self.sentence}"
        return f"{typed or self.name}: {self.sentence}"

    def with_flags(self, flags: Mapping[str, tuple[str, ...]]) -> "SettingProblem":
        """Return the same problem with the flags of another program. `flags`: by setting; one that is
        not in it has none there.
        """
        if self.name:
            return replace(self, flags=flags.get(self.name, ()))

        def named(match: re.Match[str]) -> str:
            names = flags.get(match[1], ())
            return f"{match[1]} ({names[0]})" if names else match[1]

        return replace(self, sentence=_FLAG_BESIDE_NAME.sub(named, self.sentence))

    def named_by(self, name_of: Callable[[str], str]) -> "SettingProblem":
        """Return the same problem with the settings named as `name_of` does, and without flags."""
        if self.name:
            return replace(self, name=name_of(self.name))
        sentence = _FLAG_BESIDE_NAME.sub(lambda match: name_of(match[1]), self.sentence)
        return replace(self, sentence=sentence)


def is_typed(flag: str, arguments: Sequence[str]) -> bool:
    """Whether a command line has this flag."""
    return any(word == flag or word.startswith(f"{flag}=") for word in arguments)


class InvalidSettings(ConfigError):
    """Settings of a command are missing or invalid. The message lists all of them."""

    settings: tuple[SettingProblem, ...] = ()
    """The problems one by one; empty when the message is already in the words of the command."""

    @classmethod
    def of(cls, settings: Sequence[SettingProblem], *, hint: str = "") -> Self:
        """Return the error that lists these problems."""
        error = cls("; ".join(problem.text() for problem in settings), hint=hint)
        error.settings = tuple(settings)
        return error

    @classmethod
    def about(cls, sentence: str, *, hint: str = "") -> Self:
        """Return the error that settings contradict each other. `sentence`: names each of them with
        its flag, such as `output_dirpath (--output-dir)`.
        """
        return cls.of([SettingProblem("", (), sentence)], hint=hint)

    def in_words_of(
        self, arguments: Sequence[str], *, by_flags: bool, takes_flags: bool = True
    ) -> ConfigError:
        """Return the same error in the words of the command line that caused it.

        `by_flags`: whether its users give settings as flags. `takes_flags`: whether they can.
        """
        if not self.settings:
            return self
        texts = (problem.text(arguments, by_flags=by_flags) for problem in self.settings)
        is_missing = any(problem.is_missing for problem in self.settings)
        hint = "" if by_flags and is_missing and self.hint == HOW_TO_GIVE else self.hint
        if not takes_flags and hint == HOW_TO_GIVE:
            hint = _BY_OVERRIDES
        return ConfigError("; ".join(texts), hint=hint)


class Settings(BaseModel):
    """The settings of a command. A field with a description is also a flag.

    Every number must be finite: `nan` is neither below nor above a limit, so no check refuses it.
    The validator of a model is built on first use, because a command's help only needs the fields.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, allow_inf_nan=False)


class JsonArgs(Settings):
    """The settings of a command that can also print its result as JSON."""

    as_json: Annotated[bool, flag("--json")] = Field(
        default=False, description="One JSON document on stdout, all else on stderr."
    )


def args_from(model: type[Args], tree: ConfigTree, *, hint: str = HOW_TO_GIVE) -> Args:
    """Return the command's settings. Raises InvalidSettings: settings are missing or invalid; the
    message lists all of them.

    `hint`: how to give a missing setting.
    """
    values = {key: value for key, value in tree.items() if value is not None}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    problems = [_problem(model, details) for details in errors]
    is_missing = any(problem.is_missing for problem in problems)
    raise InvalidSettings.of(problems, hint=hint if is_missing or hint != HOW_TO_GIVE else "")


def of_key(key: str, sentence: str, value: object) -> PydanticCustomError:
    """Return the error of a validator about one key of a mapping."""
    context = {"key": key, "value": value, "sentence": sentence}
    return PydanticCustomError("of_key", "{sentence}", context)


def _problem(model: type[BaseModel], error: ErrorDetails) -> SettingProblem:
    """Return what is wrong with one setting, or with settings that contradict each other."""
    context, steps, value = error.get("ctx") or {}, error["loc"], error["input"]
    if error["type"] == "of_key":
        steps, value = (*steps, context["key"]), context["value"]
    if not steps:
        return SettingProblem("", (), error["msg"].removeprefix("Value error, "))
    name = ".".join(str(part) for part in steps)
    flags = flags_of(model, str(steps[0]))
    if error["type"] == "missing":
        sentence = f"is required{_choices_of(model, name)}"
        return SettingProblem(name, flags, sentence, is_missing=True)
    sentence = _sentence(model, error)
    if isinstance(value, Path):
        value = str(value)
    if repr(value) not in sentence:
        sentence = f"{sentence}, got {value!r}"
    return SettingProblem(name, flags, sentence)


_SENTENCES: Final[Mapping[str, str]] = {
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "int_type": "should be a whole number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "finite_number": "should be a finite number",
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "string_type": "should be text",
    "string_too_short": "should not be empty",
}
_RANGE_WORDS: Final = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_BOUNDS: Final = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})


def _sentence(model: type[BaseModel], error: ErrorDetails) -> str:
    """Return what the value should be, in plain words, with the whole range of a number."""
    field = model.model_fields.get(str(error["loc"][0]))
    if is_bound(error) and field is not None and (bounds := _range_of(field)):
        return f"should be {bounds}"
    return sentence_of(error)


def sentence_of(error: ErrorDetails) -> str:
    """Return what a value should be, in plain words."""
    plain = error["msg"].removeprefix("Value error, ")
    return _SENTENCES.get(error["type"], plain.replace("Input should be", "should be", 1))


def is_bound(error: ErrorDetails) -> bool:
    """Whether a number is outside of its range."""
    return error["type"] in _BOUNDS


def _choices_of(model: type[BaseModel], name: str) -> str:
    """Return the only values of a setting, to add to a sentence; empty when there may be others."""
    field = model.model_fields.get(name)
    if field is None or get_origin(field.annotation) is not Literal:
        return ""
    return f": {' or '.join(map(str, get_args(field.annotation)))}"


def _range_of(field: FieldInfo) -> str:
    """Return the range of a number; empty when it has no limits."""
    limits = [
        (name, limit)
        for name in _RANGE_WORDS
        for item in field.metadata
        if (limit := getattr(item, name, None)) is not None
    ]
    return range_text(dict(limits))


def range_text(limits: Mapping[str, float | None]) -> str:
    """Return a range in words, such as `from 0 to 1`; empty without limits.

    `limits`: some of `ge`, `gt`, `le` and `lt`; None is no limit.
    """
    texts = {name: f"{limit:g}" for name, limit in limits.items() if limit is not None}
    if texts.keys() == {"ge", "le"}:
        return f"from {texts['ge']} to {texts['le']}"
    return " and ".join(f"{_RANGE_WORDS[name]} {limit}" for name, limit in texts.items())


def flags_of(model: type[BaseModel], name: str) -> tuple[str, ...]:
    """Return the flags of a setting; empty when the setting is not a flag."""
    field = model.model_fields.get(name)
    if field is None or not field.description:
        return ()
    spelled = next((item for item in field.metadata if isinstance(item, Flag)), Flag())
    if spelled.argument:
        return ()
    names = spelled.names or (f"--{name.replace('_', '-')}",)
    return tuple(name for text in names for name in text.split("/"))


def named_as_rows(value: Any) -> Any:
    """Refuse another name than of plain JSON lines: they are written uncompressed, and the run's other
    files are found by its stem.
    """
    from palestra.schema import bare_name

    if not isinstance(value, str | Path):
        return value  # of no path: the type itself refuses it
    path = Path(value)
    if path.suffix != ".jsonl":
        example = path / "rollouts.jsonl"
        if path.suffix:
            example = path.with_name(bare_name(path)).with_suffix(".jsonl")
        what = "is a folder, and should be a file that ends" if path.is_dir() else "should end"
        raise PydanticCustomError(
            "rows",
            "{what} with .jsonl, such as {example}",
            {"what": what, "example": str(example)},
        )
    return value


OF_ROWS: Final = BeforeValidator(named_as_rows)
"""Part of the type of an output of rollouts: its name must end with `.jsonl`."""


def existing_path(path: str) -> Path:
    """Return `path` in the working directory; if it does not exist there, but in the installed
    package, the path in the package.
    """
    return resolve_path(path, Path.cwd(), PACKAGE_ROOT)


def existing_paths(path: str | Path, folder: Path | None = None) -> tuple[Path, ...]:
    """Return the files that match, when `path` is a glob; only `existing_path` of any other path,
    and of a glob that matches nothing.

    `folder`: where relative paths begin, instead of the places of `existing_path`.
    """
    pattern = Path(path)
    resolved = existing_path(str(path))
    if folder is not None:
        resolved = folder / pattern.expanduser()
        pattern = Path(escape(str(folder))) / pattern.expanduser()
    if resolved.exists() or not has_magic(str(path)):
        return (resolved,)
    return tuple(match.absolute() for match in matching_files(pattern)) or (resolved,)
