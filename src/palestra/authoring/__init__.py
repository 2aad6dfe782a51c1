"""Make the folders of servers, environments and benchmarks (`init`), and check them: their tests,
their manifests, and the fixtures of their verifiers.
"""

from palestra.authoring.catalogue import catalogue_entry, publication_problems, publish
from palestra.authoring.component_scaffold import NewComponent, scaffold_component
from palestra.authoring.components import (
    Component,
    ComponentKind,
    component_at,
    components_in,
    find_component,
)
from palestra.authoring.file_sources import (
    FileEnvironment,
    environments_in_file,
    file_environments,
)
from palestra.authoring.fixture_runs import FixtureRun, run_fixture
from palestra.authoring.fixtures import FixtureReport, RewardRange, update_expected
from palestra.authoring.folders import Check, FolderReport, check_file, check_folder
from palestra.authoring.from_file import folder_from_file
from palestra.authoring.inventory import (
    SIMILAR,
    InstalledComponent,
    installed_components,
    similarity,
)
from palestra.authoring.manifests import Manifest, RewardDeclaration, read_manifest
from palestra.authoring.mirrors import (
    ManifestReport,
    check_component,
    component_config,
    offline_config,
    servers_of,
)
from palestra.authoring.scaffold import (
    Template,
    check_name,
    folder_for,
    scaffold,
    scaffold_file,
    write_config,
)
from palestra.authoring.server_checks import server_problems
from palestra.authoring.traits import (
    ComponentTraits,
    Turns,
    component_settings,
    component_traits,
    dataset_files,
    needs_of,
    turns_of,
)

__all__ = [
    "SIMILAR",
    "Check",
    "Component",
    "ComponentKind",
    "ComponentTraits",
    "FileEnvironment",
    "FixtureReport",
    "FixtureRun",
    "FolderReport",
    "InstalledComponent",
    "Manifest",
    "ManifestReport",
    "NewComponent",
    "RewardDeclaration",
    "RewardRange",
    "Template",
    "Turns",
    "catalogue_entry",
    "check_component",
    "check_file",
    "check_folder",
    "check_name",
    "component_at",
    "component_config",
    "component_settings",
    "component_traits",
    "components_in",
    "dataset_files",
    "environments_in_file",
    "file_environments",
    "find_component",
    "folder_for",
    "folder_from_file",
    "installed_components",
    "needs_of",
    "offline_config",
    "publication_problems",
    "publish",
    "read_manifest",
    "run_fixture",
    "scaffold",
    "scaffold_component",
    "scaffold_file",
    "server_problems",
    "servers_of",
    "similarity",
    "turns_of",
    "update_expected",
    "write_config",
]
