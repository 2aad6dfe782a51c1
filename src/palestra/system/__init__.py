"""Access to the operating system, with the standard library only.

- `background.py`: work that runs beside other work, and ends with it;
- `caches.py`: the folder for what can be made again;
- `commands.py`: run other programs within a time limit;
- `files.py`: write files whole or not at all;
- `installers.py`: find the programs that install packages;
- `locks.py`: let one process work at a time;
- `processes.py`: identify a process, and find out whether it runs; names of signals;
- `parents.py`: processes that end with their parent;
- `credentials.py`: check a request's token, and that it comes from this machine;
- `pulse.py`: what a process shows about itself to its watcher;
- `lookout.py`: whether a watched process is stuck.
"""

from palestra.system.background import background
from palestra.system.caches import cache_folder
from palestra.system.commands import Finished, end_group, run, run_async, start, start_async
from palestra.system.credentials import bears_token, names_this_machine
from palestra.system.file_states import FileState
from palestra.system.files import (
    TEMPORARY,
    create_whole,
    move,
    on_failure,
    remove_empty,
    replacing,
    set_aside,
    shown,
    sync,
    sync_folder,
    write_whole,
)
from palestra.system.installers import uv_command
from palestra.system.locks import folder_locked, is_file_at, lock, open_locked
from palestra.system.lookout import (
    GRACE_S,
    LOOK_EVERY_S,
    Lookout,
    ask_for_stacks,
    is_stopped,
    running_one,
)
from palestra.system.parents import become_subreaper, children_of, die_with_parent, outlive_parent
from palestra.system.processes import Process, boot_id, born_at, is_gone, process_name, signal_name
from palestra.system.pulse import (
    STACKS_SIGNAL,
    Driven,
    Executing,
    Pulse,
    beating,
    current_pulse,
    make_current,
    watched_by,
)

__all__ = [
    "GRACE_S",
    "LOOK_EVERY_S",
    "STACKS_SIGNAL",
    "TEMPORARY",
    "Driven",
    "Executing",
    "FileState",
    "Finished",
    "Lookout",
    "Process",
    "Pulse",
    "ask_for_stacks",
    "background",
    "bears_token",
    "beating",
    "become_subreaper",
    "boot_id",
    "born_at",
    "cache_folder",
    "children_of",
    "create_whole",
    "current_pulse",
    "die_with_parent",
    "end_group",
    "folder_locked",
    "is_file_at",
    "is_gone",
    "is_stopped",
    "lock",
    "make_current",
    "move",
    "names_this_machine",
    "on_failure",
    "open_locked",
    "outlive_parent",
    "process_name",
    "remove_empty",
    "replacing",
    "run",
    "run_async",
    "running_one",
    "set_aside",
    "shown",
    "signal_name",
    "start",
    "start_async",
    "sync",
    "sync_folder",
    "uv_command",
    "watched_by",
    "write_whole",
]
