"""Datasets in GitLab's registry, which speaks MLflow's protocol: a model is a dataset, and each of
its versions holds files.

    address (where, with which token) -> access -> catalogue (names and versions)
                                                 -> artifacts (the bytes)
             -> moving (up, down, away: what the commands do)

Only `access`, `catalogue`, `artifacts` and `moving` import mlflow, which is an extra; import them
where they are used. A plain MLflow server is as good as GitLab's.
"""

from palestra.datasets.registry.address import RegistryAddress

__all__ = ["RegistryAddress"]
