"""Explicit ports are checked against each other; the rest are found free."""

import socket

import pytest
from config_world import World

from palestra.config import ResolvedConfig, allocate_ports
from palestra.config.ports import can_bind
from palestra.errors import ConfigError


def two(first: str, second: str, more: str = "") -> str:
    return (
        f"a: {{resources_servers: {{mcqa: {{{first}}}}}}}\n"
        f"b: {{resources_servers: {{mcqa: {{{second}}}}}}}\n{more}"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("port: 12000", "port: 12000"),
        ("port: 12000, host: localhost", "port: 12000"),
        ("port: 12000, host: 0.0.0.0", "port: 12000"),
        ("port: 9, host: n1, placement: remote", "port: 9, host: n1, placement: remote"),
    ],
)
def test_two_instances_with_one_address_are_an_error(world: World, first: str, second: str) -> None:
    with pytest.raises(ConfigError, match="a and b both use"):
        world.load_text(two(first, second))


def test_one_port_on_two_hosts_is_fine(world: World) -> None:
    text = two("port: 9, host: n1, placement: remote", "port: 9, host: n2, placement: remote")

    assert world.load_text(text).instance("b").port == 9


@pytest.mark.parametrize(("head", "port"), [("", 11000), ("head_server: {port: 12345}", 12345)])
def test_the_head_servers_port_is_taken(world: World, head: str, port: int) -> None:
    with pytest.raises(ConfigError, match=f"the head server and a both use 127.0.0.1:{port}"):
        world.load_text(two(f"port: {port}", "", head))


def test_a_head_server_on_any_port_clashes_with_nobody(world: World) -> None:
    assert world.load_text(two("port: 11000", "", "head_server: {port: 0}")).instances


@pytest.mark.parametrize("port", ["0", "-1", "65536", "true", "1.5", "http", '"8000"'])
def test_what_is_not_a_port_is_an_error(world: World, port: str) -> None:
    with pytest.raises(ConfigError, match=r"a\.resources_servers\.mcqa\.port must be"):
        world.load_text(two(f"port: {port}", ""))


def test_an_explicit_port_that_is_disallowed_is_an_error(world: World) -> None:
    with pytest.raises(ConfigError, match="a uses port 12000, which is in disallowed_ports"):
        world.load_text(two("port: 12000", "", "disallowed_ports: [12000]"))


@pytest.mark.parametrize(
    "setting", ["disallowed_ports: 3", "head_server: x", "head_server: {port: high}"]
)
def test_wrong_port_settings_are_an_error(world: World, setting: str) -> None:
    with pytest.raises(ConfigError, match="must be"):
        world.load_text(setting)


def ranged(world: World, low: int, high: int, more: str = "", first: str = "") -> ResolvedConfig:
    return world.load_text(
        two(first, "", f"port_range_low: {low}\nport_range_high: {high}\n{more}")
    )


def test_allocation_avoids_what_is_busy_disallowed_explicit_or_the_heads(world: World) -> None:
    more = "disallowed_ports: [13001]\nhead_server: {port: 13002}"
    config = ranged(world, 13000, 13005, more, first="port: 13003")

    ports = allocate_ports(config, start=13000, is_free=lambda _, port: port != 13000)

    assert ports == {"a": 13003, "b": 13004}


def test_allocation_searches_the_whole_range_from_anywhere(world: World) -> None:
    config = ranged(world, 13000, 13001)

    ports = allocate_ports(config, start=13001, is_free=lambda *_: True)

    assert ports == {"a": 13001, "b": 13000}


def test_only_the_named_instances_get_ports(world: World) -> None:
    assert list(allocate_ports(ranged(world, 13000, 13001), ["b"], is_free=lambda *_: True)) == [
        "b"
    ]


def test_a_range_without_a_free_port_is_an_error(world: World) -> None:
    with pytest.raises(ConfigError, match=r"no free port for a on 127\.0\.0\.1 in 13000 to 13001"):
        allocate_ports(ranged(world, 13000, 13001), is_free=lambda *_: False)


@pytest.mark.parametrize(("low", "high"), [(13002, 13001), (0, 10), (1, 70000)])
def test_a_range_that_is_none_is_an_error(world: World, low: int, high: int) -> None:
    with pytest.raises(ConfigError, match="port_range_"):
        allocate_ports(ranged(world, low, high))


def test_a_port_somebody_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert not can_bind("127.0.0.1", port)
    assert can_bind("127.0.0.1", port)


def test_allocated_ports_can_be_bound(world: World) -> None:
    ports = allocate_ports(world.load_text(two("", "")))

    assert len(set(ports.values())) == 2
    assert all(10001 <= port <= 20000 for port in ports.values())
