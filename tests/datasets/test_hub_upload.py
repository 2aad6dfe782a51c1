"""A validated file goes to the hub: through its real client, to a fake of the hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from sharing_world import COLLECTION, CONFIG, REPO, World, jsonl, rows

from faulty_http import Fault
from hub_fakes import READER, FakeHub, fake_hub
from palestra.datasets.hub import check_rows, target_of
from palestra.errors import ConfigError, CredentialsRejected, InfraError, InputDataError, RunFailed
from palestra.settings import HubUpload

# The hub's client sends large files in a way that its own HTTP library calls old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

SMALL = jsonl(rows(3))
LARGE = jsonl(rows(200))


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as hub:
        yield hub


@pytest.fixture
def world(tmp_path: Path, hub: FakeHub) -> World:
    return World(tmp_path, hub)


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["with the commit", "stored apart"])
def test_a_file_goes_into_a_private_repository_that_is_made_for_it(
    world: World, hub: FakeHub, data: bytes
) -> None:
    done = world.upload(world.write(data))

    assert done.repo_id == REPO
    assert hub.repositories[REPO].private
    assert hub.repositories[REPO].revisions["main"] == {"train.jsonl": data}
    assert not done.unchanged
    assert done.url.startswith(f"{hub.endpoint}/datasets/{REPO}/commit/")


def test_a_pull_request_is_opened_and_its_link_told(world: World, hub: FakeHub) -> None:
    done = world.upload(world.write(SMALL), create_pr=True, commit_message="New rows")

    assert done.pull_request == f"{hub.endpoint}/datasets/{REPO}/discussions/1"
    assert hub.repositories[REPO].pull_requests == ["New rows"]
    assert hub.repositories[REPO].revisions["main"] == {}


def test_a_pull_request_has_a_branch_made_for_it(world: World, hub: FakeHub) -> None:
    done = world.upload(world.write(SMALL), create_pr=True, revision="my-branch-name")

    repository = hub.repositories[REPO]
    assert done.pull_request == f"{hub.endpoint}/datasets/{REPO}/discussions/1"
    assert repository.pull_request_bases == ["my-branch-name"]
    assert repository.revisions["my-branch-name"] == {}


def test_a_branch_that_is_there_already_is_nobody_elses_to_take(world: World, hub: FakeHub) -> None:
    hub.put(REPO, {}).revisions["my-branch-name"] = {}

    with pytest.raises(ConfigError, match="has the revision 'my-branch-name' already"):
        world.upload(world.write(SMALL), create_pr=True, revision="my-branch-name")

    assert not hub.repositories[REPO].pull_requests
    assert not [line for line in hub.asked if line.startswith(("POST", "PUT"))]


@pytest.mark.slow
def test_the_repository_is_listed_in_the_collection_once(world: World, hub: FakeHub) -> None:
    hub.collections[COLLECTION] = []
    named = {"hf_collection_name": "NeMo Gym", "hf_collection_slug": "68c0ffee"}

    world.upload(world.write(SMALL), **named)
    world.upload(world.write(LARGE), **named)

    assert hub.collections[COLLECTION] == [REPO]


def test_without_its_collection_nothing_is_sent(world: World, hub: FakeHub) -> None:
    with pytest.raises(
        ConfigError, match="collection acme/nemo-gym-nope: does not exist on the Hugging Face hub"
    ):
        world.upload(world.write(SMALL), hf_collection_name="NeMo Gym", hf_collection_slug="nope")

    assert hub.repositories == {}


def test_bytes_that_are_there_already_are_not_sent_again(world: World, hub: FakeHub) -> None:
    path = world.write(LARGE)
    world.upload(path)
    sent = hub.count("PUT|/commit/")

    again = world.upload(path, create_pr=True)

    assert again.unchanged
    assert again.pull_request is None
    assert hub.count("PUT|/commit/") == sent


def test_an_upload_that_was_stopped_sends_its_large_file_once(world: World, hub: FakeHub) -> None:
    hub.faults = [Fault("POST .*/commit/", status=400)]
    path = world.write(LARGE)
    with pytest.raises(RunFailed, match="answered 400"):
        world.upload(path)

    world.upload(path)

    assert hub.count("PUT /large") == 1
    assert hub.repositories[REPO].revisions["main"] == {"train.jsonl": LARGE}


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["with the commit", "stored apart"])
def test_progress_tells_the_bytes(world: World, data: bytes) -> None:
    world.upload(world.write(data))

    assert world.moves.started == [("train.jsonl", len(data), 0)]
    assert world.moves.moved == len(data)
    assert world.moves.ended == 1


def test_a_train_split_names_every_row_that_lacks_what_it_must_have(tmp_path: Path) -> None:
    wrong = [{"question": "?"}] * 3
    path = tmp_path / "train.jsonl"
    path.write_bytes(jsonl([*rows(3), *wrong, *rows(1)]) + b"{oops\n[1]\n")

    with pytest.raises(InputDataError) as refused:
        check_rows(path)

    assert "without responses_create_params: rows 4-6" in refused.value.message
    assert "not a row: rows 8" in refused.value.message
    assert "not an object: rows 9" in refused.value.message


def test_a_train_split_without_what_it_had_better_have_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(jsonl([*rows(2), {"responses_create_params": {"input": "?"}}]))

    warnings = check_rows(path)

    assert [warning.rpartition(": ")[2] for warning in warnings] == [
        "1 of 3 rows have no reward_profiles",
        "1 of 3 rows have no expected_answer",
    ]


def test_other_splits_are_not_checked(world: World, hub: FakeHub) -> None:
    world.upload(world.write(b'{"question": "?"}\n', "test.jsonl"), split="test")

    assert hub.repositories[REPO].revisions["main"].keys() == {"test.jsonl"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hf_collection_name": "NeMo Gym"}, "give both or neither"),
        ({"hf_collection_slug": "68c0ffee"}, "give both or neither"),
        ({"split": "holdout"}, "split"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    settings: dict[str, object], said: str
) -> None:
    given = {"input_jsonl_fpath": "a", "hf_organization": "acme", "resource_config_path": CONFIG}

    with pytest.raises(ValidationError, match=said):
        HubUpload.model_validate({**given, **settings})


def test_the_repository_is_named_after_organization_prefix_domain_and_dataset() -> None:
    settings = HubUpload(
        input_jsonl_fpath="a",
        hf_organization="acme",
        resource_config_path=CONFIG,
        hf_dataset_prefix="Gym",
        dataset_name="letters",
    )

    assert target_of(settings).repo_id == "acme/Gym-knowledge-letters"


def test_a_config_without_a_resources_server_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "model.yaml"
    config.write_text("policy_model_name: tiny\n")
    settings = HubUpload(
        input_jsonl_fpath="a", hf_organization="acme", resource_config_path=str(config)
    )

    with pytest.raises(ConfigError, match="has no resources server"):
        target_of(settings)


def test_who_may_not_make_repositories_may_still_open_a_pull_request(
    world: World, hub: FakeHub
) -> None:
    hub.put(REPO, {})
    world.token = READER

    done = world.upload(world.write(SMALL), create_pr=True)

    assert done.pull_request is not None


def test_who_may_not_write_is_told_so(world: World, hub: FakeHub) -> None:
    world.token = READER

    with pytest.raises(
        CredentialsRejected, match="the token has no permission for this"
    ) as refused:
        world.upload(world.write(SMALL))

    assert refused.value.exit_code == 2
    assert hub.repositories == {}


def test_a_token_that_the_hub_does_not_know_is_told_with_where_to_put_one(world: World) -> None:
    world.token = "hf_unknown-canary"

    with pytest.raises(CredentialsRejected, match="rejects the token") as refused:
        world.upload(world.write(SMALL))

    assert "hf_token" in refused.value.hint


@pytest.mark.parametrize("status", [429, 500, 503])
def test_trouble_that_passes_is_waited_for(world: World, hub: FakeHub, status: int) -> None:
    hub.faults = [Fault("POST /api/repos/create", status=status, times=3)]

    world.upload(world.write(SMALL))

    assert hub.count("POST /api/repos/create") == 4
    assert len(world.pauses) == 3


def test_the_hub_is_left_alone_for_as_long_as_it_asks(world: World, hub: FakeHub) -> None:
    hub.faults = [Fault("POST /api/repos/create", status=429, headers={"Retry-After": "7"})]

    world.upload(world.write(SMALL))

    assert world.pauses == [7.0]


def test_trouble_that_lasts_is_reported_after_the_deadline(world: World, hub: FakeHub) -> None:
    hub.faults = [Fault("POST /api/repos/create", status=503, times=1000)]

    with pytest.raises(InfraError, match=r"answered 503; gave up after .* tries in"):
        world.upload(world.write(SMALL))

    assert sum(world.pauses) <= world.deadline_s


def test_a_repository_that_somebody_else_is_making_is_not_waited_for_forever(
    world: World, hub: FakeHub
) -> None:
    said = "Cannot create repo: another conflicting operation is in progress"
    hub.faults = [Fault("POST /api/repos/create", status=409, said=said, times=1000)]

    with pytest.raises(InfraError, match="another conflicting operation"):
        world.upload(world.write(SMALL))


def test_a_pull_request_that_may_have_been_made_is_not_made_twice(
    world: World, hub: FakeHub
) -> None:
    hub.put(REPO, {})
    hub.faults = [Fault("POST .*/commit/", after=True, times=1000)]

    with pytest.raises(RunFailed, match="it may exist") as failed:
        world.upload(world.write(SMALL), create_pr=True)

    assert f"{hub.endpoint}/datasets/{REPO}/discussions" in failed.value.hint
    assert len(hub.repositories[REPO].pull_requests) == 1


def test_a_commit_whose_answer_was_lost_is_found(world: World, hub: FakeHub) -> None:
    hub.put(REPO, {})
    hub.faults = [Fault("POST .*/commit/", after=True)]

    world.upload(world.write(SMALL))

    assert hub.repositories[REPO].revisions["main"] == {"train.jsonl": SMALL}


def test_the_clients_own_bars_do_not_run_through_ours(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    path = world.write(LARGE)

    for _ in range(2):  # the second finds the bytes there, which takes it another way
        world.upload(path, create_pr=True)

    assert capfd.readouterr() == ("", "")
