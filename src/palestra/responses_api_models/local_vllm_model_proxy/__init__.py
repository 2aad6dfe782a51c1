"""`local_vllm_model_proxy`: other settings for the vLLM of a `local_vllm_model`."""
