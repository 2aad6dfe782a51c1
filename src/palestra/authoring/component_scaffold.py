"""`env init --environment` and `--benchmark`: make the folder of an environment or a benchmark."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.authoring.components import ComponentKind
from palestra.authoring.manifests import RewardDeclaration
from palestra.authoring.scaffold import check_name, config_path, render_template, scaffold
from palestra.config import ServerType, nearest, parse_yaml, search_roots, write_yaml
from palestra.errors import ConfigError, KnownCause
from palestra.schema import JsonDict
from palestra.system import write_whole

ENVIRONMENT_TEMPLATE: Final = Path(__file__).with_name("environment_template")
BENCHMARK_TEMPLATE: Final = Path(__file__).with_name("benchmark_template")
EXAMPLES: Final = Path("data/example.jsonl")
DEFAULT_PROFILE: Final = "resources_server"
DEFAULT_REWARD: Final = RewardDeclaration(range=(0.0, 1.0))


@dataclass(frozen=True, slots=True)
class NewComponent:
    """The folder to make."""

    kind: ComponentKind
    name: str
    profile: str = DEFAULT_PROFILE
    verifier: str = ""
    """The resources server that verifies. Empty: the one with the component's name, which is made
    when it does not exist."""
    reward: RewardDeclaration = DEFAULT_REWARD


@dataclass(frozen=True, slots=True)
class Verifier:
    """A resources server to use: its folder's name, its domain, and the agent of its config."""

    name: str
    instance: str
    domain: str = "other"
    agent: str = ""
    """The name of the agent instance; empty when the config has none."""
    agent_server: str = "simple_agent"


def scaffold_component(new: NewComponent, cwd: Path) -> list[Path]:
    """Make the folder of an environment or a benchmark, and return the files that were written.

    Files that exist with the same content stay. Raises ConfigError, and writes nothing: the name is
    not valid, a file exists with another content, or the verifier does not exist.
    """
    check_name(new.name)
    folder = cwd / new.kind.tree / new.name
    sought = new.verifier.strip("/").rpartition("/")[2] or new.name
    path = _server_config(sought)
    makes_server = path is None and not new.verifier
    if path is None and not makes_server:
        raise _no_verifier(sought)
    verifier = _verifier_of(sought, path) if path else _new_verifier(sought)
    examples = None if path is None else path.parents[1] / EXAMPLES
    texts = {folder / file: text for file, text in component_texts(new, verifier).items()}
    if examples is not None and examples.is_file():
        # Rows of the template are not of an existing verifier.
        texts[folder / EXAMPLES] = examples.read_text(encoding="utf-8")
    changed = [path for path, text in texts.items() if path.exists() and _differs(path, text)]
    if changed:
        raise ConfigError(
            f"{len(changed)} files exist with another content: " + ", ".join(map(str, changed)),
            hint="choose another name, or move them away first",
            cause=KnownCause.OUTPUT_EXISTS,
        )
    written: list[Path] = []
    if makes_server:
        server_folder = scaffold(sought, cwd)
        written += sorted(path for path in server_folder.rglob("*") if path.is_file())
    for path, text in texts.items():
        if not path.exists():
            _write(path, text)
            written.append(path)
    return written


def component_texts(new: NewComponent, verifier: Verifier) -> dict[Path, str]:
    """Return the text of every file of the folder, by its path in the folder."""
    low, high = new.reward.range
    dataset = _dataset(new)
    words = {
        "@NAME@": new.name,
        "@KIND@": str(new.kind),
        "@TITLE@": new.name.replace("_", " "),
        "@PROFILE@": _scalar(new.profile),
        "@DOMAIN@": verifier.domain,
        "@SERVER@": verifier.name,
        "@AGENT_SERVER@": verifier.agent_server,
        "@LOW@": _scalar(low),
        "@HIGH@": _scalar(high),
        "@HIGHER@": _scalar(new.reward.higher_is_better),
        "@DATASET@": dataset["name"],
        "@DATASET_TYPE@": dataset["type"],
        "@DATASET_PATH@": dataset["jsonl_fpath"],
        "@DATASET_FILE@": Path(dataset["jsonl_fpath"]).name,
        "@AGENT@\n": write_yaml(_agent(new, verifier, dataset)),
    }
    texts = render_template(ENVIRONMENT_TEMPLATE, words)
    if new.kind is ComponentKind.BENCHMARK:
        texts |= render_template(BENCHMARK_TEMPLATE, words)
    return texts


def _dataset(new: NewComponent) -> JsonDict:
    folder = f"{new.kind.tree}/{new.name}"
    if new.kind is ComponentKind.ENVIRONMENT:
        return {
            "name": "example",
            "type": "example",
            "jsonl_fpath": f"{folder}/data/example.jsonl",
            "num_repeats": 1,
        }
    return {
        "name": new.name,
        "type": "benchmark",
        "jsonl_fpath": f"{folder}/data/{new.name}_benchmark.jsonl",
        "num_repeats": 1,
        "prepare_script": f"{folder}/prepare.py",
        "prompt_config": f"{folder}/prompt.yaml",
    }


def _agent(new: NewComponent, verifier: Verifier, dataset: JsonDict) -> JsonDict:
    """Return the agent's block of the config. It takes the place of the verifier's own agent, so
    that only the component's datasets are run.
    """
    settings: JsonDict = {"datasets": [dataset]}
    name = f"{new.name}_agent"
    if name == verifier.agent:
        name = f"{new.name}_{new.kind}_agent"
    if verifier.agent:
        inherited = {verifier.agent_server: settings}
        return {name: {"_inherit_from": verifier.agent, "responses_api_agents": inherited}}
    settings = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": verifier.instance},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        **settings,
    }
    return {name: {"responses_api_agents": {verifier.agent_server: settings}}}


def _new_verifier(name: str) -> Verifier:
    return Verifier(name, name, agent=f"{name}_simple_agent")


def _verifier_of(name: str, path: Path) -> Verifier:
    """Return what a resources server's config says of it. Raises ConfigError: it has no server."""
    tree, _ = parse_yaml(path.read_text(encoding="utf-8"), where=str(path))
    servers = _instances(tree, ServerType.RESOURCES)
    matches = [(instance, inner) for instance, inner in servers if name in inner]
    if not matches:
        raise ConfigError(f"{path} has no resources server {name!r}")
    instance, implementations = matches[0]
    domain = (implementations[name] or {}).get("domain") or "other"
    for agent, inner in _instances(tree, ServerType.AGENT):
        for implementation, settings in inner.items():
            if _refers_to(settings, instance):
                return Verifier(name, instance, domain, agent, implementation)
    return Verifier(name, instance, domain)


def _instances(tree: Mapping[str, Any], kind: ServerType) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (name, block[kind])
        for name, block in tree.items()
        if isinstance(block, Mapping) and isinstance(block.get(kind), Mapping)
    ]


def _refers_to(settings: Any, instance: str) -> bool:
    if not isinstance(settings, Mapping):
        return False
    reference = settings.get("resources_server")
    return isinstance(reference, Mapping) and reference.get("name") == instance


def _server_config(name: str) -> Path | None:
    paths = (config_path(root / "resources_servers" / name) for root in search_roots())
    return next((path for path in paths if path.is_file()), None)


def _no_verifier(name: str) -> ConfigError:
    folders = (
        path.parents[1].name
        for root in search_roots()
        for path in root.glob("resources_servers/*/configs/*.yaml")
    )
    near = nearest(name, folders)
    return ConfigError(
        f"there is no resources server {name!r} with a config"
        + (f"; did you mean {near!r}?" if near else ""),
        hint="without --reuse-verifier a new one is made",
    )


def _scalar(value: object) -> str:
    """Return a value as it is written in YAML."""
    return write_yaml({"value": value}).partition(": ")[2].strip()


def _differs(path: Path, text: str) -> bool:
    return not path.is_file() or path.read_bytes() != text.encode()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
