"""Configuration: find, merge, override, resolve, validate, redact and dump.

`load_config` does all of it, from the user's arguments to a `ResolvedConfig`. It only reads files:
it prints nothing and changes nothing outside its own values.

    config_paths files < env.yaml < extra < overrides     (merge, later wins)
    -> inherit_from, copy, _delete_key                     (compose)
    -> ${interpolation}                                    (resolve)
    -> server instances, references, ports                 (validate)

A mistake of the user raises a `palestra.errors.ConfigError` that lists every problem of its step at
once. No error, dump or repr made here holds a secret.

Importing this package is cheap: Hydra, OmegaConf, pydantic, YAML and the rarely used parts of the
standard library are imported by the functions that need them.
"""

from palestra.config.capture import CaptureSettings, capture_settings
from palestra.config.compose import compose
from palestra.config.contradictions import contradicting_override
from palestra.config.domains import domain_problems
from palestra.config.environment_files import (
    ENVIRONMENT_AGENT,
    ENVIRONMENT_FILE,
    NamedFile,
    environment_of,
    environment_tree,
    file_server_settings,
)
from palestra.config.flags import Flag, flag
from palestra.config.keys import FLEET_KEYS, RESERVED_KEYS, Domain
from palestra.config.load import (
    config_from_tree,
    load_config,
    locating,
    names_in_files,
    read_settings,
)
from palestra.config.needed_files import files_needed
from palestra.config.overrides import (
    Override,
    OverrideAction,
    OverrideRules,
    apply_overrides,
    override_key,
    parse_overrides,
)
from palestra.config.paths import (
    EXTRA_ROOTS,
    PACKAGE_ROOT,
    SERVER_TREES,
    SearchPaths,
    did_you_mean_path,
    extra_roots,
    nearest_file,
    nearest_name,
    project_root,
    renamed,
    resolve_path,
    search_roots,
)
from palestra.config.ports import allocate_ports, port_range
from palestra.config.problems import (
    LEAST_REPLACED,
    did_you_mean,
    error_of,
    is_one_slip,
    is_variant,
    located,
    misspelt_as,
    nearest,
    raise_problems,
    slip_of,
)
from palestra.config.redact import (
    MASK,
    Redactor,
    find_secrets,
    is_secret_name,
    mask_line,
    masked_texts,
    redact,
    secrets_in,
)
from palestra.config.references import find_references
from palestra.config.resolved import (
    InstanceConfig,
    ResolvedConfig,
    ServerRef,
    ServerType,
    SettingOrigin,
    dump_yaml,
    origin_texts,
)
from palestra.config.settings import settings_from
from palestra.config.tree import ConfigTree
from palestra.config.yaml_text import line_at, line_in, parse_yaml, write_yaml

__all__ = [
    "ENVIRONMENT_AGENT",
    "ENVIRONMENT_FILE",
    "EXTRA_ROOTS",
    "FLEET_KEYS",
    "LEAST_REPLACED",
    "MASK",
    "PACKAGE_ROOT",
    "RESERVED_KEYS",
    "SERVER_TREES",
    "CaptureSettings",
    "ConfigTree",
    "Domain",
    "Flag",
    "InstanceConfig",
    "NamedFile",
    "Override",
    "OverrideAction",
    "OverrideRules",
    "Redactor",
    "ResolvedConfig",
    "SearchPaths",
    "ServerRef",
    "ServerType",
    "SettingOrigin",
    "allocate_ports",
    "apply_overrides",
    "capture_settings",
    "compose",
    "config_from_tree",
    "contradicting_override",
    "did_you_mean",
    "did_you_mean_path",
    "domain_problems",
    "dump_yaml",
    "environment_of",
    "environment_tree",
    "error_of",
    "extra_roots",
    "file_server_settings",
    "files_needed",
    "find_references",
    "find_secrets",
    "flag",
    "is_one_slip",
    "is_secret_name",
    "is_variant",
    "line_at",
    "line_in",
    "load_config",
    "located",
    "locating",
    "mask_line",
    "masked_texts",
    "misspelt_as",
    "names_in_files",
    "nearest",
    "nearest_file",
    "nearest_name",
    "origin_texts",
    "override_key",
    "parse_overrides",
    "parse_yaml",
    "port_range",
    "project_root",
    "raise_problems",
    "read_settings",
    "redact",
    "renamed",
    "resolve_path",
    "search_roots",
    "secrets_in",
    "settings_from",
    "slip_of",
    "write_yaml",
]
