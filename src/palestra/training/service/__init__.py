"""Rollouts over HTTP, for any trainer: the service, its description, and its client.

- `wire`: the bodies of requests and responses;
- `interface`: the operations, and the OpenAPI document made from them;
- `failures`: errors as bodies, and back;
- `batches`: a submission whose outcomes wait until they are acknowledged, and its lease;
- `app`: the service, and `serve`: how long it runs;
- `calls`: requests, sent again while the service does not answer;
- `operations`: one function for each operation, generated from the document;
- `remote`: the client that keeps the contract of `palestra.training.contract`.
"""

from palestra.training.service.app import RolloutService, service_token
from palestra.training.service.interface import openapi_document
from palestra.training.service.remote import RemoteRolloutClient
from palestra.training.service.serve import serve_rollouts

__all__ = [
    "RemoteRolloutClient",
    "RolloutService",
    "openapi_document",
    "serve_rollouts",
    "service_token",
]
