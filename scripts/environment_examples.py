"""Record the example rollouts of environments, and count their example rows.

    python scripts/environment_examples.py NAME_OR_FOLDER ...

The same as `palestra test --record`, without the tests.
"""

import sys

from palestra.cli.authoring import record

for name in sys.argv[1:]:
    print(f"{name}: {', '.join(record(name))}")
