"""How words of the `gym` command line become overrides."""

import pytest

from palestra import settings
from palestra.cli.gym.grammar import Invocation, UsageError, as_item, as_text, parse
from palestra.config import parse_overrides
from palestra.programs import COMMANDS, command_at

MAPPED = [
    ("env start -m m --model-url u --model-api-key k", ["policy_model_name=m", "policy_base_url=u", "policy_api_key=k"]),
    ("env start --model m", ["policy_model_name=m"]),
    ("env test --resources-server mcqa", ["entrypoint=resources_servers/mcqa"]),
    ("env init --resources-server my_env", ["entrypoint=resources_servers/my_env"]),
    ("env packages --resources-server mcqa --outdated", ["entrypoint=resources_servers/mcqa", "outdated=true"]),
    ("eval run --split benchmark", ["split=benchmark"]),
    ("eval run --input i -o o", ["input_jsonl_fpath=i", "output_jsonl_fpath=o"]),
    ("eval run -i i --output o", ["input_jsonl_fpath=i", "output_jsonl_fpath=o"]),
    ("eval run -a my_agent", ["agent_name=my_agent"]),
    ("eval run --agent my_agent", ["agent_name=my_agent"]),
    ("eval run --resume", ["resume_from_cache=true"]),
    ("eval run --limit 5", ["limit=5"]),
    ("eval run --num-repeats 4", ["num_repeats=4"]),
    ("eval run --num-repeats {a:2,_default:1}", ["num_repeats={a:2,_default:1}"]),
    ("eval run --prompt-config p.yaml", ["prompt_config=p.yaml"]),
    ("eval run --concurrency 8", ["num_samples_in_parallel=8"]),
    ("eval run --temperature 0.5", ["responses_create_params.temperature=0.5"]),
    ("eval run --temperature -1", ["responses_create_params.temperature=-1"]),
    ("eval run --top-p 0.9", ["responses_create_params.top_p=0.9"]),
    ("eval run --max-output-tokens 64", ["responses_create_params.max_output_tokens=64"]),
    ("eval run --disable-aggregation", ["disable_aggregation=true"]),
    ("eval aggregate -i a*.jsonl -o o", ["input_glob=a*.jsonl", "output_jsonl_fpath=o"]),
    ("eval aggregate --input-glob a --output o", ["input_glob=a", "output_jsonl_fpath=o"]),
    ("eval profile --inputs i --rollouts r", ["materialized_inputs_jsonl_fpath=i", "rollouts_jsonl_fpath=r"]),
    ("eval reverify --inputs i --rollouts r -o o", ["materialized_inputs_jsonl_fpath=i", "rollouts_jsonl_fpath=r", "output_jsonl_fpath=o"]),
    ("eval reverify --concurrency 3 --limit 2", ["num_samples_in_parallel=3", "limit=2"]),
    ("eval reverify --force --overwrite --resume", ["force=true", "overwrite=true", "resume_from_cache=true"]),
    ("eval reverify --disable-aggregation --judge-failed-only --append", ["disable_aggregation=true", "judge_failed_only=true", "append=true"]),
    ("dataset upload --name n --split s -i i --create-pr", ["dataset_name=n", "split=s", "input_jsonl_fpath=i", "create_pr=true"]),
    ("dataset download --name n --split s --artifact a --repo-id o/r", ["dataset_name=n", "split=s", "artifact_fpath=a", "repo_id=o/r"]),
    ("dataset download -o f --output-dir d", ["output_fpath=f", "output_dirpath=d"]),
    ("dataset rm --name n", ["dataset_name=n"]),
    ("dataset migrate --name n -i i", ["dataset_name=n", "input_jsonl_fpath=i"]),
    ("dataset render -i i --prompt-config p -o o", ["input_jsonl_fpath=i", "prompt_config=p", "output_jsonl_fpath=o"]),
    ("dataset collate --mode train_preparation --output-dir d --download", ["mode=train_preparation", "output_dirpath=d", "should_download=true"]),
]  # fmt: skip
HANDED_OVER = [
    ("env validate my_env --kind benchmark --manifest m --sync", {"kind": "benchmark", "manifest": "m", "sync": True}),
    ("env test my_env --kind environment --update-expected", {"kind": "environment", "update_expected": True}),
    ("env init --environment e --profile p --reuse-verifier mcqa", {"environment": "e", "profile": "p", "reuse_verifier": "mcqa"}),
    ("env init --benchmark b --reward-range -1 1 --lower-is-better", {"benchmark": "b", "reward_range": (-1.0, 1.0), "lower_is_better": True}),
    ("env init --benchmark b --higher-is-better", {"benchmark": "b", "higher_is_better": True}),
    ("env publish my_env --kind environment", {"kind": "environment"}),
    ("eval run --no-serve", {"no_serve": True}),
    ("eval submit -c jobs.yaml --dry-run", {"config": "jobs.yaml", "dry_run": True}),
    ("dataset upload --storage gitlab --revision 0.0.1", {"storage": "gitlab", "revision": "0.0.1"}),
    ("list environments --kind k --domain d --modality m --licensing l --status s --lifecycle c",
     {"kind": "k", "domain": "d", "modality": "m", "licensing": "l", "status": "s", "lifecycle": "c"}),
]  # fmt: skip


def invocation_of(line: str) -> Invocation:
    words = line.split()
    command = command_at(words[0], words[1]) or command_at(words[0], "")
    assert command is not None
    return parse(command, words[2 if command.action else 1 :])


@pytest.mark.parametrize(("line", "settings"), MAPPED)
def test_a_flag_becomes_an_override(line: str, settings: list[str]) -> None:
    assert invocation_of(line).overrides == tuple(f"+{setting}" for setting in settings)


@pytest.mark.parametrize(("line", "flags"), HANDED_OVER)
def test_a_flag_of_the_command_itself_is_handed_over(line: str, flags: dict[str, object]) -> None:
    invocation = invocation_of(line)

    assert invocation.flags == flags
    assert invocation.overrides == ()


def test_overrides_stay_as_they_are_typed_behind_those_of_flags() -> None:
    invocation = invocation_of("eval run +a.b=[1,2] --limit 3 ++c=d ~e f=g")

    assert invocation.overrides == ("+limit=3", "+a.b=[1,2]", "++c=d", "~e", "f=g")


def test_a_name_is_the_first_word_that_is_no_override() -> None:
    invocation = invocation_of("env validate my_env +a=b")

    assert invocation.name == "my_env"
    assert invocation.overrides == ("+a=b",)


def test_a_command_without_a_name_leaves_words_to_the_overrides() -> None:
    invocation = invocation_of("env start word")

    assert invocation.name is None
    assert invocation.overrides == ("word",)


@pytest.mark.parametrize("words", ["-v env", "env -v", "env --verbose"])
def test_verbose_is_also_a_setting_of_the_servers(words: str) -> None:
    command = command_at("env", "start")
    assert command is not None
    invocation = parse(command, [word for word in words.split() if word != "env"])

    assert invocation.verbose
    assert invocation.overrides == ("+verbose=true",)


@pytest.mark.parametrize("line", ["env status --json", "list agents --json", "search x --json"])
def test_json_is_no_override(line: str) -> None:
    invocation = invocation_of(line)

    assert invocation.json
    assert invocation.overrides == ()


@pytest.mark.parametrize(
    "line",
    [
        "env start --resourcesserver x",
        "env start --json",
        "eval run --limit",
        "eval run --output --limit 3",
        "eval run --resume=true",
        "eval submit --dry-run",
        "env init --reward-range low high",
        "dataset upload --storage s3",
        "env validate x --kind server",
    ],
)
def test_a_wrong_flag_is_an_error_of_usage(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        invocation_of(line)

    assert caught.value.exit_code == 2


def test_the_nearest_flag_is_suggested() -> None:
    with pytest.raises(UsageError, match="--resources-server"):
        invocation_of("env start --resourcesserver x")


@pytest.mark.parametrize(
    ("line", "override"),
    [
        ("eval run --shard 1/2", "+shard=1/2"),
        ("eval run --shard=1/2", "+shard=1/2"),
        ("eval run --shard --limit 3", "+shard=VALUE"),
        ("dataset collate --data-source gitlab", "+data_source=gitlab"),
    ],
)
def test_a_setting_that_is_typed_as_a_flag_is_named_as_an_override(
    line: str, override: str
) -> None:
    with pytest.raises(UsageError) as caught:
        invocation_of(line)

    assert caught.value.hint == f"write {override}"


def test_a_setting_of_another_command_is_no_override() -> None:
    with pytest.raises(UsageError) as caught:
        invocation_of("env start --shard 1/2")

    assert "shard=" not in caught.value.hint


def test_every_model_of_a_command_is_one_of_settings() -> None:
    assert all(hasattr(settings, c.model) for c in COMMANDS if c.model)


@pytest.mark.parametrize(
    "text",
    ["8", "null", "true", "a b", "a'b", "a\\b", "a\\", "a\\'b", "x,y", "[a]", "k=v", "${a}", "http://h:1/v1", "a*"],
)  # fmt: skip
def test_a_text_stays_the_same_text(text: str) -> None:
    [override] = parse_overrides([f"+key={as_text(text)}"])
    [listed] = parse_overrides([f"+key=[{as_item(text)},b]"])

    assert override.value == text
    assert listed.value == [text, "b"]


def test_no_two_flags_of_a_command_have_one_name() -> None:
    for command in COMMANDS:
        names = [name for flag in command.flags for name in flag.names]
        assert len(names) == len(set(names)), command.words


def test_only_submit_requires_a_flag() -> None:
    required = [(c.words, flag.key) for c in COMMANDS for flag in c.flags if flag.required]

    assert required == [("eval submit", "config")]
