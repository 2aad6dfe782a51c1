"""The table of known problems, and how to look them up.

The table is data (`signatures.toml`): the error messages, the layer and cause that they mean, the
reason, and what to do. `doctor` and `diagnose` classify with it, an error without its own hint gets
its hint from it, and `docs/reference/troubleshooting.md` is generated from it. Each entry contains
example lines with which a test checks it.
"""

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from importlib import resources
from typing import Any, Final, Self, final

from palestra.causes.needed_texts import needed_text
from palestra.errors import Layer
from palestra.schema import SELECT_FAILED, JsonObject, ReverifyCommand

LAYERS: Final = tuple(Layer)
"""The order in which layers are checked and reported. A fault in one explains faults in later ones.
"""
TABLE: Final = "signatures.toml"
LONGEST_WORD: Final = 512
"""Of a longer word, patterns see both ends only: some need time with the square of its length."""
LONGEST_TEXT: Final = 4096
"""Of a longer text, patterns see both ends only: the time that they need grows with the length."""
_CUT: Final = " … "
_REVERIFY: Final = re.compile("`palestra reverify[^`]*`")
_LONG_WORD: Final = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


class Severity(StrEnum):
    """The severity of a finding. Only errors make a command exit 1."""

    ERROR = "error"
    """The run fails, or its output cannot be trusted."""
    WARNING = "warning"
    """The run continues, but slower or with less than was requested."""
    NOTE = "note"
    """Nothing is wrong: a check was skipped, or the finding is only information."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One known problem. The fields are those of the table."""

    cause: str
    layer: Layer
    title: str
    why: str
    do: str
    then: str = ""
    """What to do next about the existing run."""
    says: tuple[re.Pattern[str], ...] = ()
    lines: bool = False
    explains: frozenset[str] = frozenset()
    severity: Severity = Severity.ERROR
    examples: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    has_hint: bool = True
    """Whether `do` says more than the message of an error, so that a command prints it."""
    of_any_layer: bool = False
    """Whether the entry applies to every layer. The document has one section for all of them."""

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match of the entry's patterns in `text`; None without one."""
        short = short_text(text)
        return next(filter(None, (pattern.search(short) for pattern in self.says)), None)

    def fields_in(self, text: str) -> dict[str, str]:
        """Return what the named groups of the entry's patterns match in `text`, by name."""
        match = self.search(text)
        groups = match.groupdict() if match else {}
        # The groups of one entry need different names: `path`, `path2`.
        return {name.rstrip("0123456789"): value for name, value in groups.items() if value}

    def action(
        self, fields: Mapping[str, str] | None = None, *, reverify: ReverifyCommand | None = None
    ) -> str:
        """Return what to do after a run, with `fields` (the pattern's named groups) filled in.

        `reverify`: the command that verifies the kept answers of these failures; None: there are
        none, or the command is not known.
        """
        do, then = (text.format_map(_Named(fields or {})) for text in (self.do, self.then))
        if reverify is not None:
            then = _with_command(then, reverify)
        return f"{do}; then {then}" if then else do

    def do_with(self, fields: Mapping[str, Any]) -> str:
        """Return what to do before a run, with `fields` filled in."""
        return self.do.format_map(_Named({k: str(v) for k, v in fields.items()}))

    def do_of(self, text: str) -> str:
        """Return what to do before a run, with the pattern's named groups in `text` filled in."""
        return self.do_with(self.fields_in(text))


def _with_command(then: str, reverify: ReverifyCommand) -> str:
    """Return what to do next about a run with kept answers that a command verifies."""
    if reverify.needs_session:
        return f"`{SELECT_FAILED}` writes the tasks for new rollouts: verify needs the live session"
    if _REVERIFY.search(then):
        return _REVERIFY.sub(lambda _: reverify.text, then, count=1)
    return f"{reverify.text} scores the kept answers, without the model"


def short_text(text: str) -> str:
    """Return what patterns see of `text`: its middle is left out when it is longer than
    `LONGEST_TEXT`, and that of every word that is longer than `LONGEST_WORD`.
    """
    if len(text) <= LONGEST_WORD:
        return text
    if len(text) > LONGEST_TEXT:
        half = (LONGEST_TEXT - len(_CUT)) // 2
        text = f"{text[:half]}{_CUT}{text[-half:]}"
    half = LONGEST_WORD // 2
    return _LONG_WORD.sub(lambda word: f"{word[0][:half]}{_CUT}{word[0][-half:]}", text)


class _Named(dict[str, str]):
    """A mapping in which a missing name gives the name in capitals, as a placeholder."""

    def __missing__(self, name: str) -> str:
        return name.upper()


@final
@dataclass(frozen=True)
class SignatureTable:
    """All known problems, in the order in which they are tried."""

    signatures: tuple[Signature, ...]
    noise: tuple[re.Pattern[str], ...]
    relays: tuple[re.Pattern[str], ...]
    words: tuple[str, ...] = ()

    @classmethod
    @functools.cache
    def load(cls) -> Self:
        """Return the table shipped with Palestra, read once. Raises ValueError: an entry is
        invalid.
        """
        text = resources.files("palestra.causes").joinpath(TABLE).read_text(encoding="utf-8")
        table = tomllib.loads(text)
        sentences: Mapping[str, str] = table["sentences"]
        entries = [_signature(entry, sentences) for entry in table["signature"]]
        known_causes = {entry.cause for entry in entries}
        entries += [
            entry
            for layer in LAYERS
            for fields in table["any_layer"]
            if (entry := _of_any_layer(fields, layer, sentences)).cause not in known_causes
        ]
        return cls(
            tuple(entries),
            tuple(_patterns(says for entry in table["noise"] for says in entry["says"])),
            tuple(_patterns(says for entry in table["relay"] for says in entry["says"])),
            tuple(table["words"]),
        )

    def match(self, text: str) -> tuple[Signature, re.Match[str]] | None:
        """Return the first signature that matches `text`, and the match; None without one."""
        short = short_text(text)
        lower = short.lower()
        for needed, pattern, signature in self._searches:
            if needed in lower and (match := pattern.search(short)):
                return signature, match
        return None

    @cached_property
    def _searches(self) -> Sequence[tuple[str, re.Pattern[str], Signature]]:
        """Each pattern, in order, with the text that it needs."""
        return [
            (needed_text(pattern.pattern), pattern, signature)
            for signature in self.signatures
            for pattern in signature.says
        ]

    def explain(self, cause: str, text: str) -> Signature | None:
        """Return the entry of a recorded failure: of its cause, else the first that matches what it
        says; None without one.
        """
        by_cause = self.by_cause.get(cause)
        if by_cause is not None:
            return by_cause
        matched = self.match(text)
        return matched[0] if matched else None

    def is_noise(self, text: str) -> bool:
        """Whether servers print `text` whenever they stop, whatever the cause."""
        return any(pattern.search(text) for pattern in self.noise)

    def is_relay(self, text: str) -> bool:
        """Whether `text` only passes on a failure from elsewhere."""
        return any(pattern.search(text) for pattern in self.relays)

    def is_worth_a_look(self, line: str) -> bool:
        """Whether a plain log line may match a signature or be noise: a fast test of its words."""
        lower = line.lower()
        return any(word in lower for word in self.words)

    def is_telling(self, line: str) -> bool:
        """Whether a plain log line, neither error nor exception, matches a signature."""
        return self._telling.search(line) is not None

    @cached_property
    def _telling(self) -> re.Pattern[str]:
        # One pattern for all of them, without the groups' names: logs are long.
        sources = (
            re.sub(r"\(\?P<\w+>", "(?:", pattern.pattern)
            for signature in self.signatures
            if signature.lines
            for pattern in signature.says
        )
        return re.compile("|".join(f"(?:{source})" for source in sources), re.IGNORECASE)

    @cached_property
    def by_cause(self) -> Mapping[str, Signature]:
        """The entry of each cause id."""
        return {signature.cause: signature for signature in self.signatures}


def _signature(entry: JsonObject, sentences: Mapping[str, str]) -> Signature:
    cause, then = str(entry["cause"]), str(entry.get("then", ""))
    for name, sentence in sentences.items():
        then = then.replace(f"{{{name}}}", sentence)
    return Signature(
        cause=cause,
        layer=_layer_of(cause),
        title=entry["title"],
        why=entry["why"],
        do=entry["do"],
        then=then,
        says=_patterns(entry.get("says", ())),
        lines=entry.get("lines", False),
        explains=frozenset(entry.get("explains", ())),
        severity=Severity(entry.get("severity", "error")),
        examples=tuple(entry.get("examples", ())),
        unlike=tuple(entry.get("unlike", ())),
        has_hint=entry.get("hint", True),
    )


def _of_any_layer(entry: JsonObject, layer: Layer, sentences: Mapping[str, str]) -> Signature:
    cause = f"{stem_of(layer)}.{entry['what']}"
    return replace(_signature({**entry, "cause": cause}, sentences), of_any_layer=True)


def _layer_of(cause: str) -> Layer:
    stem = cause.partition(".")[0]
    for layer in LAYERS:
        if stem_of(layer) == stem:
            return layer
    raise ValueError(f"{TABLE}: {stem!r} of {cause!r} is not a layer")


def stem_of(layer: Layer) -> str:
    """Return the first part of a layer's cause ids, such as `data` for the layer data/schema."""
    return re.split(r"\W", layer.value)[0]


def _patterns(sources: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(source, re.IGNORECASE) for source in sources)


def troubleshooting(table: SignatureTable) -> str:
    """Return `docs/reference/troubleshooting.md`: the table for people, with error messages as
    headings.
    """
    parts = [_PREFACE]
    for layer in LAYERS:
        parts.append(f"## {layer.value[0].upper()}{layer.value[1:]}\n")
        parts += [
            _section(entry)
            for entry in table.signatures
            if entry.layer is layer and not entry.of_any_layer
        ]
    parts.append("## Any layer\n")
    anywhere = {entry.title: entry for entry in table.signatures if entry.of_any_layer}
    parts += [_section(entry) for entry in anywhere.values()]
    return "\n".join(parts)


def _section(entry: Signature) -> str:
    example = "".join(f"\n```text\n{line}\n```\n" for line in entry.examples[:1])
    why = f"{entry.why[0].upper()}{entry.why[1:]}."
    do = entry.action()
    cause = f"…{entry.cause[entry.cause.index('.') :]}" if entry.of_any_layer else entry.cause
    do = f"{do[0].upper()}{do[1:]}."
    return f"### {entry.title}\n{example}\n{why}\n\n**Do:** {do} (`{cause}`)\n"


_PREFACE: Final = """# Troubleshooting

<!-- Written by scripts/write_troubleshooting.py from src/palestra/causes/signatures.toml. -->

[`palestra doctor`](../how-to/doctor.md) looks before a run, `palestra diagnose RUN` after one. Both name a
layer and a cause, quote what shows it, and say what to do.

```console
$ palestra eval reasoning_gym --model local --limit 2 --repeats 2 --max-output-tokens 32 \\
    --output out/run.jsonl
$ palestra diagnose out/run.jsonl
$ palestra diagnose out --json
```

`RUN` is an output or its stem, the folder of a run, a log, or the number of a Slurm job. A command
that ends before its first rollout leaves only what it printed, so keep that
(`palestra collect … 2>&1 | tee run.log`) and diagnose the log; `--log FILE` adds further ones, of a
server or an endpoint. Exit 0: nothing wrong was found. Exit 1: something is wrong. Exit 2: that is
no run.

- The first finding is the likely cause; what follows from it stands below it as a consequence.
- Of a chain of exceptions the innermost counts, and what servers say whenever they stop does not.
- A failure that passed several servers is one line: its row, the way, the innermost answer.
- A failing row is held, field by field, to what its environment asks for.
- The materialized inputs are held to their source (the manifest names it, or `--input FILE`) and
  to the results: stale ones are told with both times.
- Scored rollouts are looked at together: rewards that are all alike, answers that are empty or
  cut, and tools that broke are warnings.
- What fits no section below stays unknown: it is quoted, with all that was looked at.
- Keys, and the secrets of env.yaml and of the environment, are masked in what is quoted.

This is the table that both go by, in the order in which layers are looked at: a fault in one
explains those after it. What an error says below itself (`hint: …`) is about that one case; without
a hint of its own it shows this table's, where that says more than the message. Each section is headed by
what is on the screen, and ends with the cause's name in `palestra diagnose --json`.
`palestra skills install` brings skills for coding agents; the order of work is in
[the debugging skill](../../skills/palestra-debugging/SKILL.md).
"""
