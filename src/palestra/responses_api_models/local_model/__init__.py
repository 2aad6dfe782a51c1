"""`local_model`: a small real model on the CPU, for trying things out and for tests.

`weights` finds and fetches the model file, `engine` is the child process that serves it,
`running` its handle in our process, `mending` (pure) and `transport` make llama.cpp's server
keep what a Chat Completions endpoint promises, and `app` is the model server.
"""

from palestra.responses_api_models.local_model.weights import (
    SMOLLM2,
    Weights,
    fetch_weights,
    find_weights,
    models_folder,
)

__all__ = ["SMOLLM2", "Weights", "fetch_weights", "find_weights", "models_folder"]
