"""Write docs/reference/from-nemo-gym.md: commands of NeMo Gym's documents, run, with what each prints here.

    python scripts/from_nemo_gym.py [FILE] [--installation FOLDER]

Each command is typed as it stands, in an empty folder, where nothing but the wheel and what it
brings is installed: in a virtual environment that is made for it, or the one given. The model, the
hub and the registry that it meets are fakes on this machine; a test holds the page in step.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = REPOSITORY / "docs" / "reference" / "from-nemo-gym.md"
sys.path.insert(0, str(REPOSITORY / "tests"))  # the fakes lie with the tests

from nemo_gym_page import configuration, data, pipeline, rollouts, training  # noqa: E402
from nemo_gym_page.command import Command, Session  # noqa: E402
from nemo_gym_page.reader import CommandFailed, reader  # noqa: E402

from installed_wheel import Installation, build_wheel, install_wheel  # noqa: E402

TOPICS = (configuration, data, rollouts, training, pipeline)
SESSIONS: tuple[Session, ...] = tuple(chain.from_iterable(topic.SESSIONS for topic in TOPICS))
AT_ONCE = 2
"""Sessions side by side: each has a folder, ports and fakes of its own."""
OPENING = """# Coming from NeMo Gym

What NeMo Gym's FAQ and guides tell you to type works here, as it stands there. Below is each
command that was tried after `pip install 'palestra[nemo-gym]'`, in a folder that holds an `env.yaml`
and the files to upload, with what it prints here (the lines that matter).
`scripts/from_nemo_gym.py` runs them and writes this page.

What differs on purpose: nothing is written into the installed package, a failure exits with 1 and
bad input with 2, and both say what to do next.

The newer command line, `gym GROUP ACTION`, has [its own page](gym-commands.md), command by command.

Folders that are written for NeMo Gym run as they are, and their suites pass with
`pytest -p palestra.compat.nemo_gym`; [a day of a NeMo Gym user](../tutorials/nemo-gym-day.md) shows one.
These modules are provided, unless the real package is installed:

| module of `nemo_gym` | what is in it |
|---|---|
| `base_resources_server`, `base_responses_api_agent`, `base_responses_api_model` | the base classes, their settings and requests; model-call capture |
| `server_utils`, `rollout_correlation` | the client, the session key, the prefix of a rollout |
| `global_config`, `config_types`, `path_utils` | the configuration and its parser, references, paths |
| `openai_utils`, `responses_converter` | the types of requests and responses, the client of an endpoint, Chat Completions |
| `judge`, `prompt`, `skills`, `benchmarks` | judges, prompt files, skills of coding agents, the config of a benchmark |
| `reward_profile`, `rollout_collection`, `rollout_observability`, `profiling` | metrics, collecting from Python, records of a rollout, CPU profiles |
| `mcp_auto_exposure` | tools over MCP |
| `sandbox` | sandboxes of the providers `docker`, `apptainer`, `local`, and your own |

Three servers' modules are libraries too:

| module | what is in it |
|---|---|
| `responses_api_agents.simple_agent.app` | `SimpleAgent`, `SimpleAgentConfig`, `SimpleAgentRunRequest`, `SimpleAgentVerifyRequest`, `SimpleAgentVerifyResponse`: subclass the agent and override `responses` or `run` |
| `resources_servers.gymnasium` | `GymnasiumServer`, `extract_text`, the requests and responses of `/reset`, `/step` and `/verify`; its agent is `gymnasium_agent` |
| `responses_api_models.vllm_model.app` | `VLLMConverter` and what belongs to it |

A name that is missing is an error that names a similar one, or what replaces it. The modules of other
servers hold Palestra's own classes: subclass `nemo_gym`'s base classes instead. The command line's
module `cli`, with `RunHelper`, is not here: `palestra.fleet.Fleet` starts servers from Python,
[`palestra.collect`](../how-to/python.md) runs rows on them, and a trainer has a
[`RolloutClient`](../topics/training.md).
`+agent_name` is for rows without `agent_ref`: a row that names an agent goes to that agent, and the
command begins with a warning about such rows.
One default differs: an agent's `aggregate_metrics` asks its environment for the metrics, unless the
agent has metrics of its own.

A run goes on only with the code that it began with: after a change of an `app.py`, `+resume_from_cache=true` is refused (`code.my_env.app.py:
it has changed since`), and `palestra select RUN --failed` writes the tasks without a score for a run of their own.
`ng_init_resources_server` writes a server of Palestra's own classes; one that is to run in NeMo Gym, too, is written with
`nemo_gym.base_resources_server.SimpleResourcesServer`, and runs here as it is.
"""


def main() -> None:
    """Read the arguments; install the wheel unless an installation is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("document", nargs="?", type=Path, default=DOCUMENT)
    parser.add_argument("--installation", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.installation is not None:
            installation = Installation(asked.installation)
        else:
            installation = install_wheel(build_wheel(Path(folder)), Path(folder) / "venv")
        write(asked.document, installation)
    print(f"wrote {asked.document}")


def write(document: Path, installation: Installation) -> None:
    """Run every command and write the page. Raises when one does not do what it promises."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = pool.map(partial(_sections, installation), SESSIONS)
        sections = list(chain.from_iterable(made))
    titles = [command.title for session in SESSIONS for command in session.commands]
    links = [f"| [{title}](#{_anchor(title)}) | works |" for title in titles]
    table = "\n".join(["| what | here |", "|---|---|", *links])
    document.write_text("\n".join([OPENING, table, *sections]) + "\n", encoding="utf-8")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _sections(installation: Installation, session: Session) -> list[str]:
    with reader(installation, session) as typist:
        outputs = typist.types(session)
        places = typist.places
    return [
        _section(session, command, _lines_shown(command, output, places))
        for command, output in zip(session.commands, outputs, strict=True)
    ]


def _section(session: Session, command: Command, shown: Sequence[str]) -> str:
    blocks = []
    if session.servers:
        if command is session.commands[0]:
            blocks += ["In one terminal, until Ctrl-C:", _typed(session.servers)]
            blocks += ["In another one:"]
        elif command.when_stopped:
            blocks += ["When those servers have stopped:"]
        else:
            blocks += ["With the same servers:"]
    elif command is not session.commands[0]:
        blocks += ["In the same folder:"]
    printed = "\n".join(shown)
    blocks += [_typed(command.text), f"```text\n{printed}\n```", "Works."]
    return "\n\n".join([f"\n## {command.title}", *blocks])


def _typed(text: str) -> str:
    return f"```bash\n{text}\n```"


def _lines_shown(command: Command, output: str, places: dict[str, str]) -> list[str]:
    """The lines that matter, in the order in which they are printed."""
    lines = [_with_places(line, places).rstrip() for line in output.splitlines()]
    for pattern in command.shows:
        if not any(re.search(pattern, line) for line in lines):
            raise CommandFailed(f"{command.title}: nothing like {pattern!r} in\n{output}")
    return [line for line in lines if any(re.search(p, line) for p in command.shows)]


def _with_places(line: str, places: dict[str, str]) -> str:
    for place, name in places.items():
        line = line.replace(place, name)
    line = re.sub(r"#token=\S+", "#token=…", line)
    # Where a function stands in its file and how long tests took is nothing for a page to follow.
    return re.sub(r"\b\d+\.\d+ ?s\b", "… s", re.sub(r"\.py:\d+", ".py:…", line))


if __name__ == "__main__":
    main()
