"""Prompt templates: a YAML file with `user` and optionally `system`, filled from a row's fields."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.config import did_you_mean, line_at, parse_yaml
from palestra.errors import ConfigError
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject, double_brace_problem, doubly_braced
from palestra.system import file_and_line, shown

WRITE_BRACES: Final = "write a literal brace twice: {{ }}"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template with `{field}` placeholders."""

    user: str
    system: str = ""

    def fields(self) -> set[str]:
        """Return the row fields that the template uses. Raises ValueError: a stray brace, or a
        placeholder `{}` without a name.
        """
        names = {
            name
            for text in (self.system, self.user)
            for _, name, _, _ in string.Formatter().parse(text)
            if name is not None
        }
        if "" in names:
            raise ValueError("a placeholder has no name")
        if attribute := next((name for name in names if "." in name), None):
            raise ValueError(f"{{{attribute}}}: fields have no attributes; write {{field[key]}}")
        return {name.split("[")[0] for name in names}

    def missing(self, row: JsonObject) -> list[str]:
        """Return the placeholders without a matching field in `row`."""
        return sorted(self.fields() - row.keys())

    def warning(self, path: Path) -> str:
        """Return a warning when the template, of the file `path`, names no field of the rows; empty
        when it names one.
        """
        if self.fields():
            return ""
        return (
            f"prompt_config {shown(path)} names no field of the rows, such as {{question}}: every row "
            "is asked the same"
        )

    def fill(self, row: JsonObject) -> list[dict[str, str]]:
        """Return the messages for one row."""
        messages = [{"role": "user", "content": self.user.format(**row)}]
        if self.system:
            messages.insert(0, {"role": "system", "content": self.system.format(**row)})
        return messages


def fill_row(template: PromptTemplate, row: JsonObject) -> JsonDict:
    """Return `row` with the filled template as its input.

    Raises ValueError that explains why the template cannot be filled.
    """
    params = row.get(CREATE_PARAMS) or {}
    if not isinstance(params, Mapping):
        raise ValueError(f"/{CREATE_PARAMS}: should be an object")  # noqa: TRY004  # data, not code
    if params.get("input"):
        raise ValueError(
            f"/{CREATE_PARAMS}/input is there already, and prompt_config would replace it"
        )
    if missing := template.missing(row):
        braces = "" if all(name.isidentifier() for name in missing) else f"; {WRITE_BRACES}"
        near = did_you_mean(missing[0], row.keys() - {CREATE_PARAMS})
        raise ValueError(f"prompt_config needs the fields {', '.join(missing)}{near}{braces}")
    text = f"{template.system}\n{template.user}"
    if not template.fields() and (names := doubly_braced(text, row)):
        raise ValueError(f"prompt_config has no field: {double_brace_problem(names[0])}")
    try:
        return {**row, CREATE_PARAMS: {**params, "input": template.fill(row)}}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"prompt_config cannot be filled: {type(error).__name__}: {error}"
        ) from error


def load_prompt(path: Path) -> PromptTemplate:
    """Read a template. Raises ConfigError: the file is missing or has no `user` text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"prompt_config {path}: {error.strerror}",
            hint="relative paths start at the working directory",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"prompt_config {path} is not text: {error}") from error
    prompt, _ = parse_yaml(text, where=f"prompt_config {shown(path)}")
    if not isinstance(prompt.get("user"), str):
        raise ConfigError(f"prompt_config {_at_key(path, 'user')} needs a text under `user`")
    unknown = [key for key in prompt if key not in {"user", "system"}]
    if unknown:
        raise ConfigError(
            f"prompt_config {_at_key(path, unknown[0])}: unknown {', '.join(map(str, unknown))}",
            hint="known: user, system",
        )
    template = PromptTemplate(user=prompt["user"], system=str(prompt.get("system") or ""))
    try:
        template.fields()
    except ValueError as error:
        where = _at_key(path, _wrong_key(template))
        raise ConfigError(f"prompt_config {where}: {error}", hint=WRITE_BRACES) from error
    return template


def _at_key(path: Path, key: Any) -> str:
    """Return the file and the line of a key, for a message."""
    return file_and_line(path, line_at(path, (key,)))


def _wrong_key(template: PromptTemplate) -> str:
    """Return the key whose text cannot be a template."""
    try:
        PromptTemplate(user=template.user).fields()
    except ValueError:
        return "user"
    return "system"
