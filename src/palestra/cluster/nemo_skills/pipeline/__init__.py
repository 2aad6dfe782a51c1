"""`nemo_skills.pipeline`: see `cli`."""

from palestra.compat.aliases import names_not_provided

__getattr__ = names_not_provided("nemo_skills.pipeline", __name__)
