"""Makes `import nemo_gym` and `import nemo_skills` work in every Python of an environment that has
Palestra.

`palestra_names.pth` imports this module as Python starts, so it imports nothing itself. The
finder that does the work is loaded when somebody asks for a name and nothing else has it.
"""

import sys


class OnDemand:
    """Stands last among the finders, and puts Palestra's own in its place when it is needed."""

    NAMES = frozenset({"nemo_gym", "nemo_skills"})

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN206
        if fullname not in cls.NAMES:
            return None
        from palestra.compat.aliases import find_spec, install

        sys.meta_path.remove(cls)  # type: ignore[arg-type]
        install()
        return find_spec(fullname, path, target)


sys.meta_path.append(OnDemand)  # type: ignore[arg-type]
