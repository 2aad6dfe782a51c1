"""A fake of the programs docker and apptainer, for machines where no container can run.

It is a shell script that logs its arguments and runs the words of `exec` on this machine.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = r"""#!/bin/sh
# A fake: it starts no containers.
{ for word in "$@"; do printf '%s\037' "$word"; done; printf '\036'; } >> "$FAKE_FOLDER/log"
case "$1 $2" in
  "run "*|"instance start")
    [ -e "$FAKE_FOLDER/refuses" ] && { echo "Error: no such image" >&2; exit 125; }
    echo running > "$FAKE_FOLDER/state"; echo 0123456789ab; exit 0 ;;
  "container inspect") cat "$FAKE_FOLDER/state" 2>/dev/null && exit 0
    echo "Error response from daemon: No such container: $5" >&2; exit 1 ;;
  "instance list")
    if [ -e "$FAKE_FOLDER/state" ]; then echo "{\"instances\": [{\"instance\": \"$4\"}]}"
    else echo '{"instances": []}'; fi; exit 0 ;;
  "instance stop"|"rm "*) rm -f "$FAKE_FOLDER/state"; exit 0 ;;
  "port "*) [ "$3" = 8080/tcp ] && { echo 0.0.0.0:49153; exit 0; }
    echo "Error: no public port" >&2; exit 1 ;;
  "cp "*) cp -r "${2#palestra-*:}" "${3#palestra-*:}"; exit ;;
esac
shift
while :; do case "$1" in
  --env) export "$2"; shift ;;
  --workdir|--pwd) cd "$2" || exit 126; shift ;;
  palestra-*|instance://*) shift; break ;;
esac; shift; done
[ -e "$FAKE_FOLDER/state" ] || { echo "Error: the container is not running" >&2; exit 1; }
exec "$@"
"""


@dataclass(frozen=True)
class FakeContainerProgram:
    """The fake on PATH, and what it was called with."""

    folder: Path

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call, in order."""
        log = self.folder / "log"
        text = log.read_text() if log.exists() else ""
        return [call.split("\x1f")[:-1] for call in text.split("\x1e")[:-1]]

    def calls_of(self, *words: str) -> list[list[str]]:
        """The calls whose first arguments are `words`."""
        return [call for call in self.calls if call[: len(words)] == list(words)]

    def refuse_to_start(self) -> None:
        """Let every later start of a container fail."""
        (self.folder / "refuses").touch()

    def lose_containers(self) -> None:
        """Let the container end."""
        (self.folder / "state").unlink()


def install_fake(name: str, folder: Path, patch: pytest.MonkeyPatch) -> FakeContainerProgram:
    """Put the fake on PATH under `name`, before every other program."""
    program = folder / "bin" / name
    program.parent.mkdir(parents=True)
    program.write_text(SCRIPT)
    program.chmod(0o755)
    patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    patch.setenv("FAKE_FOLDER", str(folder))
    return FakeContainerProgram(folder)
