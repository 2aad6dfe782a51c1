"""A merge that kills itself: `python killed_merge.py OUTPUT SHARDS KILL_AT [--overwrite]`.

It dies by SIGKILL just before it opens, renames, removes or makes a file for the KILL_AT-th time
from the moment at which it has decided what to write; the merge that lives says so.
"""

import os
import signal
import sys
from pathlib import Path

from palestra.rollouts import plan_merge

TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "fcntl.flock", "os.truncate"}


def main(output: Path, shards: str, kill_at: int, *, overwrite: bool) -> None:
    with plan_merge(output, [shards]) as plan:
        left = kill_at

        def count(event: str, _arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in TOUCHES:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        plan.write(overwrite=overwrite)
    os.write(1, b"it lived")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), overwrite="--overwrite" in sys.argv)
