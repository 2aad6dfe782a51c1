"""Reading the code of an author's function, in whatever it is wrapped."""

import functools
import inspect
from pathlib import Path
from typing import Any

import pytest

from palestra.fleet import load_module
from palestra.server.author_code import AuthorFiles, code_of, place_of

HERE = Path(__file__).name


def score(self: Any, answer: str) -> float:
    return float(answer == "right")


class Scorer:
    def __call__(self, answer: str) -> float:
        return float(answer == "right")


@functools.wraps(score)
def wrapped(self: Any, answer: str) -> float:
    return 1.0 - score(self, answer)


FORMS = [
    score,
    wrapped,
    staticmethod(score),
    classmethod(score),
    property(score),
    functools.partial(score, None),
    functools.partialmethod(score, "right"),
    functools.lru_cache(score),
    functools.cached_property(score),
]


@pytest.mark.parametrize("form", FORMS)
def test_the_function_that_runs_in_the_end_is_read(form: Any) -> None:
    code = AuthorFiles().code_of(form)

    assert code.place.endswith(f"{HERE}:{score.__code__.co_firstlineno}: ")
    assert code.tree is not None
    assert code.tree.lineno == score.__code__.co_firstlineno
    assert "right" in code.texts


def test_an_object_that_can_be_called_has_the_code_of_its_call() -> None:
    assert code_of(Scorer()) is Scorer.__call__.__code__


class HasEveryAttribute:
    def __getattr__(self, name: str) -> Any:
        return HasEveryAttribute()


@pytest.mark.parametrize("value", [len, 3, HasEveryAttribute()])
def test_what_has_no_code_has_no_place_and_no_tree(value: Any) -> None:
    assert place_of(value) == ""
    assert AuthorFiles().code_of(value).tree is None


def test_the_place_of_a_class_is_its_first_line() -> None:
    assert place_of(Scorer).endswith(f"{HERE}:{inspect.getsourcelines(Scorer)[1]}: ")


def loaded(folder: Path, text: str) -> Any:
    path = folder / "functions.py"
    path.write_text(text)
    return load_module(path)


def test_a_decorated_function_begins_at_its_decorator(tmp_path: Path) -> None:
    text = "import functools\n\n\n@functools.cache\ndef f():\n    return 1\n"
    code = AuthorFiles().code_of(loaded(tmp_path, text).f)

    assert code.place.endswith("functions.py:4: ")
    assert code.tree is not None


def test_a_lambda_has_a_tree_where_it_is_the_only_one_of_its_line(tmp_path: Path) -> None:
    module = loaded(tmp_path, "a = lambda: 1\nb, c = lambda: 2, lambda: 3\n")
    files = AuthorFiles()

    assert [files.code_of(f).tree is not None for f in (module.a, module.b)] == [True, False]


def test_a_file_is_read_once(tmp_path: Path) -> None:
    module = loaded(tmp_path, "def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    files = AuthorFiles()
    files.code_of(module.f)
    Path(module.__file__).unlink()

    assert files.code_of(module.g).tree is not None
    assert AuthorFiles().code_of(module.g).tree is None


def test_a_file_that_was_changed_to_no_code_has_no_tree(tmp_path: Path) -> None:
    module = loaded(tmp_path, "def f():\n    return 1\n")
    Path(module.__file__).write_text("def f(:\n")

    assert AuthorFiles().code_of(module.f).tree is None


def test_an_empty_file_has_a_tree(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()

    assert AuthorFiles().tree_of(str(tmp_path / "__init__.py"), {}) is not None
    assert AuthorFiles().tree_of(str(tmp_path / "missing.py"), {}) is None
