"""`local_vllm_model`: a vLLM that this server starts on its own machine."""
