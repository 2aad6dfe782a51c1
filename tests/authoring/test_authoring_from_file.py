"""The folder that is made of an environment's file."""

from pathlib import Path

from palestra.authoring import folder_from_file
from palestra.config import NamedFile
from palestra.fleet import FileRows


def test_all_files_that_a_glob_of_data_names_are_moved_into_the_folder(tmp_path: Path) -> None:
    source = tmp_path / "shelf.py"
    source.write_text("from palestra import Environment\n")
    (tmp_path / "rows").mkdir()
    for name in "ab":
        (tmp_path / f"rows/{name}.jsonl").write_text(f'{{"word": "{name}"}}\n')
    contents = FileRows("shelf", rows=(), settings={}, data_path="rows/*.jsonl")

    folder = folder_from_file(NamedFile(str(source)), contents, "shelf", tmp_path)

    assert sorted(path.name for path in (folder / "rows").iterdir()) == ["a.jsonl", "b.jsonl"]
