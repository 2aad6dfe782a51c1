"""Datasets of task rows: entries, benchmarks, imports, checks, preparation, metrics and transfers."""

from palestra.datasets.benchmarks import Preparing, prepare_benchmarks
from palestra.datasets.entries import (
    LICENCES,
    AgentDataset,
    DatasetEntry,
    DatasetType,
    DataSource,
    Download,
    GitlabIdentifier,
    HuggingFaceIdentifier,
    dataset_type_problems,
    datasets_of_agents,
)
from palestra.datasets.hub import UploadTarget, check_rows, open_hub, target_of
from palestra.datasets.hub.references import HubReference
from palestra.datasets.importing.mapping import ColumnMapping
from palestra.datasets.importing.sources import records_of
from palestra.datasets.importing.writing import write_rows
from palestra.datasets.measures.rows import (
    EXAMPLES,
    REQUESTS,
    SAMPLING,
    TEMPERATURE,
    TOKENS,
    TOOLS,
    TURNS,
    USERS,
    WORDS,
)
from palestra.datasets.metrics import DatasetMetrics, contradictions, differences, metrics_of
from palestra.datasets.packed import open_rows
from palestra.datasets.preparing.files import Located, fetch, in_scope, locate, unavailable
from palestra.datasets.preparing.prepare import PreparedFile, PrepareSettings, prepare_datasets
from palestra.datasets.preparing.rows import tokenizer_at
from palestra.datasets.problems import BadRows, RowProblems, line_ranges, missing_file
from palestra.datasets.prompts import PromptTemplate, fill_row, load_prompt
from palestra.datasets.registry.access import RegistryAddress, open_registry
from palestra.datasets.registry.artifacts import download_from_registry, upload_to_registry
from palestra.datasets.registry.catalogue import Catalogue
from palestra.datasets.request_models import (
    DoorKeeper,
    RowEndpoint,
    doors_in,
    published_body,
    rows_are_whole,
)
from palestra.datasets.row_checks import missing_params, misspelt_agent, parameter_problems
from palestra.datasets.skills import (
    SkillMetadata,
    SkillsRef,
    copy_skills,
    hash_skill_dir,
    parse_skill_md,
    skills_in,
)
from palestra.datasets.sources import Sources, credentials_in
from palestra.datasets.transfer.outgoing import Outgoing, UploadProgress, outgoing
from palestra.datasets.transfer.patience import TransferPatience

__all__ = [
    "EXAMPLES",
    "LICENCES",
    "REQUESTS",
    "SAMPLING",
    "TEMPERATURE",
    "TOKENS",
    "TOOLS",
    "TURNS",
    "USERS",
    "WORDS",
    "AgentDataset",
    "BadRows",
    "Catalogue",
    "ColumnMapping",
    "DataSource",
    "DatasetEntry",
    "DatasetMetrics",
    "DatasetType",
    "DoorKeeper",
    "Download",
    "GitlabIdentifier",
    "HubReference",
    "HuggingFaceIdentifier",
    "Located",
    "Outgoing",
    "PrepareSettings",
    "PreparedFile",
    "Preparing",
    "PromptTemplate",
    "RegistryAddress",
    "RowEndpoint",
    "RowProblems",
    "SkillMetadata",
    "SkillsRef",
    "Sources",
    "TransferPatience",
    "UploadProgress",
    "UploadTarget",
    "check_rows",
    "contradictions",
    "copy_skills",
    "credentials_in",
    "dataset_type_problems",
    "datasets_of_agents",
    "differences",
    "doors_in",
    "download_from_registry",
    "fetch",
    "fill_row",
    "hash_skill_dir",
    "in_scope",
    "line_ranges",
    "load_prompt",
    "locate",
    "metrics_of",
    "missing_file",
    "missing_params",
    "misspelt_agent",
    "open_hub",
    "open_registry",
    "open_rows",
    "outgoing",
    "parameter_problems",
    "parse_skill_md",
    "prepare_benchmarks",
    "prepare_datasets",
    "published_body",
    "records_of",
    "rows_are_whole",
    "skills_in",
    "target_of",
    "tokenizer_at",
    "unavailable",
    "upload_to_registry",
    "write_rows",
]
