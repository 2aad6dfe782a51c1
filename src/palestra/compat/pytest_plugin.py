"""A pytest plugin that runs the tests of existing server folders unchanged.

- `nemo_gym.*` and the project's servers are importable before any test is imported.
- `async def` tests and fixtures run, marked `asyncio` or not, with pytest-asyncio installed or not.
- Options and settings of pytest-asyncio and pytest-cov are accepted when these are not installed.
- A test that patches a name which Palestra does not have fails with the nearest name.
"""

import asyncio
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, Final

import pytest

from palestra.compat.aliases import add_project, install
from palestra.compat.missing_names import explanation_of

_RUNNER: Final = pytest.StashKey[asyncio.Runner]()
_LOOP_SCOPE: Final = "__loop_scope__"
_COVERAGE: Final = ("--cov", "--cov-report", "--cov-config", "--cov-fail-under", "--cov-context")
_COVERAGE_FLAGS: Final = ("--cov-branch", "--no-cov", "--cov-append", "--no-cov-on-fail")


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the options of pytest-asyncio and pytest-cov when these are not installed."""
    del pluginmanager
    install()
    if not _installed("pytest_asyncio"):
        _stand_in()
        for name in (
            "asyncio_mode",
            "asyncio_default_fixture_loop_scope",
            "asyncio_default_test_loop_scope",
            "asyncio_debug",
        ):
            parser.addini(name, "read by pytest-asyncio", default=None)
        parser.addoption("--asyncio-mode", default=None)
    if not _installed("pytest_cov"):
        for name in _COVERAGE:
            parser.addoption(name, action="append", nargs="?", default=[])
        for name in _COVERAGE_FLAGS:
            parser.addoption(name, action="store_true", default=False)


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Make the project's servers importable before conftest files are, which import servers too."""
    folder = early_config.invocation_params.dir
    for added_folder in (
        folder,
        *(folder / arg.partition("::")[0] for arg in args if not arg.startswith("-")),
    ):
        if _is_there(added_folder):
            add_project(added_folder.resolve())
    _add_folder(folder)
    _refuse_two_packages()


def _is_there(path: Path) -> bool:
    """Whether `path` exists. The value of an option, such as a long `-k`, may not even be a path."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _refuse_two_packages() -> None:
    """Raise UsageError when `nemo_gym` is not Palestra's: its tests would use a mixture of both."""
    nemo_gym = importlib.import_module("nemo_gym")
    if nemo_gym.__name__ == "nemo_gym":
        raise pytest.UsageError(
            f"two packages have the name nemo_gym: the installed NeMo Gym at {nemo_gym.__file__}, and "
            "Palestra's, which this plugin is for. Uninstall nemo-gym in this environment, or leave "
            "`-p palestra.compat.nemo_gym` out to test with NeMo Gym itself"
        )


def _add_folder(folder: Path) -> None:
    # Tests may import `app` by itself, as servers do their neighbours.
    if (folder / "app.py").is_file() and str(folder) not in sys.path:
        sys.path.append(str(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the `asyncio` mark. If pytest-asyncio is installed, make it run every `async def`
    test.
    """
    config.addinivalue_line("markers", "asyncio: runs on an event loop")
    if config.pluginmanager.hasplugin("asyncio") and not config.getoption("asyncio_mode", None):
        config.option.asyncio_mode = "auto"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the error of a test that patches a missing name of `nemo_gym` why it is missing."""
    del item
    if call.excinfo is not None and call.excinfo.errisinstance(AttributeError):
        explanation = explanation_of(str(call.excinfo.value))
        if explanation:
            call.excinfo.value.add_note(explanation)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> object | None:
    """Run an `async def` fixture that no other plugin has wrapped."""
    function = fixturedef.func
    is_generator = inspect.isasyncgenfunction(function)
    if not is_generator and not inspect.iscoroutinefunction(function):
        return None
    runner = _runner(_owner_of_fixture(function, request))
    arguments = {name: request.getfixturevalue(name) for name in fixturedef.argnames}
    bound = _bound(function, request)
    if is_generator:
        generator = bound(**arguments)
        value = runner.run(_first(generator))
        request.addfinalizer(lambda: runner.run(_finish(generator)))
    else:
        value = runner.run(bound(**arguments))
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value if value is not None else _NOTHING


_NOTHING: Final = object()
# A hook that returns None has not answered; what tests get is the cached result.


def _bound(function: Callable[..., Any], request: Any) -> Callable[..., Any]:
    instance = request.instance
    takes_self = next(iter(inspect.signature(function).parameters), "") == "self"
    if instance is None or not takes_self:
        return function
    bound: Callable[..., Any] = types.MethodType(function, instance)
    return bound


async def _first(generator: AsyncGenerator[Any, None]) -> Any:
    return await anext(generator)


async def _finish(generator: AsyncGenerator[Any, None]) -> None:
    async for _ in generator:
        raise RuntimeError("an async fixture yields once")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that no other plugin has wrapped."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or _is_anyios(pyfuncitem):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in _arguments(pyfuncitem)}
    test: Awaitable[None] = pyfuncitem.obj(**arguments)
    _runner(_owner(pyfuncitem)).run(_awaiting(test))
    return True


def _arguments(item: pytest.Function) -> tuple[str, ...]:
    names: tuple[str, ...] = item._fixtureinfo.argnames  # noqa: SLF001 - as pytest's own call does
    return names


async def _awaiting(test: Awaitable[None]) -> None:
    await test


def _is_anyios(item: pytest.Function) -> bool:
    return item.get_closest_marker("anyio") is not None


def _owner(item: pytest.Function) -> Any:
    """Return the object whose event loop a test runs on: the test, or the session for a wider
    scope.

    All scopes wider than a test share one loop. With one loop per scope, a test could not use
    fixtures of two scopes.
    """
    mark = item.get_closest_marker("asyncio")
    mark_options = mark.kwargs if mark is not None else {}
    scope = mark_options.get("loop_scope") or mark_options.get("scope") or _default_scope(item)
    return item if scope == "function" else item.session


def _owner_of_fixture(function: Callable[..., Any], request: Any) -> Any:
    scope = getattr(function, _LOOP_SCOPE, None) or request.scope
    if scope != "function":
        return request.session
    # Of a test it has the loop: what it makes is used there.
    return _owner(request.node) if isinstance(request.node, pytest.Function) else request.node


def _default_scope(item: pytest.Function) -> str:
    return str(item.config.getini("asyncio_default_test_loop_scope") or "function")


def _runner(owner: Any) -> asyncio.Runner:
    """Return the event loop runner of a test or session. It closes after the fixtures that used it."""
    session = getattr(owner, "session", owner)
    owner = session if _RUNNER in session.stash else owner
    started_runner: asyncio.Runner | None = owner.stash.get(_RUNNER, None)
    if started_runner is not None:
        return started_runner
    runner = owner.stash[_RUNNER] = asyncio.Runner()

    def close() -> None:
        del owner.stash[_RUNNER]
        runner.close()

    owner.addfinalizer(close)
    return runner


def _stand_in() -> None:
    """Install a replacement for the module `pytest_asyncio`, for tests that import its `fixture`."""
    module = types.ModuleType("pytest_asyncio")
    module.fixture = _fixture  # type: ignore[attr-defined]
    sys.modules.setdefault("pytest_asyncio", module)


def _fixture(function: Any = None, *, loop_scope: str | None = None, **how: Any) -> Any:
    """Replace `pytest_asyncio.fixture`: `pytest.fixture` with `loop_scope`, the scope of the
    fixture's loop.
    """

    def marked(function: Callable[..., Any]) -> Any:
        setattr(function, _LOOP_SCOPE, loop_scope)
        return pytest.fixture(**how)(function)

    return marked if function is None else marked(function)
