"""Datasets in GitLab's registry, which uses MLflow's protocol: a registered model is a dataset, and
each model version holds files.

    access     the registry's address and token, and requests to it
    catalogue  names and versions of datasets
    artifacts  upload and download of files

mlflow is an optional extra, so only functions import it. A plain MLflow server works as well as
GitLab.
"""
