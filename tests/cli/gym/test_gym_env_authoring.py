"""`gym env validate|test|init|publish`: what they print, what they write, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.cli.authoring import documented_servers
from palestra.cli.entry import imported
from palestra.cli.gym.grammar import UsageError, parse
from palestra.cli.gym.selection import with_config_files
from palestra.config import EXTRA_ROOTS, SearchPaths
from palestra.errors import ConfigError
from palestra.programs import command_at
from palestra.settings import InvalidSettings

MCQA = "resources_servers/mcqa/configs/mcqa.yaml"


class Gym:
    """Runs `gym env …` in this process, and keeps what was printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.out = self.err = ""

    def env(self, action: str, *words: str) -> int:
        """Run one command and return its exit code."""
        command = command_at("env", action)
        assert command is not None
        self._capsys.readouterr()
        invocation = with_config_files(parse(command, words), SearchPaths.of())
        code: int = imported(f"palestra.cli.gym.{command.function}")(
            invocation, list(invocation.overrides)
        )
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, action: str, *words: str) -> tuple[int, Any]:
        """Run one command with `--json`; return its exit code and its document."""
        code = self.env(action, *words, "--json")
        return code, json.loads(self.out)

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


@pytest.fixture
def gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gym:
    monkeypatch.chdir(tmp_path)
    return Gym(tmp_path, capsys)


def test_validate_without_anything_says_that_the_config_is_valid(gym: Gym) -> None:
    assert gym.env("validate") == 0
    assert gym.out == "Config is valid.\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--config", MCQA],
        ["--resources-server", "mcqa"],
        ["--resources-server", "mcqa", "--model-type", "openai_model"],
        ["--resources-server", "mcqa", "--model", "m", "--model-url", "http://h/v1"],
        [f"+config_paths=[{MCQA}]"],
    ],
    ids=" ".join,
)
def test_validate_checks_a_configuration_without_a_real_model(gym: Gym, words: list[str]) -> None:
    assert gym.env("validate", *words) == 0
    assert gym.out.splitlines()[-1] == "Config is valid."


def test_validate_raises_the_error_of_a_wrong_configuration(gym: Gym) -> None:
    (gym.folder / "wrong.yaml").write_text("a: {resources_servers: {no_such_server: {}}}\n")

    with pytest.raises(ConfigError, match="no_such_server"):
        gym.env("validate", "--config", "wrong.yaml")


def test_validate_reports_a_wrong_configuration_as_one_json_document(gym: Gym) -> None:
    (gym.folder / "wrong.yaml").write_text("a: {resources_servers: {no_such_server: {}}}\n")

    code, report = gym.json("validate", "--config", "wrong.yaml")

    assert (code, report["valid"]) == (1, False)
    assert "no_such_server" in report["problems"][0]["message"]


PRICED = """from nemo_gym.base_resources_server import BaseResourcesServerConfig, SimpleResourcesServer


class PricedConfig(BaseResourcesServerConfig):
    max_price: int


class Priced(SimpleResourcesServer):
    config: PricedConfig

    async def verify(self, body):
        raise NotImplementedError
"""


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ("domain: math, max_price: 3", []),
        ("domain: math, max_price: much", ["max_price"]),
        ("domain: math", ["max_price"]),
        ("max_price: 3", ["domain"]),
        ("domian: math, max_price: 3", ["domian", "did you mean 'domain'?"]),
        ("domain: math, max_prise: 3", ["max_price", "'max_prise' is set"]),
        ("domain: maths, max_price: 3", ["domain"]),
    ],
)
def test_validate_checks_settings_by_the_class_of_the_server(
    gym: Gym, settings: str, keys: list[str]
) -> None:
    server = gym.folder / "resources_servers" / "priced"
    server.mkdir(parents=True)
    (server / "app.py").write_text(PRICED)
    (gym.folder / "c.yaml").write_text(f"p: {{resources_servers: {{priced: {{{settings}}}}}}}\n")

    code, report = gym.json("validate", "--config", "c.yaml")

    assert (code, report["valid"]) == (1 if keys else 0, not keys)
    assert [key for key in keys if key in report["problems"][0]["message"]] == keys


DATASETS = """
policy_model: {responses_api_models: {openai_model: {openai_base_url: http://u, openai_api_key: k, openai_model: m}}}
r: {resources_servers: {mcqa: {domain: knowledge}}}
a:
  responses_api_agents:
    simple_agent:
      model_server: {type: responses_api_models, name: policy_model}
      resources_server: {type: resources_servers, name: r}
      datasets: [{name: d, DATASET}]
"""


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        ("type: exampel, jsonl_fpath: d.jsonl", "did you mean 'example'"),
        ("typ: example, jsonl_fpath: d.jsonl", "did you mean 'type'"),
        ("type: example, jsonl_path: d.jsonl", "did you mean 'jsonl_fpath'"),
        ("type: example, jsonl_fpath: d.jsonl, num_repeat: 2", "did you mean 'num_repeats'"),
        ("type: example, jsonl_fpath: dd.jsonl", "dd.jsonl does not exist"),
        ("type: train, jsonl_fpath: d.jsonl", "license is required"),
        (
            "type: example, jsonl_fpath: d.jsonl, huggingface_identifier: {repo_idd: o/d, repo_id: o/d}",
            "did you mean 'repo_id'",
        ),
    ],
)
def test_validate_reports_what_is_wrong_with_a_dataset(gym: Gym, dataset: str, says: str) -> None:
    (gym.folder / "d.jsonl").write_text("{}\n")
    (gym.folder / "c.yaml").write_text(DATASETS.replace("DATASET", dataset))

    code, report = gym.json("validate", "--config", "c.yaml")

    (problem,) = report["problems"]
    assert (code, says in problem["message"]) == (1, True), problem


@pytest.mark.parametrize(
    "source", ["", "gitlab_identifier: {dataset_name: d, version: 0.0.1, artifact_fpath: d}"]
)
def test_validate_accepts_a_dataset_whose_rows_exist_or_can_be_downloaded(
    gym: Gym, source: str
) -> None:
    path = "absent.jsonl" if source else "d.jsonl"
    (gym.folder / "d.jsonl").write_text("{}\n")
    dataset = f"type: example, jsonl_fpath: {path}, {source}"
    (gym.folder / "c.yaml").write_text(DATASETS.replace("DATASET", dataset))

    assert gym.env("validate", "--config", "c.yaml") == 0


def test_validate_lists_every_problem_as_json(gym: Gym) -> None:
    text = DATASETS.replace("DATASET", "type: exampel, jsonl_fpath: d.jsonl")
    (gym.folder / "c.yaml").write_text(text.replace("domain: knowledge", "domain: maths"))

    _, report = gym.json("validate", "--config", "c.yaml")

    keys = {problem["key"].rpartition(".")[2] for problem in report["problems"]}
    assert keys == {"domain", "type"}


def test_validate_of_a_resources_server_by_name_says_which_flag_names_it(gym: Gym) -> None:
    with pytest.raises(ConfigError) as caught:
        gym.env("validate", "mcqa")

    assert "--resources-server mcqa" in caught.value.hint


def test_validate_reports_a_missing_value(gym: Gym) -> None:
    (gym.folder / "missing.yaml").write_text("some_setting: ???\n")

    with pytest.raises(ConfigError, match="some_setting"):
        gym.env("validate", "--config", "missing.yaml")


def test_validate_of_an_environment_reports_its_manifest(gym: Gym) -> None:
    gym.env("init", "--environment", "sums")
    gym.edit("environments/sums/manifest.yaml", "domain: other", "domian: other")

    code, report = gym.json("validate", "sums")

    assert (code, report["valid"], report["kind"]) == (1, False, "environment")
    problems = {problem["key"]: problem for problem in report["problems"]}
    assert problems["domian"]["line"] == 5
    assert problems["domian"]["file"].endswith("environments/sums/manifest.yaml")


@pytest.mark.parametrize("where", ["environments/sums/manifest.yaml", "environments/sums"])
def test_validate_takes_the_path_of_a_manifest(gym: Gym, where: str) -> None:
    gym.env("init", "--environment", "sums")

    assert gym.env("validate", "--manifest", where) == 0
    assert gym.out.splitlines()[-1] == "Config is valid."


def test_validate_of_a_manifest_in_another_project_reads_its_config_there(
    gym: Gym, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gym.env("init", "--environment", "sums")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    assert gym.env("validate", "--manifest", "../environments/sums/manifest.yaml") == 0


def test_validate_finds_a_name_in_a_search_dir(
    gym: Gym, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gym.env("init", "--environment", "sums")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv(EXTRA_ROOTS, str(tmp_path))

    assert gym.env("validate", "sums") == 0
    assert gym.env("test", "sums") == 0


def test_validate_syncs_the_manifest(gym: Gym) -> None:
    gym.env("init", "--environment", "sums")
    gym.edit("environments/sums/manifest.yaml", "domain: other", "domain: math")

    assert gym.env("validate", "sums") == 1
    code, report = gym.json("validate", "sums", "--sync")
    assert (code, report["synced"]) == (0, ["domain"])


def test_validate_of_a_folder_without_a_manifest_checks_its_config(gym: Gym) -> None:
    gym.env("init", "--benchmark", "sums")
    (gym.folder / "benchmarks/sums/manifest.yaml").unlink()

    assert gym.env("validate", "sums", "--kind", "benchmark") == 0
    assert gym.out.splitlines()[-1] == "Config is valid."


@pytest.mark.parametrize(
    "words", [["validate", "--sync"], ["test", "--update-expected"], ["publish"], ["init"]]
)
def test_flags_that_need_a_name_say_so(gym: Gym, words: list[str]) -> None:
    with pytest.raises(UsageError):
        gym.env(*words)


def test_an_unknown_name_is_an_error_of_the_configuration(gym: Gym) -> None:
    for action in ("validate", "test", "publish"):
        with pytest.raises(ConfigError, match="nowhere"):
            gym.env(action, "nowhere")


@pytest.mark.parametrize("name", ["sums", "environments/sums"])
def test_test_runs_the_fixture_of_an_environments_verifier(gym: Gym, name: str) -> None:
    gym.env("init", "--environment", "sums")

    code, report = gym.json("test", name)

    assert (code, report["passed"], len(report["cases"])) == (0, True, 4)


def test_test_runs_the_fixture_of_a_resources_server(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")

    assert gym.env("test", "sums") == 0


def test_test_holds_rewards_to_the_range_of_the_manifest(gym: Gym) -> None:
    gym.env("init", "--environment", "sums", "--reward-range", "0", "0.5")

    code, report = gym.json("test", "sums")

    failed = [case["kind"] for case in report["cases"] if not case["passed"]]
    assert (code, failed) == (1, ["full_reward", "determinism"])


def test_test_updates_the_expected_rewards(gym: Gym) -> None:
    gym.env("init", "--environment", "sums")
    fixture = "resources_servers/sums/tests/verifier_fixture.jsonl"
    before = (gym.folder / fixture).read_text()
    gym.edit(fixture, '"expected_reward": 1.0', '"expected_reward": 0.25')

    assert gym.env("test", "sums") == 1
    code, report = gym.json("test", "sums", "--update-expected")

    assert (code, len(report["updated"])) == (0, 2)
    rows = [json.loads(line) for line in (gym.folder / fixture).read_text().splitlines()]
    assert rows == [json.loads(line) for line in before.splitlines()]


@pytest.mark.slow
def test_test_of_one_server_exits_with_the_code_of_pytest(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")
    tests = gym.folder / "resources_servers/sums/tests/test_app.py"

    tests.write_text("def test_nothing() -> None: ...\n")
    passed = gym.env("test", "--resources-server", "sums")
    tests.write_text("assert False\n")
    broken = gym.env("test", "--resources-server", "sums")
    tests.write_text("")
    empty = gym.env("test", "+entrypoint=resources_servers/sums")

    assert (passed, broken, empty) == (0, 2, 5)


@pytest.mark.slow
def test_test_validates_data_only_when_asked(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")
    (gym.folder / "resources_servers/sums/data/example.jsonl").unlink()
    (gym.folder / "resources_servers/sums/README.md").unlink()
    tests = gym.folder / "resources_servers/sums/tests/test_app.py"
    tests.write_text("def test_nothing() -> None: ...\n")

    assert gym.env("test", "--resources-server", "sums") == 0
    assert gym.env("test", "--resources-server", "sums", "+should_validate_data=true") == 1


@pytest.mark.slow
def test_test_without_a_name_tests_a_shard_of_all_servers(gym: Gym) -> None:
    for name in ("first", "second", "third"):
        gym.env("init", "--resources-server", name)
        tests = gym.folder / f"resources_servers/{name}/tests/test_app.py"
        tests.write_text("def test_nothing() -> None: ...\n")

    code, reports = gym.json("test", "+num_shards=2", "+shard_index=0")

    assert code == 0
    assert [Path(report["folder"]).name for report in reports] == ["first", "third"]


@pytest.mark.parametrize(
    "words", [["+num_shards=2", "+shard_index=2"], ["+num_shards=0"], ["+shard_index=x"]]
)
def test_test_refuses_a_shard_that_cannot_be(gym: Gym, words: list[str]) -> None:
    with pytest.raises((UsageError, InvalidSettings)):
        gym.env("test", *words)


def test_init_of_a_server_names_the_next_commands_of_gym(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")

    assert "  gym env test --resources-server sums\n" in gym.out
    assert "palestra test" not in gym.out


def test_publish_of_a_server_names_flags_that_exist(gym: Gym) -> None:
    with pytest.raises(ConfigError) as raised:
        gym.env("publish", "mcqa")
    assert "--resources-server" not in raised.value.hint

    command = raised.value.hint.partition("gym env ")[2].partition(" makes ")[0]
    assert gym.env(*command.split()) == 0
    assert (gym.folder / "environments/my_mcqa/manifest.yaml").is_file()


def test_validate_of_a_server_names_the_command_to_type(gym: Gym) -> None:
    with pytest.raises(ConfigError) as raised:
        gym.env("validate", "mcqa")

    assert "mcqa is a resources server: gym env validate --resources-server mcqa" in (
        raised.value.hint
    )


@pytest.mark.parametrize(
    ("flag", "path"),
    [
        ("--resources-server", "resources_servers/sums"),
        ("--resources-server", "./resources_servers/sums/"),
        ("--environment", "environments/sums"),
    ],
)
def test_init_takes_the_path_of_the_new_folder_for_its_name(gym: Gym, flag: str, path: str) -> None:
    gym.env("init", flag, path)

    [app] = gym.folder.rglob("app.py")
    assert app.relative_to(gym.folder) == Path("resources_servers/sums/app.py")


def test_servers_without_a_readme_are_skipped_with_a_line(
    gym: Gym, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        gym.env("init", "--resources-server", name)
    (gym.folder / "resources_servers/second/README.md").unlink()
    unconfigured = gym.folder / "resources_servers/third/app.py"
    unconfigured.parent.mkdir()
    unconfigured.touch()

    folders = documented_servers()

    assert [folder.name for folder in folders] == ["first"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        f"skipped resources_servers/{name}: it has no README.md" for name in ("second", "third")
    ]
    assert "+entrypoint=resources_servers/second" in lines[0]


def test_a_project_whose_servers_all_lack_a_readme_is_refused(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")
    (gym.folder / "resources_servers/sums/README.md").unlink()

    with pytest.raises(ConfigError, match=r"no server has a README.md: resources_servers/sums"):
        documented_servers()


def test_init_warns_of_a_name_that_hides_an_environment_of_palestra(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")
    assert "hides" not in gym.err

    gym.env("init", "--resources-server", "mcqa")
    assert "'mcqa'" in gym.err
    assert "hides" in gym.err


def test_init_of_an_environment_warns_of_a_name_that_it_hides(gym: Gym) -> None:
    gym.env("init", "--environment", "mcqa")

    assert "'mcqa'" in gym.err
    assert "hides" in gym.err


def test_init_refuses_what_is_no_name_as_a_usage_error(gym: Gym) -> None:
    with pytest.raises(UsageError, match="'Bad-Name!'"):
        gym.env("init", "--environment", "Bad-Name!")


def test_a_misspelt_server_gets_a_suggestion(gym: Gym) -> None:
    gym.env("init", "--resources-server", "ledger")

    with pytest.raises(ConfigError, match="did you mean 'ledger'"):
        gym.env("test", "--resources-server", "leger")


def test_init_of_an_existing_server_changes_nothing_and_exits_with_0(gym: Gym) -> None:
    gym.env("init", "--resources-server", "sums")
    app = gym.folder / "resources_servers/sums/app.py"
    app.write_text("mine = True\n")

    assert gym.env("init", "--resources-server", "sums") == 0
    assert "exists already" in gym.out
    assert app.read_text() == "mine = True\n"


def test_init_writes_all_its_flags_into_the_manifest(gym: Gym) -> None:
    gym.env(
        "init", "--benchmark", "quiz", "--profile", "harness", "--reuse-verifier", "mcqa",
        "--reward-range", "-1", "0", "--lower-is-better",
    )  # fmt: skip
    _, report = gym.json("validate", "quiz")

    text = (gym.folder / "benchmarks/quiz/manifest.yaml").read_text()
    assert report["valid"] is True
    for line in ("profile: harness", "server: mcqa", "range: [-1.0, 0.0]", "better: false"):
        assert line in text


@pytest.mark.parametrize(
    "words",
    [
        ["--environment", "a", "--benchmark", "b"],
        ["--environment", "a", "--reward-range", "1", "0"],
        ["--environment", "a", "--higher-is-better", "--lower-is-better"],
    ],
)
def test_init_refuses_flags_that_contradict_each_other(gym: Gym, words: list[str]) -> None:
    with pytest.raises(UsageError):
        gym.env("init", *words)

    assert list(gym.folder.iterdir()) == []


def test_publish_writes_one_line_for_each_component(gym: Gym) -> None:
    gym.env("init", "--environment", "sums")
    gym.env("init", "--benchmark", "exam", "--reuse-verifier", "sums")

    codes = [gym.json("publish", name)[0] for name in ("sums", "exam", "sums")]

    lines = (gym.folder / "catalogue.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert codes == [0, 0, 0]
    assert [(row["kind"], row["name"]) for row in rows] == [
        ("benchmark", "exam"),
        ("environment", "sums"),
    ]
    assert rows[1]["manifest"] == "environments/sums/manifest.yaml"


def drop_manifest(gym: Gym) -> None:
    (gym.folder / "environments/sums/manifest.yaml").unlink()


def drift(gym: Gym) -> None:
    gym.edit("environments/sums/manifest.yaml", "domain: other", "domain: math")


def fail_a_case(gym: Gym) -> None:
    gym.edit(
        "resources_servers/sums/tests/verifier_fixture.jsonl",
        '"expected_reward": 0.0',
        '"expected_reward": 0.5',
    )


def drop_a_kind(gym: Gym) -> None:
    path = gym.folder / "resources_servers/sums/tests/verifier_fixture.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:1]))


@pytest.mark.parametrize("spoil", [drop_manifest, drift, fail_a_case, drop_a_kind])
def test_publish_writes_nothing_when_a_check_fails(gym: Gym, spoil: Any) -> None:
    gym.env("init", "--environment", "sums")
    spoil(gym)

    code, report = gym.json("publish", "sums")

    assert (code, report["published"]) == (1, False)
    assert report["problems"]
    assert not (gym.folder / "catalogue.jsonl").exists()
