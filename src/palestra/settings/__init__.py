"""Declares the settings of every command, each once.

A field with a description is a flag of `palestra` and an override of `ng_*`; type, default, bounds
and help text come from the field. These modules do not import what commands need to run, so that
help is fast.
"""

from palestra.settings.base import HOW_TO_GIVE, JsonArgs, Settings, args_from, existing_path
from palestra.settings.cluster import (
    CommandOptions,
    FollowArgs,
    JobOptions,
    Line,
    LogsArgs,
    MergeShardsArgs,
    RolloutOptions,
    Time,
    config_list,
)
from palestra.settings.collecting import (
    CollectArgs,
    PatienceArgs,
    RunArgs,
    concurrency,
    datasets_of,
)
from palestra.settings.collection import (
    AUTO,
    CollectSettings,
    GivenRows,
    InputFile,
    Share,
)
from palestra.settings.data import (
    BenchmarkArgs,
    ImportArgs,
    NetworkSettings,
    PrepareArgs,
    RenderArgs,
)
from palestra.settings.hub import (
    MAIN,
    GitlabDelete,
    GitlabDownload,
    GitlabUpload,
    HubDownload,
    HubUpload,
)
from palestra.settings.loading import COMMAND_SETTINGS, load
from palestra.settings.runs import (
    AggregateArgs,
    CompareArgs,
    DiagnoseArgs,
    EvalArgs,
    MergeArgs,
    ProfileArgs,
    ReverifyArgs,
    ScoresArgs,
    SelectArgs,
    ToolsArgs,
)
from palestra.settings.seeds import LARGEST_SEED, parse_numbers
from palestra.settings.servers import (
    EntrypointArgs,
    FetchArgs,
    InitArgs,
    LlamaCppServer,
    PipListArgs,
    SandboxArgs,
    StatusArgs,
    TestArgs,
    VerifyEnvArgs,
    VLLMServer,
)

__all__ = [
    "AUTO",
    "COMMAND_SETTINGS",
    "HOW_TO_GIVE",
    "LARGEST_SEED",
    "MAIN",
    "AggregateArgs",
    "BenchmarkArgs",
    "CollectArgs",
    "CollectSettings",
    "CommandOptions",
    "CompareArgs",
    "DiagnoseArgs",
    "EntrypointArgs",
    "EvalArgs",
    "FetchArgs",
    "FollowArgs",
    "GitlabDelete",
    "GitlabDownload",
    "GitlabUpload",
    "GivenRows",
    "HubDownload",
    "HubUpload",
    "ImportArgs",
    "InitArgs",
    "InputFile",
    "JobOptions",
    "JsonArgs",
    "Line",
    "LlamaCppServer",
    "LogsArgs",
    "MergeArgs",
    "MergeShardsArgs",
    "NetworkSettings",
    "PatienceArgs",
    "PipListArgs",
    "PrepareArgs",
    "ProfileArgs",
    "RenderArgs",
    "ReverifyArgs",
    "RolloutOptions",
    "RunArgs",
    "SandboxArgs",
    "ScoresArgs",
    "SelectArgs",
    "Settings",
    "Share",
    "StatusArgs",
    "TestArgs",
    "Time",
    "ToolsArgs",
    "VLLMServer",
    "VerifyEnvArgs",
    "args_from",
    "concurrency",
    "config_list",
    "datasets_of",
    "existing_path",
    "load",
    "parse_numbers",
]
