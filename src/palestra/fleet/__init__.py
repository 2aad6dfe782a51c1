"""Run servers: load them, start them in this process or their own, watch them, and find a running
fleet.
"""

from palestra.fleet.attach import (
    AttachedFleet,
    ConfigOrigins,
    FleetNews,
    ForeignFleet,
    LoadedCode,
    NoFleet,
    ServerStatus,
    attach,
    config_origins,
    loaded_code,
    probe,
    summary_line,
)
from palestra.fleet.build import (
    Assembly,
    assembled,
    build_server,
    check_settings,
    http_transport,
    server_client,
)
from palestra.fleet.child import Child, ChildExit
from palestra.fleet.environment_rows import FileRows, RowRequest, file_rows
from palestra.fleet.fleet import EMBEDDED, PROCESS, REMOTE, Fleet
from palestra.fleet.garbage import rare_collections
from palestra.fleet.head import check_head_port, head_server
from palestra.fleet.importing import (
    IMPORTS,
    START_TIMEOUT,
    author_import,
    standing_at,
    start_timeout_of,
    starting_within,
    unfinished_import,
)
from palestra.fleet.instance import STUCK_AFTER_S, InstanceState, RunningInstance
from palestra.fleet.loading import (
    load_environment,
    load_module,
    load_server_class,
)
from palestra.fleet.own_code import OwnCode, code_digests
from palestra.fleet.ray_clusters.place import RAY_ADDRESS
from palestra.fleet.reimporting import forget_imported, forget_servers
from palestra.fleet.runfile import RunFile, end_killed_fleet, read_ended_fleet
from palestra.fleet.server_profiles.picture import FunctionTimes
from palestra.fleet.server_profiles.profiler import callgrind_of, function_times, table_of
from palestra.fleet.sockets import (
    LOOPBACK,
    HeadAddress,
    holder_of,
    holders_of,
    http_url,
    listen,
    listen_at,
    reachable_host,
    serving,
)
from palestra.fleet.stacks import (
    blocking,
    executing_place,
    overrun,
    place_on,
    process_end,
    row_name,
)
from palestra.fleet.task_dump import dumping_tasks, unfinished_work
from palestra.fleet.venvs import (
    cache_root,
    interpreter_for,
    made_interpreter,
    require_uv,
    requirements_file,
    requirements_of,
    requirements_place,
    unsatisfied,
)
from palestra.fleet.watchdog import Lag, LagLog, Watchdog, watchdog_threshold_s

__all__ = [
    "EMBEDDED",
    "IMPORTS",
    "LOOPBACK",
    "PROCESS",
    "RAY_ADDRESS",
    "REMOTE",
    "START_TIMEOUT",
    "STUCK_AFTER_S",
    "Assembly",
    "AttachedFleet",
    "Child",
    "ChildExit",
    "ConfigOrigins",
    "FileRows",
    "Fleet",
    "FleetNews",
    "ForeignFleet",
    "FunctionTimes",
    "HeadAddress",
    "InstanceState",
    "Lag",
    "LagLog",
    "LoadedCode",
    "NoFleet",
    "OwnCode",
    "RowRequest",
    "RunFile",
    "RunningInstance",
    "ServerStatus",
    "Watchdog",
    "assembled",
    "attach",
    "author_import",
    "blocking",
    "build_server",
    "cache_root",
    "callgrind_of",
    "check_head_port",
    "check_settings",
    "code_digests",
    "config_origins",
    "dumping_tasks",
    "end_killed_fleet",
    "executing_place",
    "file_rows",
    "forget_imported",
    "forget_servers",
    "function_times",
    "head_server",
    "holder_of",
    "holders_of",
    "http_transport",
    "http_url",
    "interpreter_for",
    "listen",
    "listen_at",
    "load_environment",
    "load_module",
    "load_server_class",
    "loaded_code",
    "made_interpreter",
    "overrun",
    "place_on",
    "probe",
    "process_end",
    "rare_collections",
    "reachable_host",
    "read_ended_fleet",
    "require_uv",
    "requirements_file",
    "requirements_of",
    "requirements_place",
    "row_name",
    "server_client",
    "serving",
    "standing_at",
    "start_timeout_of",
    "starting_within",
    "summary_line",
    "table_of",
    "unfinished_import",
    "unfinished_work",
    "unsatisfied",
    "watchdog_threshold_s",
]
