"""Datasets in GitLab's registry, which speaks MLflow's protocol: a model is a dataset, and each of
its versions holds files.

    address (where, with which token) -> access -> catalogue (names and versions)
                                                 -> artifacts (the bytes)
             -> moving (up, down, away: what the commands do)

mlflow is an extra: only functions import it, when they are called. A plain MLflow server
is as good as GitLab's.
"""
