"""Which blocks are server instances, and what is said about those that nearly are."""

import pytest
from config_world import FLEET, POLICY, World

from palestra.config import ServerRef, ServerType, config_from_tree
from palestra.errors import ConfigError


def message_of(world: World, text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        world.load_text(text, *overrides)
    return caught.value.message


def test_an_instance_has_its_settings_apart_from_the_fleets(world: World) -> None:
    config = world.load_text(
        "m: {resources_servers: {mcqa: {domain: math, description: d, value: v, verified: true,"
        " port: 12000, num_workers: 2, placement: process, own: 1, datasets: [{name: x}]}}}"
    )

    instance = config.instance("m")

    assert instance.type is ServerType.RESOURCES
    assert instance.implementation == "mcqa"
    assert instance.settings == {"own": 1}
    assert (instance.domain, instance.description, instance.value) == ("math", "d", "v")
    assert (instance.host, instance.port, instance.num_workers) == ("127.0.0.1", 12000, 2)
    assert (instance.verified, instance.placement) == (True, "process")
    assert instance.datasets == ({"name": "x"},)
    assert instance.folder == world.package / "resources_servers/mcqa"


def test_instances_are_found_by_type_in_order(world: World) -> None:
    config = world.load_text(FLEET, *POLICY)

    assert list(config.instances) == ["policy_model", "mcqa", "agent"]
    assert [i.name for i in config.instances_of(ServerType.AGENT)] == ["agent"]


def test_asking_for_an_unknown_instance_names_the_nearest(world: World) -> None:
    with pytest.raises(ConfigError, match="did you mean 'agent'"):
        world.load_text(FLEET, *POLICY).instance("agnt")


def test_default_host_is_the_host_of_instances_that_name_none(world: World) -> None:
    text = "default_host: 10.0.0.1\nm: {resources_servers: {mcqa: {}}}"

    assert world.load_text(text).instance("m").host == "10.0.0.1"


def test_other_top_level_blocks_are_not_instances(world: World) -> None:
    config = world.load_text("a: {b: {c: {}}}\nd: [1]\nhead_server: {port: 0}\nr: {resources: {}}")

    assert config.instances == {}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("{resource_servers: {mcqa: {}}}", "did you mean 'resources_servers'"),
        ("{resources_servers: {mcqa: {}, other: {}}}", "several implementations (mcqa, other)"),
        ("{resources_servers: {mcqa: {}}, responses_api_models: {}}", "several server types"),
        ("{resources_servers: {mcqa: {}}, port: 1}", "has port next to resources_servers"),
        ("[{resources_servers: {mcqa: {}}}]", "m is a list"),
        ("{resources_servers: {mcqa: }}", "write mcqa: {}"),
        ("{resources_servers: {mcqa: 3}}", "mcqa is int, not a mapping"),
        ("{resources_servers: {}}", "must hold one implementation"),
        ("{resources_servers: [mcqa]}", "must hold one implementation"),
    ],
)
def test_an_almost_server_is_an_error_that_says_what_is_wrong(
    world: World, block: str, problem: str
) -> None:
    assert problem in message_of(world, f"m: {block}")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("entrypoint: [app.py]", "entrypoint must be a file name"),
        ("entrypoint: ../../x.py", "entrypoint must be a path inside"),
        ("entrypoint: /x.py", "entrypoint must be a path inside"),
        ("entrypoint: nope.py", "has no nope.py"),
        ("host: 3", "host must be text"),
        ("num_workers: 0", "num_workers must be a whole number"),
        ("num_workers: two", "num_workers must be a whole number"),
        ("verified: maybe", "verified must be true or false"),
        ("datasets: {name: x}", "datasets must be a list"),
        ("placement: proces", "did you mean 'process'"),
        ("placement: remote", "port must be given"),
        ("domain: [math]", "domain must be text"),
    ],
)
def test_a_wrong_fleet_setting_is_an_error_that_names_it(
    world: World, setting: str, problem: str
) -> None:
    message = message_of(world, f"m: {{resources_servers: {{mcqa: {{{setting}}}}}}}")

    assert problem in message
    assert "m.resources_servers.mcqa" in message


def test_all_problems_of_all_instances_are_listed_at_once(world: World) -> None:
    message = message_of(
        world,
        "a: {resource_servers: {mcqa: {}}}\n"
        "b: {resources_servers: {mcqa: {num_workers: x, verified: 3}}}",
    )

    assert message.startswith("3 problems")


def test_almost_servers_are_warnings_when_that_is_asked_for(world: World) -> None:
    config = world.load_text("m: {resource_servers: {mcqa: {}}}\nerror_on_almost_servers: false")

    assert config.instances == {}
    assert "resources_servers" in config.warnings[0]


def test_an_unknown_implementation_names_the_places_and_the_nearest_folders(world: World) -> None:
    message = message_of(world, "m: {resources_servers: {mcq: {}}}")

    assert str(world.cwd / "resources_servers/mcq/app.py") in message
    assert str(world.package / "resources_servers/mcq/app.py") in message
    assert "nearest: mcqa" in message


def test_an_implementation_that_leaves_the_servers_folder_is_an_error(world: World) -> None:
    assert "not a folder name" in message_of(world, "m: {resources_servers: {../../x: {}}}")


def test_a_folder_in_the_working_directory_wins_over_the_packages(world: World) -> None:
    world.write("resources_servers/mcqa/app.py", "")

    instance = world.load_text("m: {resources_servers: {mcqa: {}}}").instance("m")

    assert instance.folder == world.cwd / "resources_servers/mcqa"


def test_a_remote_instance_needs_no_folder(world: World) -> None:
    text = "m: {resources_servers: {elsewhere: {placement: remote, host: node7, port: 9000}}}"

    instance = world.load_text(text).instance("m")

    assert (instance.folder, instance.address) == (None, "node7:9000")


def test_references_are_found_in_lists_and_maps(world: World) -> None:
    config = world.load_text(
        FLEET + "  # more\nbig:\n  resources_servers:\n    mcqa:\n"
        "      judges: [{type: responses_api_models, name: policy_model}]\n"
        "      tools: {x: {y: {type: resources_servers, name: mcqa}}}\n"
        "      again: {type: responses_api_models, name: policy_model}\n"
        "      not_one: {type: responses_api_models, name: gone, more: 1}\n",
        *POLICY,
    )

    assert config.instance("big").refs == (
        ServerRef("responses_api_models", "policy_model"),
        ServerRef("resources_servers", "mcqa"),
    )


def test_all_bad_references_are_reported_at_once(world: World) -> None:
    message = message_of(
        world,
        FLEET,
        *POLICY,
        "++agent.responses_api_agents.simple_agent.model_server.name=policy_mdel",
        "++agent.responses_api_agents.simple_agent.resources_server.name=agent",
        "++agent.responses_api_agents.simple_agent.extra=[{type:resource_servers,name:mcqa}]",
    )

    assert message.startswith("3 problems")
    assert (
        "agent: model_server refers to responses_api_models 'policy_mdel', which does not exist; "
        "did you mean 'policy_model'? responses_api_models: policy_model" in message
    )
    assert "but 'agent' is one of the responses_api_agents" in message
    assert "agent: extra.0 refers to type 'resource_servers'; did you mean" in message


@pytest.mark.parametrize(
    ("mine", "taker"),
    [
        ("{_inherit_from: mcqa}", "mine"),
        ("{resources_servers: {_inherit_from: mcqa.resources_servers}}", "mine.resources_servers"),
    ],
)
def test_a_reference_to_a_block_that_another_one_inherits_from_names_that_one(
    world: World, mine: str, taker: str
) -> None:
    message = message_of(world, f"{FLEET}mine: {mine}\n", *POLICY)

    assert f"resources_servers 'mcqa', which {taker}._inherit_from has taken away" in message


def test_a_reference_whose_name_is_a_list_is_to_no_instance(world: World) -> None:
    name = "++agent.responses_api_agents.simple_agent.model_server.name=[policy_model]"

    message = message_of(world, FLEET, *POLICY, name)

    assert "refers to responses_api_models ['policy_model'], which does not exist" in message


def test_a_reference_to_a_type_without_instances_says_so(world: World) -> None:
    text = "m: {resources_servers: {mcqa: {j: {type: responses_api_models, name: p}}}}"

    assert "the configuration has no responses_api_models" in message_of(world, text)


def test_a_resolved_tree_gives_the_same_instances_again(world: World) -> None:
    config = world.load_text(FLEET + "literal: \\${x}\n", *POLICY)

    again = config_from_tree(config.tree, cwd=world.cwd, package_root=world.package)

    assert (again.tree, again.instances) == (config.tree, config.instances)
    assert again.tree["literal"] == "${x}"


def test_reprs_show_names_and_no_settings(world: World) -> None:
    shown = repr(world.load_text(FLEET, *POLICY))

    assert "policy_model" in shown
    assert "sk-abc123" not in shown
