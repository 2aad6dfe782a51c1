"""Access to the operating system, with the standard library only.

- `allocation.py`: what the C library does with memory that is freed;
- `background.py`: work that runs beside other work, and ends with it;
- `folders.py`: the folders for what can be made again, and for what lasts as long as a command;
- `commands.py`: run other programs within a time limit;
- `exiting.py`: let this process exit soon after its work;
- `files.py`: write files whole or not at all;
- `installers.py`: find the programs that install packages;
- `locks.py`: let one process work at a time;
- `open_files.py`: raise the limit of open files;
- `processes.py`: identify a process, and find out whether it runs; names of signals;
- `parents.py`: processes that end with their parent;
- `credentials.py`: check a request's token, and that it comes from this machine;
- `pulse.py`: what a process shows about itself to its watcher;
- `stopping.py`: how long an orderly stop may take;
- `lookout.py`: whether a watched process is stuck.
"""

from palestra.system.allocation import keep_little_freed_memory
from palestra.system.background import background
from palestra.system.commands import Finished, end_group, run, run_async, start, start_async
from palestra.system.credentials import bears_token, names_this_machine
from palestra.system.exiting import exit_quickly
from palestra.system.file_states import FileState
from palestra.system.files import (
    TEMPORARY,
    absolute_text,
    create_whole,
    file_and_line,
    matching_files,
    move,
    on_failure,
    remove_empty,
    replacing,
    set_aside,
    shown,
    sync,
    sync_folder,
    unused,
    write_whole,
)
from palestra.system.folders import cache_folder, run_dir
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
from palestra.system.open_files import raise_descriptor_limit
from palestra.system.parents import become_subreaper, children_of, die_with_parent, outlive_parent
from palestra.system.processes import (
    Process,
    boot_id,
    born_at,
    how_ended,
    is_gone,
    process_name,
    signal_name,
)
from palestra.system.pulse import (
    STACKS_SIGNAL,
    Driven,
    Executing,
    Pulse,
    beating,
    current_pulse,
    exit_in_order,
    make_current,
    watched_by,
)
from palestra.system.stopping import StopAllowance, allow_longer_stop, stop_allowance

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
    "StopAllowance",
    "absolute_text",
    "allow_longer_stop",
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
    "exit_in_order",
    "exit_quickly",
    "file_and_line",
    "folder_locked",
    "how_ended",
    "is_file_at",
    "is_gone",
    "is_stopped",
    "keep_little_freed_memory",
    "lock",
    "make_current",
    "matching_files",
    "move",
    "names_this_machine",
    "on_failure",
    "open_locked",
    "outlive_parent",
    "process_name",
    "raise_descriptor_limit",
    "remove_empty",
    "replacing",
    "run",
    "run_async",
    "run_dir",
    "running_one",
    "set_aside",
    "shown",
    "signal_name",
    "start",
    "start_async",
    "stop_allowance",
    "sync",
    "sync_folder",
    "unused",
    "uv_command",
    "watched_by",
    "write_whole",
]
