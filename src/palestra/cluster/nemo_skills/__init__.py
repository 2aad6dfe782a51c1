"""The module that `import nemo_skills` finds when that package is not installed: only rollouts."""

from palestra.compat.missing_names import names_not_provided

__getattr__ = names_not_provided("nemo_skills", __name__)
