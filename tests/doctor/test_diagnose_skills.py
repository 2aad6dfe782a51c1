"""The skills for coding agents: well formed, and true: every command in them works."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from seeded_world import KEY, SeededUpstream, World, fine, new_world, serving, task

from palestra.causes import SignatureTable

REPOSITORY = Path(__file__).resolve().parents[2]
SKILLS = sorted((REPOSITORY / "skills").glob("*/SKILL.md"))
PAGES = [*SKILLS, *sorted((REPOSITORY / "skills").glob("*/references/*.md"))]
SCRIPTS = Path(sys.executable).parent
LONGEST_DESCRIPTION = 1024
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:]+)\)")


def commands(path: Path) -> list[str]:
    """What a skill tells its reader to type."""
    texts = [block.replace("\\\n", "") for block in _BLOCK.findall(path.read_text())]
    lines = (line for text in texts for line in text.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_a_skill_says_its_name_and_when_it_is_of_use(path: Path) -> None:
    _, head, body = path.read_text().split("---\n", 2)
    told = yaml.safe_load(head)

    assert told["name"] == path.parent.name
    assert len(told["description"]) <= LONGEST_DESCRIPTION
    assert "## When to use" in body
    assert len(body.splitlines()) < 120


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_every_link_of_a_skill_leads_somewhere(path: Path) -> None:
    missing = [
        link for link in _LINK.findall(path.read_text()) if not (path.parent / link).exists()
    ]

    assert missing == []


def test_error_profiles_name_causes_of_the_table() -> None:
    table = SignatureTable.load().by_cause
    text = (REPOSITORY / "skills/palestra-debugging/references/error-profiles.md").read_text()

    named = re.findall(r"`((?:infra|model|config|data|verifier|cache|throughput)\.[a-z-]+)`", text)

    assert len(named) > 10
    assert [cause for cause in named if cause not in table] == []


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A folder with two runs of the same tasks in it, and their endpoint."""
    upstream = SeededUpstream(fine)
    with serving(upstream) as url:
        made = new_world(tmp_path_factory.mktemp("skills") / "world", upstream, url)
        made.write("tasks.jsonl", [task(number=n) for n in range(3)])
        for name in ("run", "other"):
            output = made.folder / "out" / f"{name}.jsonl"
            assert made.collect(output_jsonl_fpath=str(output), num_repeats=2).code == 0
        settings = {
            "policy_base_url": url,
            "judge_base_url": url,
            "policy_api_key": KEY,
            "policy_model_name": "tiny",
            "head_server": {"port": 0},
        }
        (made.folder / "env.yaml").write_text(yaml.safe_dump(settings))
        yield made


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "command", dict.fromkeys(command for path in PAGES for command in commands(path))
)
def test_a_skills_command_works_as_it_stands(world: World, command: str) -> None:
    environment = {
        "PATH": f"{SCRIPTS}:/usr/bin:/bin",
        "PALESTRA_RUN_DIR": str(world.folder),
        "HOME": str(world.folder),
        "PYTHONPATH": ":".join(sys.path),
    }
    shell = shutil.which("bash")
    assert shell is not None

    done = subprocess.run(
        [shell, "-c", command],
        cwd=world.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
