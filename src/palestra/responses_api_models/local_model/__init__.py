"""`local_model`: a small real model on the CPU, for first trials and for tests.

`weights` finds and downloads the model file. `engine` is the child process that serves the model;
`running` starts it, stops it and sends its requests. `mending` (pure functions) makes llama.cpp's
server behave like a Chat Completions endpoint. `app` is the model server.
"""

from palestra.responses_api_models.local_model.weights import (
    SMOLLM2,
    Weights,
    fetch_weights,
    find_weights,
    models_folder,
)

__all__ = ["SMOLLM2", "Weights", "fetch_weights", "find_weights", "models_folder"]
