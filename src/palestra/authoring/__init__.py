"""Make the folder of a new environment (`init`), and check such a folder (`test`)."""

from palestra.authoring.folders import Check, FolderReport, check_folder
from palestra.authoring.scaffold import scaffold, write_config

__all__ = ["Check", "FolderReport", "check_folder", "scaffold", "write_config"]
