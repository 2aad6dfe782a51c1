"""A fake of the Hugging Face hub: as much of its HTTP API as the real client of our code speaks.

Repositories, preupload, large files, commits, pull requests, trees, resolving with ranges,
collections; and whatever can go wrong on the way.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from faulty_http import FaultyHandler, FaultyState, Refusal, serving

WRITER = "hf_writer-canary-9f2c"
READER = "hf_reader-canary-41aa"
LARGE_BYTES = 4000
"""From here on a file is a large one, stored apart."""

Files = dict[str, bytes]


@dataclass
class Repository:
    """A repository: what each revision holds."""

    private: bool
    revisions: dict[str, Files] = field(default_factory=lambda: {"main": {}})
    card: dict[str, Any] = field(default_factory=dict)
    pull_requests: list[str] = field(default_factory=list)
    """Their titles."""
    pull_request_bases: list[str] = field(default_factory=list)
    """The branches that they are against."""

    def commit(self, files: Files) -> str:
        """A name for this content, under which it stays."""
        digest = hashlib.sha1(usedforsecurity=False)
        for path in sorted(files):
            digest.update(path.encode() + b"\0" + files[path])
        oid = digest.hexdigest()
        self.revisions[oid] = dict(files)
        return oid


@dataclass
class FakeHub(FaultyState):
    """What the hub has, and what it was asked."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    collections: dict[str, list[str]] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    loses_bytes: bool = False
    """Commits hold less than was sent."""
    stores_apart: bool = False
    """Large files are on another host, to which downloads are sent on."""

    def put(self, repo_id: str, files: Files, *, card: dict[str, Any] | None = None) -> Repository:
        """A repository that is there already."""
        made = Repository(private=True, revisions={"main": dict(files)}, card=card or {})
        self.repositories[repo_id] = made
        return made


@contextlib.contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A hub of one's own, on loopback."""
    hub = FakeHub()
    with serving(_Handler, hub):
        yield hub


class _Handler(FaultyHandler):
    state: FakeHub

    # Who asks

    def _may_read(self) -> None:
        given = self.headers.get("authorization", "")
        if given.removeprefix("Bearer ") not in {WRITER, READER}:
            said = "Invalid credentials in Authorization header"
            raise Refusal(401, said if given else "Invalid username or password.")

    def _may_write(self) -> None:
        self._may_read()
        if self.headers["authorization"] != f"Bearer {WRITER}":
            raise Refusal(403, "you have read access only")

    def _repository(self, repo: str) -> Repository:
        self._may_read()
        found = self.state.repositories.get(repo)
        if found is None:
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return found

    def _files(self, repo: str, rev: str) -> Files:
        found = self._repository(repo).revisions.get(unquote(rev))
        if found is None:
            raise Refusal(404, f"Invalid rev id: {rev}", "RevisionNotFound")
        return found

    # What is asked

    def create(self) -> None:
        self._may_write()
        asked = json.loads(self._body)
        repo_id = f"{asked['organization']}/{asked['name']}"
        if repo_id in self.state.repositories:
            url = f"{self.state.endpoint}/datasets/{repo_id}"
            self.json_({"error": "You already created this dataset repo", "url": url}, 409)
            return
        made = Repository(private=asked.get("visibility") == "private")
        self.state.repositories[repo_id] = made
        self.json_({"url": f"{self.state.endpoint}/datasets/{repo_id}", "id": repo_id})

    def preupload(self, repo: str, rev: str) -> None:
        there = self._files(repo, rev)
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["size"] >= LARGE_BYTES else "regular",
                "shouldIgnore": False,
                "oid": _oid(there[file["path"]]) if file["path"] in there else None,
            }
            for file in json.loads(self._body)["files"]
        ]
        self.json_({"files": files})

    def batch(self, repo: str) -> None:
        self._repository(repo)
        objects = []
        for wanted in json.loads(self._body)["objects"]:
            entry = dict(wanted)
            if wanted["oid"] not in self.state.large:
                href = f"{self.state.endpoint}/large/{wanted['oid']}?signature=s3cr3t"
                entry["actions"] = {"upload": {"href": href, "header": {}}}
            objects.append(entry)
        self.json_({"transfer": "basic", "objects": objects})

    def put_large(self, oid: str) -> None:
        if hashlib.sha256(self._body).hexdigest() != oid:
            raise Refusal(400, "other bytes than were announced")
        self.state.large[oid] = self._body
        self._answer(200, b"")

    def get_large(self, oid: str) -> None:
        self.bytes_(self.state.large[oid], {})

    def commit(self, repo: str, rev: str) -> None:
        repository = self._repository(repo)
        files = dict(self._files(repo, rev))
        title = ""
        for line in self._body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "header":
                title = value["summary"]
            elif item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                files[value["path"]] = self.state.large[value["oid"]]
        if self.state.loses_bytes:
            files = {path: data[:-1] for path, data in files.items()}
        url = f"{self.state.endpoint}/datasets/{repo}"
        oid = repository.commit(files)
        told = {"commitOid": oid, "commitUrl": f"{url}/commit/{oid}"}
        if self._query.get("create_pr") == ["1"]:
            repository.pull_requests.append(title)
            number = len(repository.pull_requests)
            repository.revisions[f"refs/pr/{number}"] = files
            repository.pull_request_bases.append(unquote(rev))
            told["pullRequestUrl"] = f"{url}/discussions/{number}"
        else:
            self._may_write()
            repository.revisions[unquote(rev)] = files
        self.json_(told)

    def create_branch(self, repo: str, branch: str) -> None:
        self._may_write()
        repository, name = self._repository(repo), unquote(branch)
        if name in repository.revisions:
            raise Refusal(409, f"Reference already exists: {name}")
        repository.revisions[name] = dict(repository.revisions["main"])
        self.json_({})

    def paths_info(self, repo: str, rev: str) -> None:
        files = self._files(repo, rev)
        wanted = parse_qs(self._body.decode())["paths"]
        self.json_([_entry(path, files[path]) for path in wanted if path in files])

    def info(self, repo: str, rev: str | None = None) -> None:
        files = self._files(repo, rev or "main")
        repository = self._repository(repo)
        self.json_(
            {
                "id": repo,
                "sha": repository.commit(files),
                "private": repository.private,
                "cardData": repository.card,
                "siblings": [{"rfilename": path} for path in sorted(files)],
            }
        )

    def tree(self, repo: str, rev: str) -> None:
        files = self._files(repo, rev)
        self.json_([_entry(path, data) for path, data in sorted(files.items())])

    def resolve(self, repo: str, rev: str, path: str) -> None:
        files = self._files(repo, rev)
        if path not in files:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        data = files[path]
        headers = {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": self._repository(repo).commit(files)}
        if len(data) >= LARGE_BYTES:
            headers["X-Linked-Etag"] = f'"{hashlib.sha256(data).hexdigest()}"'
            headers["X-Linked-Size"] = str(len(data))
            if self.state.stores_apart:
                elsewhere = self.state.endpoint.replace("127.0.0.1", "localhost")
                digest = hashlib.sha256(data).hexdigest()
                self.state.large[digest] = data
                self._answer(302, b"", {**headers, "Location": f"{elsewhere}/large/{digest}"})
                return
        self.bytes_(data, headers)

    def collection(self, slug: str) -> None:
        self._may_read()
        items = self.state.collections.get(slug)
        if items is None:
            raise Refusal(404, "Collection not found")
        self.json_(_collection(slug, items))

    def add_item(self, slug: str) -> None:
        self._may_write()
        item = json.loads(self._body)["item"]["id"]
        if item in self.state.collections[slug]:
            raise Refusal(409, "already in the collection")
        self.state.collections[slug].append(item)
        self.json_(_collection(slug, self.state.collections[slug]))


def _oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _entry(path: str, data: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": _oid(data)}
    if len(data) >= LARGE_BYTES:
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 130}
    return entry


def _collection(slug: str, items: list[str]) -> dict[str, Any]:
    return {
        "slug": slug,
        "title": slug,
        "owner": {"name": slug.split("/", maxsplit=1)[0]},
        "items": [
            {"_id": str(number), "id": item, "type": "dataset", "position": number}
            for number, item in enumerate(items)
        ],
        "lastUpdated": "2026-01-01T00:00:00.000Z",
        "position": 0,
        "private": False,
        "theme": "blue",
        "upvotes": 0,
    }


_REPO = "(?P<repo>[^/]+/[^/]+)"
_REV = "(?P<rev>refs/pr/[0-9]+|[^/]+)"
_SLUG = "(?P<slug>[^/]+/[^/]+)"
_Handler.routes = [
    ("POST /api/repos/create", _Handler.create),
    (f"POST /api/datasets/{_REPO}/preupload/{_REV}", _Handler.preupload),
    (f"POST /datasets/{_REPO}\\.git/info/lfs/objects/batch", _Handler.batch),
    ("PUT /large/(?P<oid>[0-9a-f]+)", _Handler.put_large),
    ("GET /large/(?P<oid>[0-9a-f]+)", _Handler.get_large),
    (f"POST /api/datasets/{_REPO}/commit/{_REV}", _Handler.commit),
    (f"POST /api/datasets/{_REPO}/branch/(?P<branch>[^/]+)", _Handler.create_branch),
    (f"POST /api/datasets/{_REPO}/paths-info/{_REV}", _Handler.paths_info),
    (f"GET /api/datasets/{_REPO}", _Handler.info),
    (f"GET /api/datasets/{_REPO}/revision/{_REV}", _Handler.info),
    (f"GET /api/datasets/{_REPO}/tree/{_REV}", _Handler.tree),
    (f"(GET|HEAD) /datasets/{_REPO}/resolve/{_REV}/(?P<path>.+)", _Handler.resolve),
    (f"GET /api/collections/{_SLUG}", _Handler.collection),
    (f"POST /api/collections/{_SLUG}/items", _Handler.add_item),
]
