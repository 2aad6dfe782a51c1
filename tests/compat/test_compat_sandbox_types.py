"""`nemo_gym.sandbox`: the types of a sandbox refuse what would invent or lose a result."""

import dataclasses
from importlib import import_module
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from palestra.compat import aliases
from palestra.compat.nemo_gym.sandbox import (
    ExecResult,
    SandboxCreateError,
    SandboxCreateVerificationError,
    SandboxEndpoint,
    SandboxExecResult,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)


def test_sandbox_exec_result_has_the_return_code_that_it_was_given() -> None:
    assert SandboxExecResult(stdout="o", stderr="e", return_code=7).return_code == 7
    result = SandboxExecResult(None, "e", 125, "timeout")
    assert dataclasses.astuple(result) == (None, "e", 125, "timeout")
    assert SandboxExecResult("", "", 0).error_type is None
    assert ExecResult is SandboxExecResult


@pytest.mark.parametrize("name", ["exit_code", "returncode", "timed_out"])
def test_sandbox_exec_result_refuses_names_that_it_does_not_have(name: str) -> None:
    with pytest.raises(TypeError):
        SandboxExecResult("", "", 0, **{name: 1})


@pytest.mark.parametrize(
    "value",
    [
        SandboxExecResult("", "", 0),
        SandboxSpec(),
        SandboxResources(),
        SandboxEndpoint("http://a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_a_sandbox_are_frozen(value: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.env = {}  # type: ignore[attr-defined]


def test_sandbox_handle_can_be_changed_by_its_provider() -> None:
    handle = SandboxHandle("id", "docker", raw=None)
    handle.raw = 3
    assert handle == SandboxHandle(sandbox_id="id", provider_name="docker", raw=3)


def test_sandbox_status_has_the_states_of_the_field() -> None:
    assert [status.name for status in SandboxStatus] == [
        "STARTING",
        "RUNNING",
        "STOPPED",
        "ERROR",
        "UNKNOWN",
    ]


def test_sandbox_resources_may_be_a_mapping_in_the_spec() -> None:
    assert SandboxSpec(resources={"cpu": 2}).resources == SandboxResources(cpu=2)  # type: ignore[arg-type]
    assert SandboxSpec().resources == SandboxResources()
    config = OmegaConf.create({"memory_mib": 3})
    assert SandboxSpec(resources=config).resources.memory_mib == 3  # type: ignore[arg-type]


def test_sandbox_resources_from_mapping_refuses_unknown_keys() -> None:
    with pytest.raises(ValueError, match=r"memory_gib.*memory_mib"):
        SandboxResources.from_mapping({"memory_gib": 1})
    with pytest.raises(ValueError, match="cpus"):
        SandboxSpec(resources={"cpus": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        SandboxResources(bogus=1)  # type: ignore[call-arg]


def test_sandbox_spec_has_the_fields_of_the_field() -> None:
    spec = SandboxSpec(
        image="python:3.12",
        ttl_s=60,
        ready_timeout_s=5,
        workdir="/w",
        env={"A": "b"},
        files={"/w/a": "text"},
        metadata={"team": "x"},
        entrypoint=["serve"],
        provider_options={"network": "none"},
        ports=[80, 443],  # type: ignore[arg-type]
    )
    assert spec.ports == (80, 443)
    with pytest.raises(TypeError):
        SandboxSpec(bogus=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("ports", [[0], [65_536], [80, 80], ["80"], [True]])
def test_sandbox_spec_refuses_ports_that_are_none(ports: list[object]) -> None:
    with pytest.raises(ValueError, match="port"):
        SandboxSpec(ports=ports)  # type: ignore[arg-type]


def test_sandbox_endpoint_is_stripped_and_its_headers_are_text() -> None:
    endpoint = SandboxEndpoint(" http://host:80/a\n", {"X-Port": 80})  # type: ignore[dict-item]
    assert (endpoint.endpoint, endpoint.headers) == ("http://host:80/a", {"X-Port": "80"})
    assert SandboxEndpoint("http://host").headers == {}


@pytest.mark.parametrize("url", ["", "host:80/a", "/a", "http://"])
def test_sandbox_endpoint_needs_a_scheme_and_a_host(url: str) -> None:
    with pytest.raises(ValueError, match="scheme and a host"):
        SandboxEndpoint(url)


def test_sandbox_endpoint_needs_a_mapping_of_headers() -> None:
    with pytest.raises(TypeError):
        SandboxEndpoint("http://host", [("a", "b")])  # type: ignore[arg-type]


def test_sandbox_create_error_is_one_class_under_all_its_paths() -> None:
    aliases.install()
    paths = ("nemo_gym.sandbox", "nemo_gym.sandbox.providers", "nemo_gym.sandbox.providers.base")
    assert {import_module(path).SandboxCreateError for path in paths} == {SandboxCreateError}
    assert issubclass(SandboxCreateError, RuntimeError)
    assert issubclass(SandboxCreateVerificationError, SandboxCreateError)


def test_files_of_a_spec_may_be_text_bytes_or_a_path() -> None:
    files: dict[str, str | bytes | Path] = {"a": "text", "b": b"bytes", "c": Path("here")}
    assert SandboxSpec(files=files).files == files
