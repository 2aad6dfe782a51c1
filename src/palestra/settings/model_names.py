"""How a user names a model: the words of help, hints and errors."""

from typing import Final

MODEL_FORM: Final = "PROVIDER:NAME@URL"
MODEL_FORMS: Final = "PROVIDER:NAME[@URL], such as openai:NAME, vllm:URL or local"
"""Every form, with examples."""
JUDGE_OPTION: Final = f"--judge {MODEL_FORM}"
ASK_A_JUDGE: Final = f"`palestra reverify {JUDGE_OPTION}` asks a judge"
"""The hint of a judge whose stored answers do not suffice."""
