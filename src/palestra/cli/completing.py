"""Completes command lines: the shells' scripts, and the words that fit at the cursor."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from palestra.cli.console import notice, say
from palestra.errors import ConfigError
from palestra.settings import CompletionArgs
from palestra.system import shown

_TAKE_ENVIRONMENTS: Final = frozenset({"eval", "show", "test", "verify-env"})
"""Commands whose first argument is an environment."""

_BASH: Final = """\
_palestra() {
    local IFS=$'\\n'
    # shellcheck disable=SC2207 # one candidate a line
    COMPREPLY=($(PALESTRA_COMPLETE="${COMP_LINE:0:COMP_POINT}" palestra 2>/dev/null | cut -f1))
}
complete -o default -F _palestra palestra
"""
_ZSH: Final = """\
#compdef palestra
_palestra() {
    local -a candidates
    local value help
    while IFS=$'\\t' read -r value help; do
        candidates+=("${value//:/\\\\:}:$help")
    done < <(PALESTRA_COMPLETE="${(j: :)words[1,CURRENT]}" palestra 2>/dev/null)
    if (( ${#candidates} )); then
        _describe palestra candidates
    else
        _files
    fi
}
if [[ $funcstack[1] == _palestra ]]; then
    _palestra "$@"
else
    compdef _palestra palestra
fi
"""
_FISH: Final = """\
complete --command palestra --arguments '(env PALESTRA_COMPLETE=(commandline --cut-at-cursor) palestra 2>/dev/null)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(args: CompletionArgs) -> int:
    """Print a shell's script, or write it where the shell looks for it."""
    script = _SCRIPTS[args.shell]
    if not args.install:
        say(script.rstrip())
        return 0
    path = script_path(args.shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}",
            hint=f"palestra completion {args.shell} prints the script",
        ) from error
    say(f"wrote {shown(path)}; it works in new shells")
    if args.shell == "zsh" and not _zsh_looks_in(path.parent):
        notice(f"hint: add this line to ~/.zshrc, before compinit: fpath+=({shown(path.parent)})")
    return 0


def script_path(shell: str) -> Path:
    """Return where a shell looks for the user's own completions."""
    home = Path.home()
    match shell:
        case "bash":
            data = os.environ.get("XDG_DATA_HOME") or home / ".local" / "share"
            return Path(data) / "bash-completion" / "completions" / "palestra"
        case "zsh":
            return Path(os.environ.get("ZDOTDIR") or home) / ".zfunc" / "_palestra"
    config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(config) / "fish" / "completions" / "palestra.fish"


def _zsh_looks_in(folder: Path) -> bool:
    settings = folder.parent / ".zshrc"
    return settings.is_file() and folder.name in settings.read_text(errors="replace")


def complete(command: Any, line: str) -> None:
    """Print the candidates for the last word of a command line: one a line, with a tab and what it
    means.
    """
    for value, meaning in candidates(command, line):
        sys.stdout.write(f"{value}\t{meaning}\n")


def candidates(command: Any, line: str) -> Iterator[tuple[str, str]]:
    """Yield each word that may stand at the end of a command line, and what it means.

    `command`: the root of the commands.
    """
    words = _words(line)[1:]
    prefix = "" if not words or line[-1:].isspace() else words.pop()
    names: list[str] = []
    for word in words:
        below = getattr(command, "commands", {}).get(word)
        if below is not None:
            command = below
            names.append(word)
    if prefix.startswith("-"):
        matches = _options(command)
    elif getattr(command, "commands", {}):
        matches = _commands(command)
    elif names[:1] and names[0] in _TAKE_ENVIRONMENTS and words[-1:] == names[-1:]:
        matches = _environments()
    else:
        return
    for value, meaning in matches:
        if value.startswith(prefix):
            yield value, meaning


def _words(line: str) -> list[str]:
    """Split a command line like a shell. Its last quote may still be open."""
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            return shlex.split(line + closing)
    return line.split()


def _commands(group: Any) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield name, command.get_short_help_str(80)


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        meaning = " ".join((getattr(parameter, "help", "") or "").split())
        for name in (*parameter.opts, *parameter.secondary_opts):
            if name.startswith("--"):
                yield name, meaning
    yield "--help", "Show this message and exit."


def _environments() -> Iterator[tuple[str, str]]:
    from palestra.api import list_environments

    for summary in list_environments():
        yield summary.name, summary.description
