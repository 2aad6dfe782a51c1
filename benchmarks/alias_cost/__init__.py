"""What a rollout costs when its environment, or its agent too, is written against `nemo_gym`."""
