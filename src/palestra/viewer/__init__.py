"""The local web app for looking at runs: `palestra view`.

`discovery` finds runs, `catalog` keeps their indexes (`index`) up to date, `pages` answers what the
page asks (`endpoints`, `replies`), `app` and `access` serve it safely, `serving` opens the port.
"""

from palestra.viewer.catalog import Catalog, OpenRun
from palestra.viewer.discovery import Places, RunPlace, find_places
from palestra.viewer.export import export
from palestra.viewer.grouping import check_group_field
from palestra.viewer.index import forget
from palestra.viewer.matching import (
    ROLLOUT_FIELDS,
    TASK_FIELDS,
    asks_for_tasks,
    matching_rows,
    matching_values,
    whole_snapshot,
)
from palestra.viewer.requests import Viewer
from palestra.viewer.serving import Door, serve
from palestra.viewer.tokenizers import TokenTexts

__all__ = [
    "ROLLOUT_FIELDS",
    "TASK_FIELDS",
    "Catalog",
    "Door",
    "OpenRun",
    "Places",
    "RunPlace",
    "TokenTexts",
    "Viewer",
    "asks_for_tasks",
    "check_group_field",
    "export",
    "find_places",
    "forget",
    "matching_rows",
    "matching_values",
    "serve",
    "whole_snapshot",
]
