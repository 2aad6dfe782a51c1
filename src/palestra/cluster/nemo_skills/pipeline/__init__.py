"""`nemo_skills.pipeline`: see `cli`."""

from palestra.compat.missing_names import names_not_provided

__getattr__ = names_not_provided("nemo_skills.pipeline", __name__)
