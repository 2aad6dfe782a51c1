"""The Python that a guide shows runs as it stands: its modules import, its tests pass."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from documents import REPOSITORY, blocks, files

from palestra.authoring.scaffold import scaffold

GUIDE = REPOSITORY / "docs" / "topics" / "environments.md"
FOLDERS = "resources_servers/"
IMPORTED = "\n\ndef test_the_block_can_be_imported() -> None: ...\n"


def project_of(guide: Path, folder: Path) -> int:
    """The project that a reader of `guide` ends up with; how many files of it pytest runs."""
    shown = files(guide)
    named = {name.split("/")[1] for name in shown if name.startswith(FOLDERS)}
    for name in sorted({"my_env"} | named):
        scaffold(name, folder)
    for name, text in shown.items():
        (folder / name).write_text(text)
    code = [block.text for block in blocks(guide) if block.language == "python"]
    for number, text in enumerate(code):
        (folder / f"test_block_{number}.py").write_text(text + IMPORTED)
    return len(code)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_python_block_of_the_guide_runs_and_its_tests_pass(tmp_path: Path) -> None:
    count = project_of(GUIDE, tmp_path)
    modules = sorted(str(path) for path in tmp_path.glob("test_block_*.py"))

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *modules],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(modules) == count >= 7


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["shelf", "paraphrase"])
def test_the_tests_of_the_guide_pass_under_the_command_of_the_guide(
    name: str, tmp_path: Path
) -> None:
    project_of(GUIDE, tmp_path)

    done = subprocess.run(
        [str(Path(sys.executable).with_name("palestra")), "test", name, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    tests = json.loads(done.stdout)[0]["checks"][0]
    assert (tests["check"], tests["passed"]) == ("tests", True), done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["shelf", "words.py"])
def test_an_environment_of_the_guide_can_be_trusted(name: str, tmp_path: Path) -> None:
    project_of(GUIDE, tmp_path)
    rows = {"input": [{"role": "user", "content": "Leave one apple."}]}
    for stock, line in ((3, "w"), (5, "a")):
        with (tmp_path / "resources_servers/shelf/data/example.jsonl").open(line) as out:
            row = {"responses_create_params": rows, "stock": {"apple": stock}}
            out.write(json.dumps({**row, "wanted": {"apple": 1}}) + "\n")
    for left in ("example_rollouts", "verifier_cases"):
        (tmp_path / f"resources_servers/shelf/data/{left}.jsonl").unlink()

    done = subprocess.run(
        [str(Path(sys.executable).with_name("palestra")), "verify-env", name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
