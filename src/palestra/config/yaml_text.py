"""Read and write YAML with OmegaConf's rules.

`1e-3` is a number; dates stay strings. A repeated key is an error when its values differ, and a
warning when they are equal. The dumper quotes every string that this loader would otherwise not
read back as a string.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palestra.config.redact import MASK, is_secret_name, mask_line
from palestra.config.tree import Steps, plain
from palestra.config.yaml_lines import line_below
from palestra.errors import ConfigError, KnownCause, Problem

if TYPE_CHECKING:
    import yaml

_FLOAT_TAG = "tag:yaml.org,2002:float"
_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"
# YAML 1.1 asks for a dot in 1.0e-3; people write 1e-3 and mean the number.
_EXPONENT_WITHOUT_DOT = re.compile(r"^[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$")
_CONTENT = re.compile(r"\s*[^\s#]")
_KEY_WITHOUT_BLANK = re.compile(r"\s*(?:- )?[A-Za-z_][\w.-]*:(?!//)[^\s:][^:]*$")
"""A line `key:value`, which is a text in YAML; a URL is none."""
_KEY_WITHOUT_COLON = re.compile(r"\s*(?:- )?([\w.-]+)\s+(?=\S)")
_OPEN_VALUE = re.compile(
    r"""\s*(?:- )?["']?([\w.-]+)["']?\s*:\s*(?:[|>].*|(["'])(?!.*\2\s*$).*)?$"""
)
"""A line `key:` whose value goes on in the next line."""
_UNICODE_BREAK = re.compile("[\x85\u2028\u2029]")


def read_yaml(path: Path) -> tuple[dict[Any, Any], tuple[str, ...]]:
    """Return the mapping in a file, and warnings. An empty file gives an empty mapping.

    Raises ConfigError: the file cannot be read, is not YAML (with line and column), gives a key two
    values, or is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        raise ConfigError(f"cannot read {path}: {failure}") from failure
    return parse_yaml(text, where=str(path))


def parse_yaml(text: str, *, where: str) -> tuple[dict[Any, Any], tuple[str, ...]]:
    """Parse YAML text like `read_yaml`. `where` names the source in errors and warnings."""
    import yaml

    try:
        value, repeats = _load(text)
    except yaml.YAMLError as failure:
        raise _syntax_error(failure, text, where) from failure
    except RecursionError as failure:
        raise ConfigError(f"{where}: nested too deeply to be a config") from failure
    if value is None:
        return {}, ()
    if not isinstance(value, dict):
        lines = text.splitlines()
        if isinstance(value, str) and (slip := _colon_without_blank(lines, len(lines))) is not None:
            raise _missing_blank(where, slip, lines[slip])
        raise ConfigError(
            f"{where} holds a {type(value).__name__}, not a mapping",
            hint="a config file is lines of `key: value`",
            cause=KnownCause.BAD_YAML,
        )
    tree: dict[Any, Any] = plain(value, where=lambda steps: _with_line(where, text, steps))
    return tree, tuple(f"{where}, {repeat}" for repeat in repeats)


def _with_line(where: str, text: str, steps: Steps) -> str:
    line = line_in(text, steps)
    return where if line is None else f"{where}:{line}"


def _load(text: str) -> tuple[Any, list[str]]:
    """Return the value of a document, and the keys that are repeated with the same value."""
    loader = _loader()(text)
    try:
        return loader.get_single_data(), loader.repeats
    finally:
        loader.dispose()


def line_at(path: Path, steps: Sequence[Any]) -> int | None:
    """Return the line, from 1, of the key that `steps` lead to in a file, which is read for it.

    When the key is missing: the line of the mapping that should have it. None: there are no steps,
    or the file cannot be read or is no mapping in YAML, such as an environment in one Python file.
    """
    return lines_at(path, [steps])[0]


def lines_at(path: Path, keys: Sequence[Sequence[Any]]) -> list[int | None]:
    """Return the line of each of some keys of one file like `line_at`. The file is read once."""
    unknown: list[int | None] = [None] * len(keys)
    if path.suffix == ".py":
        return unknown
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return unknown
    return lines_in(text, keys)


def line_in(text: str, steps: Sequence[Any]) -> int | None:
    """Return the line like `line_at`, in the text of a file."""
    return lines_in(text, [steps])[0]


def lines_in(text: str, keys: Sequence[Sequence[Any]]) -> list[int | None]:
    """Return the lines like `lines_at`, in the text of a file."""
    import yaml

    try:
        loader = _loader()(text)
        try:
            node, value_of = loader.get_single_node(), loader.construct_object
            return [line_below(node, steps, value_of) if steps else None for steps in keys]
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError):
        # not YAML any more, or a number or a tag that PyYAML does not know
        return [None] * len(keys)


def write_yaml(tree: Any) -> str:
    """Return the tree as block-style YAML in its own order. `parse_yaml` reads it back unchanged."""
    import yaml

    return yaml.dump(
        tree,
        Dumper=_dumper(),
        default_flow_style=False,
        allow_unicode=True,
        sort_keys=False,
        width=1_000_000,
    )


def _syntax_error(failure: "yaml.YAMLError", text: str, where: str) -> ConfigError:
    import yaml

    mark = getattr(failure, "problem_mark", None)
    problem = getattr(failure, "problem", None) or getattr(failure, "reason", None) or failure
    if mark is None:
        return ConfigError(f"{where} is not YAML: {problem}", cause=KnownCause.BAD_YAML)
    lines = text.splitlines()
    if (slip := _colon_without_blank(lines, mark.line)) is not None:
        return _missing_blank(where, slip, lines[slip])
    # The parser points past the end when a bracket or quote stays open.
    at = min(mark.line, max(len(lines) - 1, 0))
    column = mark.column if at == mark.line else len(lines[at]) if lines else 0
    # Of a mistake in the structure, the parser may fail only in the next line with content.
    is_structure = isinstance(failure, (yaml.scanner.ScannerError, yaml.parser.ParserError))
    above = [i for i in range(at) if _CONTENT.match(lines[i])][-1:] if is_structure else []
    message = f"{where}, line {at + 1}, column {column + 1}: {problem}"
    hint = "fix this line or the one before" if above else ""
    located = Problem(message, hint=hint, file=where, line=at + 1, cause=KnownCause.BAD_YAML)
    quoted_lines = "\n    ".join(_masked(lines, i) for i in (*above, at) if lines)
    return ConfigError(
        f"{message}\n    {quoted_lines}", hint=hint, cause=KnownCause.BAD_YAML, problems=(located,)
    )


def _masked(lines: Sequence[str], at: int) -> str:
    """Return a line of a document that is not YAML without its secret, which may be in the line below
    its name, or have no colon before it.
    """
    line = lines[at]
    indentation = line[: len(line) - len(line.lstrip())]
    opened = _OPEN_VALUE.match(lines[at - 1]) if at else None
    if opened and is_secret_name(opened[1]) and indentation:
        return f"{indentation}{MASK}"
    name = _KEY_WITHOUT_COLON.match(line)
    return f"{name[0]}{MASK}" if name and is_secret_name(name[1]) else mask_line(line)


def _colon_without_blank(lines: Sequence[str], at: int) -> int | None:
    """Return the index of a line `key:value`, at which the parser's line `at` fails; None without one.

    The parser reads such a line as a text, and fails in the next line with content.
    """
    above = (i for i in range(min(at, len(lines) - 1), -1, -1) if _CONTENT.match(lines[i]))
    nearest = list(itertools.islice(above, 2))
    return next((i for i in nearest if _KEY_WITHOUT_BLANK.match(lines[i])), None)


def _missing_blank(where: str, index: int, line: str) -> ConfigError:
    key, _, value = mask_line(line.strip()).partition(":")
    message = f"{where}, line {index + 1}, column {line.index(':') + 2}: a blank after the colon is missing"
    hint = f"write {key}: {value}"
    located = Problem(message, hint=hint, file=where, line=index + 1, cause=KnownCause.BAD_YAML)
    return ConfigError(
        f"{message}\n    {key}:{value}", hint=hint, cause=KnownCause.BAD_YAML, problems=(located,)
    )


@functools.cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.repeats: list[str] = []

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            self.repeats.extend(_repeated_keys(node))
            return super().construct_mapping(node, deep=deep)

    _read_as_omegaconf(Loader)
    return Loader


@functools.cache
def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

        def represent_str(self, data: str) -> Any:
            # PyYAML folds Unicode's line breaks away unless they are escaped.
            style = '"' if _UNICODE_BREAK.search(data) else None
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, Dumper.represent_str)

    # Only the number: a date in quotes is still read as a string.
    Dumper.add_implicit_resolver(_FLOAT_TAG, _EXPONENT_WITHOUT_DOT, list("-+0123456789"))
    return Dumper


def _read_as_omegaconf(loader: Any) -> None:
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP_TAG]
        for first, resolvers in loader.yaml_implicit_resolvers.items()
    }
    loader.add_implicit_resolver(_FLOAT_TAG, _EXPONENT_WITHOUT_DOT, list("-+0123456789"))


def _repeated_keys(node: Any) -> Iterator[str]:
    """Yield the keys that a mapping repeats with the same value. Different values are a YAML error.

    Called before merge keys (`<<`) are expanded, since they may repeat a key legitimately.
    """
    import yaml

    first_places: dict[tuple[str, str], tuple[int, Any]] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            continue
        spelling = (key.tag, key.value)
        if spelling not in first_places:
            first_places[spelling] = (key.start_mark.line + 1, value)
            continue
        line, first = first_places[spelling]
        if not _same_node(first, value):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"key {key.value!r} is given twice with different values, first in line {line}",
                key.start_mark,
            )
        yield (
            f"line {key.start_mark.line + 1}: key {key.value!r} is given twice with one value, "
            f"first in line {line}; leave one of them out"
        )


def _same_node(first: Any, second: Any) -> bool:
    """Whether two nodes of a document have the same value."""
    if first.tag != second.tag or type(first.value) is not type(second.value):
        return False
    if isinstance(first.value, str):
        return bool(first.value == second.value)
    return len(first.value) == len(second.value) and all(
        _same_pair(a, b) for a, b in zip(first.value, second.value, strict=True)
    )


def _same_pair(first: Any, second: Any) -> bool:
    """Whether two list items, or two key-value pairs of a mapping, are the same."""
    if isinstance(first, tuple):
        return _same_node(first[0], second[0]) and _same_node(first[1], second[1])
    return _same_node(first, second)
