"""What `import nemo_skills` gives where that package is not installed: the part about rollouts."""

from palestra.compat.aliases import names_not_provided

__getattr__ = names_not_provided("nemo_skills", __name__)
