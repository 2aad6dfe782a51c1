"""Bad input: one clear error, exit code 2, and nothing written."""

import gzip
import os
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_world import AGENT, KEY, MULTI_STEP, OPENAI, World

from packers import zstd

CONFIGS = f"+config_paths=[{MULTI_STEP},{OPENAI}]"
POLICY = ("++policy_base_url=http://127.0.0.1:9/v1", f"++policy_api_key={KEY}")
NAMED = (*POLICY, "++policy_model_name=tiny")


def refused_config(world: World, *arguments: str) -> str:
    """What `ng_run` says to such a configuration."""
    before = world.files()
    message = world.run("ng_run", world.head, *arguments).refused()
    assert world.files() == before
    return message


def test_a_missing_config_file_is_named_with_the_places_looked_at(world: World) -> None:
    message = refused_config(world, "+config_paths=[no/such.yaml]")

    assert "config file 'no/such.yaml' (asked for) does not exist" in message
    assert str(world.folder / "no/such.yaml") in message


@pytest.mark.parametrize("command", ["eval", "show", "view", "profile", "collect"])
def test_a_name_that_no_file_can_have_is_refused(world: World, command: str) -> None:
    message = world.run("palestra", command, f"{'a' * 300}.jsonl").refused()

    assert "characters): File name too long" in message
    assert len(message) < 1000


def test_a_folder_without_a_run_is_nothing_to_show(world: World) -> None:
    assert "there is no run, environment" in world.run("palestra", "show", ".").refused()


def test_a_yaml_error_has_its_line(world: World) -> None:
    world.write("bad.yaml", "fine: 1\nbroken: [1,\n")

    assert "bad.yaml, line 2" in refused_config(world, "+config_paths=[bad.yaml]")


def test_a_reference_to_nobody_names_the_nearest_instance(world: World) -> None:
    wrong = f"++{AGENT}.responses_api_agents.simple_agent.model_server.name=policy_modl"
    message = refused_config(world, CONFIGS, *NAMED, wrong)

    assert "'policy_modl', which does not exist; did you mean 'policy_model'?" in message


def test_a_configuration_without_a_model_is_told_to_add_one(world: World) -> None:
    message = refused_config(world, f"+config_paths=[{MULTI_STEP}]")

    assert "the configuration has no responses_api_models" in message
    assert (
        "hint: add a model server, such as `+config_paths=[responses_api_models/openai_model/"
        in message
    )


def test_a_user_of_gym_is_told_the_flags_that_add_a_model(world: World) -> None:
    start = ("palestra", "gym", "env", "start", "--resources-server", "example_multi_step")
    done = world.run(*start, world.head)

    assert done.code == 1
    assert "hint: add a model server, such as `--model-type openai_model --model NAME`" in done.err


@pytest.mark.parametrize(
    ("asked", "meant"), [("word_cuont", "word_count"), ("wrods.py", "words.py")]
)
def test_a_misspelt_environment_of_the_readers_own_is_recognized(
    world: World, asked: str, meant: str
) -> None:
    configs = world.folder / "resources_servers" / "word_count" / "configs"
    configs.mkdir(parents=True)
    (configs / "word_count.yaml").touch()
    world.write(
        "words.py", "import palestra\n\n\nclass Words(palestra.Environment):\n    data = []\n"
    )

    message = world.run("palestra", "eval", asked).refused()

    assert f"did you mean '{meant}'?" in message


def test_two_instances_on_one_port_are_both_named(world: World) -> None:
    ports = (
        "++example_multi_step_resources_server.resources_servers.example_multi_step.port=12345",
        "++policy_model.responses_api_models.openai_model.port=12345",
    )
    message = refused_config(world, CONFIGS, *NAMED, *ports)

    assert (
        "example_multi_step_resources_server and policy_model both use 127.0.0.1:12345" in message
    )


def test_an_unknown_implementation_names_the_nearest_one(world: World) -> None:
    wrong = "++x.resources_servers.exampel_multi_step.entrypoint=app.py"
    message = refused_config(world, f"+config_paths=[{OPENAI}]", *NAMED, wrong)

    assert "exampel_multi_step/app.py; nearest: example_multi_step" in message


def test_a_missing_key_says_how_to_give_it(world: World) -> None:
    message = refused_config(
        world, CONFIGS, "++policy_base_url=http://127.0.0.1:9/v1", "++policy_model_name=tiny"
    )

    assert "openai_api_key needs policy_api_key: ++policy_api_key=<value>" in message


def test_all_missing_settings_are_listed_at_once(world: World) -> None:
    message = refused_config(world, CONFIGS)

    for name in ("policy_base_url", "policy_api_key", "policy_model_name"):
        assert f"++{name}=<value>" in message


def test_a_fleet_without_servers_is_refused(world: World) -> None:
    assert "no server instance is configured" in refused_config(world)


@pytest.mark.parametrize("override", ["foo", "+config_paths=[a", "new_key=1"])
def test_an_override_that_cannot_be_used_is_quoted(world: World, override: str) -> None:
    assert override.split("=", maxsplit=1)[0] in refused_config(world, CONFIGS, *NAMED, override)


def test_no_message_shows_a_key(world: World) -> None:
    done = world.run("ng_run", world.head, CONFIGS, *NAMED, "++head_server.port=x")

    assert KEY not in done.out + done.err


def test_missing_settings_of_a_command_are_all_named(world: World) -> None:
    message = world.run("ng_collect_rollouts", world.head).refused()

    assert "input_jsonl_fpath: is required" in message
    assert "output_jsonl_fpath: is required" in message


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("palestra", "collect", "--repeats", "0"), "--repeats: should be"),
        (("palestra", "collect", "--num-repeats=0"), "--num-repeats: should be"),
        (("palestra", "collect", "+num_repeats=0"), "num_repeats: should be"),
        (
            ("ng_collect_rollouts", "+num_samples_in_parallel=x"),
            "num_samples_in_parallel: should be",
        ),
        (("palestra", "prepare"), "--output-dir is required"),
    ],
)
def test_a_setting_is_named_as_it_was_typed(
    world: World, arguments: tuple[str, ...], named: str
) -> None:
    assert named in world.run(*arguments, world.head).refused()


@pytest.mark.parametrize(("typed", "is_named"), [("polit.py", True), ("nofile.py", False)])
def test_a_missing_environment_file_is_compared_by_its_name_without_suffix(
    world: World, typed: str, is_named: bool
) -> None:
    world.write("polite.py", "from palestra import Environment\nclass Polite(Environment): ...\n")

    refusal = world.run("palestra", "eval", typed).refused()

    assert ("polite.py" in refusal) is is_named


def test_a_busy_head_port_names_its_holder(world: World) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", world.head_port))
        holder.listen()
        message = refused_config(world, CONFIGS, *NAMED)

    assert f"the head server cannot listen on 127.0.0.1:{world.head_port}: " in message
    assert f"; process {os.getpid()} (" in message
    assert "uses this port" in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reasning_gym"], "did you mean 'reasoning_gym'?"),
        (["nope.py"], "nope.py does not exist"),
        (["mcqa", "--model", "openai:"], "does not name a model"),
        (["mcqa", "--model", "bogus"], "bogus"),
        (["mcqa", "--rows", "families"], "is not KEY=VALUE"),
        (
            ["mcqa", "--model", "local", "--progress", "nonsense"],
            "--progress: should be 'rich', 'plain' or 'none', got 'nonsense'",
        ),
    ],
)
def test_an_evaluation_that_means_nothing_is_refused(
    world: World, arguments: list[str], says: str
) -> None:
    message = world.run("palestra", "eval", *arguments).refused()

    assert says in message
    assert world.files() == []


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("reasoning_gym"), reason="needs reasoning_gym")
def test_rows_that_an_environment_does_not_make_are_refused(world: World) -> None:
    done = world.run(
        "palestra", "eval", "reasoning_gym", "--model", "local", "--rows", "famlies=all"
    )

    message = done.refused()
    assert "--rows famlies: reasoning_gym has no such option; did you mean 'families'?" in message
    assert "--rows takes families=VALUE" in message
    assert world.files() == []


def test_files_to_profile_that_are_missing_are_named(world: World) -> None:
    message = world.run("palestra", "profile", "--inputs", "a.jsonl", "--rollouts", "b").refused()

    assert "cannot read a.jsonl" in message


def test_a_config_file_may_have_any_name(world: World) -> None:
    path = Path("my conf, it's=1 [x].yaml")
    world.write(str(path), "note: here\n")
    done = world.run("palestra", "config", "--config", str(path))

    assert done.code == 0, done.err
    assert "note: here" in done.out


ENVIRONMENT = """
from palestra import environment

@environment(data=[{"q": "a"}], prompt=PROMPT)
def verify(answer: str) -> float:
    return 1.0
"""
TASK = '{"responses_create_params": {"input": "hi"}, "expected_answer": "A"}\n'
MCQA = ("-c", "resources_servers/mcqa/configs/mcqa.yaml", "-c", OPENAI, *NAMED)
COLLECT = ("collect", *MCQA, "--input", "tasks.jsonl", "--output", "out/r.jsonl")
EVAL = ("eval", "mcqa", "--model", "local")
REVERIFY = ("reverify", "-r", "tasks.jsonl", "-o", "o.jsonl")
GYM_RUN = ("gym", "eval", "run", "--resources-server", "mcqa", "--output", "o.jsonl")

TYPOS: list[tuple[tuple[str, ...], str]] = [
    # names of commands, options and arguments
    (("score", "run.jsonl"), "no such command 'score': write palestra reverify"),
    (("evaluate", "mcqa"), "no such command 'evaluate': write palestra eval"),
    (("--verison",), "there is no option --verison; did you mean --version?"),
    (("dataset", "uplod"), "no such command 'uplod'; did you mean 'upload'?"),
    (("models", "fetc"), "no such command 'fetc'; did you mean 'fetch'?"),
    (("models", "list"), "no such command 'list': write palestra list models"),
    (("models", "pull"), "no such command 'pull': write palestra models fetch local"),
    (("sandbox", "list"), "no such command 'list'\nhint:"),
    (("serve-model", "vlm"), "no such command 'vlm'; did you mean 'vllm'?"),
    (("gym", "status"), "did you mean `palestra gym env status`?"),
    (("gym", "evall"), "palestra gym has no group evall. Did you mean eval?"),
    (("eval", "mcqa", "--modle", "local"), "there is no option --modle; did you mean --model?"),
    (("eval", "mcqa", "--repeat", "3"), "there is no option --repeat; did you mean --repeats?"),
    (("reverify", "--repeat", "3"), "there is no option --repeat\nhint:"),
    (("profile", "--rollout", "x"), "there is no option --rollout; did you mean --rollouts?"),
    (("cluster", "rollouts", "--mail-user", "me"), "write --sbatch mail-user=VALUE"),
    (("eval", "mcqa", "-T", "x=3"), "there is no option -T: write --set KEY=VALUE"),
    (("eval", "mcqa", "--epochs", "3"), "there is no option --epochs: write --repeats N"),
    (("eval", "mcqa", "--data", "f.csv"), "there is no option --data: write --input FILE"),
    (("eval", "mcqa", "--settings", "a=1"), "no option --settings: write --set KEY=VALUE"),
    (("eval", "mcqa", "-b", "http://x/v1"), "there is no option -b: write --model vllm:URL"),
    (("eval", "mcqa", "--log-dir", "l"), "there is no option --log-dir: write --output FILE"),
    (("eval", "mcqa", "--sample-id", "3"), "there is no option --sample-id: write --input FILE"),
    (("eval", "mcqa", "-n", "3"), "there is no option -n: write --limit N"),
    (("profile", "--epochs", "3"), "there is no option --epochs\nhint:"),
    (("version", "--jsn"), "there is no option --jsn; did you mean --json?"),
    (("eval", "mcqa", "--model"), "--model needs a value"),
    (("eval",), "TARGET is required"),
    (("compare", "a.jsonl"), "B is required"),
    (("compare", "a", "b", "c"), "got unexpected further words (c)"),
    (("merge", "out.jsonl"), "SHARD... is required"),
    (("scores",), "RUN... is required"),
    (("reverify",), "--rollouts is required"),
    (("reverify", "-r", "tasks.jsonl"), "--output is required"),
    (("collect", *MCQA, "--output", "o.jsonl"), "--input is required"),
    (("render-prompts",), "--input is required; --prompt is required; --output is required"),
    (("config", "foo"), "takes flags and overrides (key=value), not 'foo'"),
    (("eval", "mcqa", "--input", "a.jsonl", "-i", "b.jsonl"), "-i takes one file"),
    ((*GYM_RUN, "--input", "a.jsonl", "--input=b.jsonl"), "--input takes one file"),
    (("eval", "mcqa", "--input", "tasks.jsonl", "tasks.jsonl"), "is a file without a flag"),
    (
        ("collect", *MCQA, "--input", "t*.jsonl", "--output", "tasks.jsonl"),
        "t*.jsonl matches only files of the run that it would write",
    ),
    # values of the wrong type, or outside of their range
    (("eval", "mcqa", "--limit", "ten"), "--limit: should be a whole number, got 'ten'"),
    (("eval", "mcqa", "--limit", "-1"), "--limit: should be at least 0, got '-1'"),
    (("eval", "mcqa", "--temperature", "hot"), "--temperature: should be a number, got 'hot'"),
    (
        ("eval", "mcqa", "--max-output-tokens", "0"),
        "--max-output-tokens: should be at least 1, got '0'",
    ),
    (("eval", "mcqa", "--min-coverage", "95"), "--min-coverage: should be from 0 to 1, got '95'"),
    ((*EVAL, "--repeats=-1"), "--repeats: should be a whole number from 1 on"),
    (
        (*EVAL, "--concurrency", "lots"),
        "--concurrency: should be a whole number from 1 on, or auto",
    ),
    ((*EVAL, "--rollout-timeout", "0"), "--rollout-timeout: should be more than 0, got 0.0"),
    ((*EVAL, "--patience", "soon"), "--patience: should be a number, got 'soon'"),
    (
        (*EVAL, "--on-stale", "maybe", "--resume"),
        "--on-stale: should be 'error' or 'restart', got 'maybe'",
    ),
    ((*COLLECT, "--min-coverage", "95"), "--min-coverage: should be from 0 to 1, got 95.0"),
    ((*COLLECT, "++min_coverage=95"), "min_coverage: should be from 0 to 1, got 95"),
    ((*COLLECT, "--num-repeats", "many"), "--num-repeats: should be a whole number from 1 on"),
    ((*COLLECT, "--limit", "x"), "--limit: should be a whole number, got 'x'"),
    ((*COLLECT, "--shard", "4/4"), "--shard: '4/4' is not a shard"),
    (
        ("collect", *MCQA, "--split", "test", "--output", "o.jsonl"),
        "--split: should be 'train', 'validation'",
    ),
    (("select", "tasks.jsonl", "--band", "wide"), "--band 'wide' is not LOW..HIGH"),
    (("select", "tasks.jsonl", "--min-rollouts", "0"), "--min-rollouts: should be at least 1"),
    (("scores", "tasks.jsonl", "--k", "0"), "--k: should be at least 1, got '0'"),
    ((*REVERIFY, "--timeout", "0"), "--timeout: should be at least 0.001, got '0'"),
    (("test", "--timeout", "0"), "--timeout: should be at least 1, got '0'"),
    (("status", "--wait", "x"), "--wait: should be a number, got 'x'"),
    (("sandbox", "serve", "--port", "x"), "--port: should be a whole number, got 'x'"),
    (("status", "--wait", "-1"), "--wait: should be at least 0, got '-1'"),
    (("sandbox", "serve", "--port", "99999"), "--port: should be from 0 to 65535, got '99999'"),
    (("serve-model", "llama-cpp", "--slots", "0"), "--slots: should be at least 1, got '0'"),
    (("init", "Bad Name"), "'Bad Name' is not a name for an environment"),
    (("show", "mcqa", "--row", "-1"), "--row: should be at least 0, got '-1'"),
    (("show", "mcqa", "--row", "x"), "--row: should be a whole number, got 'x'"),
    (("show", "mcqa", "--row", "999"), "mcqa has no row 999"),
    (("completion", "bsh"), "shell: should be 'bash', 'zsh' or 'fish', got 'bsh'"),
    (("init", "mine", "--template", "tool"), "--template: should be 'single', 'tools'"),
    ((*EVAL, "--limit", "1.5"), "--limit: should be a whole number, got '1.5'"),
    ((*EVAL, "--temperature", "nan"), "--temperature: should be at least 0, got 'nan'"),
    ((*EVAL, "--max-output-tokens", "1e3"), "--max-output-tokens: should be a whole number"),
    ((*EVAL, "--min-coverage", "nan"), "--min-coverage: should be from 0 to 1, got 'nan'"),
    ((*EVAL, "--max-attempts", "0"), "--max-attempts: should be at least 1, got '0'"),
    ((*EVAL, "--rollout-timeout", "inf"), "--rollout-timeout: should be a finite number"),
    ((*EVAL, "--repeats", "1.5"), "--repeats: should be a whole number from 1 on"),
    ((*EVAL, "--progress", "fancy"), "--progress: should be 'rich', 'plain' or 'none'"),
    ((*EVAL, "--set", "difficulty"), "--set 'difficulty' is not KEY=VALUE"),
    ((*COLLECT, "--shard", "half"), "--shard: 'half' is not a shard"),
    ((*COLLECT, "--limit", "-1"), "--limit: should be at least 0, got -1"),
    (("select", "tasks.jsonl", "--band", "0.9..0.1"), "--band '0.9..0.1' is not LOW..HIGH"),
    (("select", "tasks.jsonl", "--limit", "0"), "--limit: should be at least 1, got '0'"),
    (("select", "tasks.jsonl", "--solved-at", "x"), "--solved-at: should be a number, got 'x'"),
    (("compare", "a", "b", "--gate", "--tolerance", "x"), "--tolerance: should be a number"),
    (("compare", "a", "b", "--gate", "--tolerance", "-1"), "--tolerance must be a number of 0"),
    (("scores", "base="), "'base=' is not NAME=RUN"),
    ((*REVERIFY, "--concurrency", "0"), "--concurrency: should be at least 1, got '0'"),
    (("verify-env", "env.py", "--repeats", "1"), "--repeats: should be at least 2, got '1'"),
    (("verify-env", "env.py", "--set", "a=1"), "has no setting 'a'"),
    # models that mean nothing
    (("eval", "env.py", "--model", "grok:x"), "there is no provider 'grok'; did you mean 'groq'?"),
    (("eval", "env.py", "--model", "groq:x"), "--model groq:x needs a key, and GROQ_API_KEY"),
    (("eval", "env.py", "--model", "vllm:htp://x/v1"), "'vllm:htp://x/v1' has no valid URL"),
    (("eval", "env.py", "--model", "http://x/v1"), "'http://x/v1' is a URL without a provider"),
    (("eval", "env.py", "--model", "local:big"), "'local:big': the local model has no other name"),
    (("doctor", "env.py", "--model", "nope"), "--model 'nope' is neither a provider's model"),
    # an override is blamed, not the file of rows
    (
        (*COLLECT, "responses_create_params.temperature=hot"),
        "error: responses_create_params.temperature: should be a number, got 'hot'",
    ),
    (
        ("eval", "mcqa", "--model", "local", "--output", "out3"),
        "--output: should end with .jsonl, such as out3/rollouts.jsonl, got 'out3'",
    ),
    (
        ("merge", "out7", "tasks.jsonl"),
        "output: should end with .jsonl, such as out7/rollouts.jsonl, got 'out7'",
    ),
    (("reverify", "-r", "tasks.jsonl", "-o", "out9"), "-o: should end with .jsonl, such as"),
    # what is written is not compressed
    (
        ("eval", "mcqa", "--model", "local", "--output", "o.jsonl.gz"),
        "--output: should end with .jsonl, such as o.jsonl, got 'o.jsonl.gz'",
    ),
    (
        ("dataset", "import", "tasks.jsonl", "-o", "o.jsonl.zst"),
        "-o: should end with .jsonl, such as o.jsonl, got 'o.jsonl.zst'",
    ),
    (("eval", "env.py", "--model", "local", "--input", "no*.jsonl"), "no*.jsonl matches no file"),
    (
        ("collect", *MCQA, "--input", "no*.jsonl", "--output", "o.jsonl"),
        "no*.jsonl matches no file",
    ),
    (
        ("collect", *MCQA, "--input", "[qr]*", "--output", "o.jsonl"),
        "rows.txt: 1 row cannot be used",
    ),
    (
        ("render-prompts", "-i", "no*.jsonl", "--prompt", "prompt.yaml", "-o", "o"),
        "no*.jsonl matches no file",
    ),
    (
        (*COLLECT, "+responses_create_params.max_output_tokenz=1"),
        "max_output_tokenz: is no parameter of a request (did you mean 'max_output_tokens'?)",
    ),
    (
        (*COLLECT, "+responses_create_params.max_tokens=1"),
        "max_tokens: is no parameter of a request (did you mean 'max_output_tokens'?)",
    ),
    (
        (*COLLECT, "+responses_create_params.temp=1"),
        "temp: is no parameter of a request (did you mean 'temperature'?)",
    ),
    (
        (*COLLECT, "+responses_create_params={extra_body: {seed: 1}}"),
        "extra_body: is no parameter of a request (did you mean 'metadata.extra_body'?)",
    ),
    (
        (*COLLECT, "+responses_create_params.metadata.a=1"),
        "error: responses_create_params.metadata.a: should be a text, got 1",
    ),
    (
        (*COLLECT, "+responses_create_params.max_output_tokens=0"),
        "error: responses_create_params.max_output_tokens: should be at least 1, got 0",
    ),
    ((*EVAL, "num_repeat=3"), "override 'num_repeat' is not a setting"),
    # options that contradict each other, or do nothing
    (
        (*EVAL, "--resume", "--overwrite"),
        "error: --resume continues an earlier run, and --overwrite",
    ),
    ((*EVAL, "--on-stale", "restart"), "add --resume, or use --overwrite alone"),
    ((*EVAL, "--rows", "foo=1"), "--rows: mcqa has its tasks and does not make them"),
    ((*EVAL, "--seed", "3"), "--seed: mcqa has its tasks and does not make them"),
    ((*EVAL, "--judge", "local"), "--judge local: nothing in this environment asks a judge"),
    (("scores", "tasks.jsonl", "--json", "--markdown"), "--json and --markdown"),
    (("scores", "tasks.jsonl", "--json", "--fractions"), "--json and --fractions"),
    (("select", "tasks.jsonl", "--band", "0..1", "--overwrite"), "--overwrite does nothing"),
    (("select", "tasks.jsonl", "--learnability", "--decided-only"), "--decided-only does nothing"),
    (("select", "tasks.jsonl", "--failed", "--band", "0..1"), "--failed and --band cannot be"),
    (("select", "tasks.jsonl", "--failed", "--min-rollouts", "1"), "--failed and --min-rollouts"),
    (("select", "tasks.jsonl", "--failed", "--max-tokens", "9"), "--failed and --max-tokens"),
    (("select", "tasks.jsonl", "--failed", "--solved-at", "1"), "--failed and --solved-at"),
    (("select", "tasks.jsonl", "--failed", "--learnability"), "--failed and --learnability"),
    (("select", "tasks.jsonl", "--failed", "--decided-only"), "--failed and --decided-only"),
    (("compare", "a", "b", "--tolerance", "0.1"), "only affect --gate: add --gate"),
    (("init", "new", "--from", "env.py", "--template", "tools"), "--template does nothing with"),
    (("init", "new", "--config-only", "--template", "tools"), "--template does nothing with"),
    ((*COLLECT, "--split", "train"), "--input and --split cannot be combined"),
    ((*REVERIFY, "--resume", "--overwrite"), "--resume continues, --overwrite starts again"),
    (("eval", "env.py", "--set", "difficulty=5", "--model", "local"), "no setting 'difficulty'"),
    # words that are neither flags nor overrides
    (
        ("collect", "mcqa"),
        "hint: `palestra collect --config resources_servers/mcqa/configs/mcqa.yaml --split example",
    ),
    (
        ("doctor", "resources_servers/mcqa"),
        "hint: `palestra doctor --config resources_servers/mcqa/configs/mcqa.yaml --split example",
    ),
    (
        ("config", "mcqa"),
        "hint: `palestra config --config resources_servers/mcqa/configs/mcqa.yaml`; `palestra eval mcqa`",
    ),
    (("run", "mcqa"), "resources_servers/mcqa/configs/mcqa.yaml --model local"),
    (("doctor", "tasks.jsonl"), "hint: name a file of rows by its flag: --input tasks.jsonl"),
    (("collect", "taks.jsonl"), "'taks.jsonl', which does not exist; did you mean tasks.jsonl?"),
    (("config", "my.yaml"), "hint: name a config by its flag: --config my.yaml"),
    (("collect", "mcqq"), "takes flags and overrides (key=value), not 'mcqq'"),
    (("doctor",), "no run is named\nhint: `palestra doctor --config"),
    (
        ("merge", "--output", "all.jsonl"),
        "there is no option --output: write palestra merge OUTPUT SHARD...",
    ),
    (
        ("list", "zzzzqqqq"),
        "error: nothing matches 'zzzzqqqq'\nhint: `palestra list` shows all environ",
    ),
    (("list", "nothingatall"), "error: nothing matches 'nothingatall'\n"),
    (("list", "knowlegde"), "error: nothing matches 'knowlegde'; did you mean 'knowledge'?"),
    # things that are not there
    (("eval", "env.py:other", "--model", "local"), "has no environment 'other'"),
    (("eval", "env.py", "--model", "local", "--input", "nope.jsonl"), "nope.jsonl does not exist"),
    (("eval", "env.py", "--model", "local", "--input", "."), ". is a folder, not a file of rows"),
    (("test", "nope.py"), "nope.py does not exist"),
    (("init", "--from", "nope.py"), "--from nope.py: there is no such Python file"),
    (("runs", "nope"), "there is no folder nope"),
    (("skills", "install", "tasks.jsonl"), "tasks.jsonl is a file"),
    (("profile", "."), ". has no files of a run"),
    (("diagnose", "tasks.jsonl", "--log", "nope.log"), "nope.log does not exist"),
    (("reverify", "-r", "tasks.jsonl", "-o", "tasks.jsonl", "-e", "mcqa"), "which is its input"),
    (("eval", "mcqa", "tasks.jsonl"), "write --input tasks.jsonl"),
    (("eval", "brace.py@verify"), "did you mean 'brace.py:verify'?"),
    (("eval", "tasks.jsonl"), "'tasks.jsonl' is a file of rows, and no environment"),
    (("verify-env", "nope.py"), "nope.py does not exist"),
    (("eval", "brace.py", "--model", "local"), "written twice: {{ or }}"),
    ((*COLLECT, "--agent", "mcqa_simple_agnt"), "did you mean 'mcqa_simple_agent'?"),
    (
        ("collect", *MCQA, "--input", "taks.jsonl", "--output", "o.jsonl"),
        "did you mean tasks.jsonl?",
    ),
    (("collect", *MCQA, "--input", "rows.txt", "--output", "o.jsonl"), "line 1: not JSON"),
    ((*COLLECT, "--prompt-config", "nope.yaml"), "nope.yaml"),
    (("eval", "env.py", "--model", "local", "--input", "taks.jsonl"), "did you mean tasks.jsonl?"),
    (("show", "pasd/run.jsonl"), "did you mean past/run.jsonl?"),
    (("view", "pasd"), "did you mean past?"),
    (("profile", "nope.jsonl"), "cannot read nope.jsonl"),
    (("compare", "a.jsonl", "b.jsonl"), "cannot read a.jsonl"),
    (("reverify", "-r", "nope.jsonl", "-o", "o.jsonl"), "there are no rollouts at nope.jsonl"),
    (("merge", "out.jsonl", "nope*.jsonl"), "no file matches nope*.jsonl"),
    (("diagnose", "nope"), "nope is not a run"),
    (("show", "nope"), "'nope'"),
    (("pip-list", "nope"), "nope is not a server's folder"),
    (("pip-list", "mcq"), "did you mean 'mcqa'?"),
    (("run", "-c", "nope.yaml"), "config file 'nope.yaml'"),
    (("doctor", "tools", "nope.jsonl"), "cannot read nope.jsonl"),
    # the viewer, the service and clusters
    (("view", "nope"), "there is no run nope"),
    (("view", "past/run.jsonl", "3:1"), "palestra view past/run.jsonl 3:1 --text"),
    (("show", "past/run.jsonl", "3-1"), "TASK:ROLLOUT, such as 3:1"),
    (("view", "-p", "7000"), "there is no option -p\nhint:"),
    (("view", "--prt", "1"), "there is no option --prt; did you mean --port"),
    (("view", "--port", "x"), "--port: should be a whole number, got 'x'"),
    (("view", "--port", "99999"), "--port: should be from 0 to 65535, got '99999'"),
    (("view", "--host", ""), "--host: should not be empty, got ''"),
    (("view", "--filter", "reward<"), "'reward<' is wrong at character 8"),
    (("view", "--text", "--export", "a.html"), "--export and --text cannot be combined"),
    (("view", "--json", "--port", "8000"), "--port does nothing with --json"),
    (("serve-rollouts", "--on-stale", "maybe"), "--on-stale: should be 'keep', 'drop'"),
    (("serve-rollouts", "--on-discontinuity", "no"), "should be 'raise', 'mask' or 'split'"),
    (("serve-rollouts", "--attempts", "infra=2"), "--attempts: should be 'scored', 'truncated'"),
    (("serve-rollouts", "--attempts", "scored=2"), "a key of attempts.most is"),
    (("serve-rollouts", "--port", "x"), "--port: should be a whole number, got 'x'"),
    (("cluster", "status", "nope"), "there is no run 'nope'"),
    (("cluster", "rollouts"), "--config-paths is required; --input-file is required"),
    (("skills", "instal"), "no such command 'instal'; did you mean 'install'?"),
    (("prepare", "--mode", "train"), "--mode: should be 'train_preparation'"),
    (("gym", "eval", "run", "--splt", "x"), "has no flag --splt. Did you mean --split?"),
    (
        ("render-prompts", "-i", "q.jsonl", "--prompt", "prompt.yaml", "-o", "o.jsonl"),
        "write a literal brace twice: {{ }}",
    ),
]


@pytest.fixture
def furnished(world: World) -> World:
    """A folder with an environment, one whose prompt has lone braces, rows, and other files."""
    world.write("env.py", ENVIRONMENT.replace("PROMPT", '"{q}"'))
    world.write("brace.py", ENVIRONMENT.replace("PROMPT", """'{"name": "{q}"}'"""))
    world.write("prompt.yaml", """user: '{question} as {"a": 1}'\n""")
    world.write("tasks.jsonl", TASK)
    world.write("q.jsonl", '{"question": "1 + 1"}\n')
    world.write("rows.txt", "hello\n")
    (world.folder / "past").mkdir()
    world.write("past/run.jsonl", "")
    world.write(
        "past/run_materialized_inputs.jsonl", '{"_ng_task_index": 0, "_ng_rollout_index": 0}\n'
    )
    return world


@pytest.mark.parametrize(
    ("arguments", "says"), TYPOS, ids=[" ".join(words)[-60:] for words, _ in TYPOS]
)
def test_wrong_input_is_one_error_in_the_words_that_were_typed(
    furnished: World, arguments: tuple[str, ...], says: str
) -> None:
    before = furnished.files()

    message = furnished.run("palestra", *arguments).refused()

    assert says in message
    assert furnished.files() == before


@pytest.mark.parametrize("how", ["gz", "zst", "windows"])
def test_the_rows_of_a_file_are_read_however_it_was_saved(furnished: World, how: str) -> None:
    data = f"{TASK}not a row\n".encode()
    saved = {
        "gz": gzip.compress(data),
        "zst": zstd.compress(data),
        "windows": b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
    }[how]
    (furnished.folder / "tasks.jsonl").write_bytes(saved)

    message = furnished.run("palestra", *COLLECT, "--agent", "mcqa_simple_agent").refused()

    assert "tasks.jsonl: 1 row cannot be used" in message
    assert "line 2: not JSON" in message


@pytest.mark.parametrize("typed", ["r.jsonl.gz", "r.jsonl"])
@pytest.mark.parametrize("command", [("select", "--band", "0..1"), ("profile", "--rollouts")])
def test_rollouts_without_the_other_files_of_their_run_are_one_error(
    world: World, command: tuple[str, ...], typed: str
) -> None:
    row = b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}\n'
    (world.folder / "r.jsonl.gz").write_bytes(gzip.compress(row))

    message = world.run("palestra", *command, typed).refused()

    assert "materialized inputs of r.jsonl.gz" in message
    assert "r_materialized_inputs.jsonl" in message
