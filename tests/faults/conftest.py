"""Where the helpers of this folder are found, and the agents scripted for `tests/rollouts`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "rollouts"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
