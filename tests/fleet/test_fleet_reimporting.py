"""A process that goes on runs an author's code as it is in the files when it is asked for again."""

import sys
from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.fleet import forget_imported, load_module


@pytest.fixture(autouse=True)
def no_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers of other tests have the same names."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("weights", "folder_of_w", "folder_of_w.weights"):
        sys.modules.pop(name, None)


def write(folder: Path, **files: str) -> None:
    """Write Python files; of a name such as `folder__module`, in a folder."""
    for name, text in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def weight_of(path: Path) -> float:
    weight: float = load_module(path).weight()
    return weight


AT_THE_TOP = "from weights import W\ndef weight(): return W\n"
IN_A_FUNCTION = "def weight():\n    from weights import W\n    return W\n"
FROM_A_FOLDER = "from folder_of_w import weights\ndef weight(): return weights.W\n"


@pytest.mark.parametrize(
    ("text", "module"),
    [
        (AT_THE_TOP, "weights"),
        (IN_A_FUNCTION, "weights"),
        (FROM_A_FOLDER, "folder_of_w__weights"),
    ],
)
def test_an_edited_module_that_a_file_imports_is_read_again(
    tmp_path: Path, text: str, module: str
) -> None:
    write(tmp_path, env=text, **{module: "W = 1.0\n"})
    before = weight_of(tmp_path / "env.py")
    # of the same length, in the same second
    write(tmp_path, **{module: "W = 0.5\n"})

    assert (before, weight_of(tmp_path / "env.py")) == (1.0, 0.5)


def test_a_module_whose_file_is_gone_is_not_imported(tmp_path: Path) -> None:
    write(tmp_path, env=AT_THE_TOP, weights="W = 1.0\n")
    load_module(tmp_path / "env.py")
    (tmp_path / "weights.py").unlink()

    with pytest.raises(ConfigError):
        load_module(tmp_path / "env.py")


def test_a_module_that_became_a_package_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, env=AT_THE_TOP, weights="W = 1.0\n")
    before = weight_of(tmp_path / "env.py")
    (tmp_path / "weights.py").unlink()
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "__init__.py").write_text("W = 0.5\n")

    assert (before, weight_of(tmp_path / "env.py")) == (1.0, 0.5)


def test_what_was_not_edited_is_not_imported_again(tmp_path: Path) -> None:
    write(tmp_path, env=AT_THE_TOP, weights="W = 1.0\n")

    assert load_module(tmp_path / "env.py") is load_module(tmp_path / "env.py")


def test_each_file_that_imports_an_edited_module_reads_it_again(tmp_path: Path) -> None:
    files = [tmp_path / "one.py", tmp_path / "other.py"]
    write(tmp_path, one=AT_THE_TOP, other=AT_THE_TOP, weights="W = 1.0\n")
    before = list(map(weight_of, files))
    write(tmp_path, weights="W = 0.5\n")

    assert (before, list(map(weight_of, files))) == ([1.0, 1.0], [0.5, 0.5])


def test_an_edited_module_behind_a_symbolic_link_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "real", env=AT_THE_TOP, weights="W = 1.0\n")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    before = weight_of(tmp_path / "link" / "env.py")
    write(tmp_path / "real", weights="W = 0.5\n")

    assert (before, weight_of(tmp_path / "link" / "env.py")) == (1.0, 0.5)


def test_the_program_itself_stays_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, env="import driver\ndef weight(): return 1\n", driver="x = 1\n")
    program = sys.modules["__main__"]
    monkeypatch.setattr(program, "__file__", str(tmp_path / "driver.py"), raising=False)
    load_module(tmp_path / "env.py")
    write(tmp_path, driver="x = 22\n")
    load_module(tmp_path / "env.py")

    assert sys.modules["__main__"] is program


@pytest.mark.parametrize("reader", ["env", "weights"])
def test_a_forgotten_file_and_its_modules_read_their_data_again(
    tmp_path: Path, reader: str
) -> None:
    data = tmp_path / "weight.txt"
    data.write_text("1")
    read = f"from pathlib import Path\nW = float(Path({str(data)!r}).read_text())\n"
    texts = {"env": read + "def weight(): return W\n"} if reader == "env" else {"env": AT_THE_TOP}
    write(tmp_path, weights=read, **texts)
    before = weight_of(tmp_path / "env.py")
    data.write_text("2")
    forget_imported(str(tmp_path / "env.py"))

    assert (before, weight_of(tmp_path / "env.py")) == (1.0, 2.0)


@pytest.mark.parametrize("text", [AT_THE_TOP, IN_A_FUNCTION, FROM_A_FOLDER])
def test_files_of_two_folders_import_the_modules_beside_them(tmp_path: Path, text: str) -> None:
    folders = {weight: tmp_path / str(weight) / "a" / "b" for weight in (1.0, 2.0)}
    for weight, folder in folders.items():
        write(folder, env=text, weights=f"W = {weight}\n", folder_of_w__weights=f"W = {weight}\n")

    turns = [1.0, 2.0, 1.0, 2.0, 2.0]
    assert [weight_of(folders[turn] / "env.py") for turn in turns] == turns


def test_servers_of_two_projects_have_the_names_of_their_places(tmp_path: Path) -> None:
    """Those under which their workers import them, where there is no other project."""
    for weight in (1.0, 2.0):
        write(
            tmp_path / str(weight), resources_servers__sums__app=f"def weight(): return {weight}\n"
        )
    apps = [tmp_path / name / "resources_servers/sums/app.py" for name in ("1.0", "2.0", "1.0")]

    assert list(map(weight_of, apps)) == [1.0, 2.0, 1.0]
    assert {load_module(app).__name__ for app in apps} == {"resources_servers.sums.app"}


def test_a_module_beside_a_file_comes_before_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "its" / "own" / "folder"
    write(folder, env=AT_THE_TOP, weights="W = 1.0\n")
    write(tmp_path / "elsewhere", weights="W = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")

    assert weight_of(folder / "env.py") == 1.0
    assert sys.path[0] == str(tmp_path / "elsewhere")


def test_a_folder_that_a_file_adds_stays_where_it_put_it(tmp_path: Path) -> None:
    write(tmp_path, env="import sys\nsys.path.insert(0, '/ahead')\nsys.path.append('/behind')\n")
    before = list(sys.path)
    load_module(tmp_path / "env.py")

    assert sys.path[0] == "/ahead"
    assert sys.path[1 : len(before) + 2] == [*before, "/behind"]
    assert str(tmp_path) in sys.path[len(before) + 2 :]
