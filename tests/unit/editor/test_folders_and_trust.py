"""Which folder the user works in, and which settings are trusted there."""

import os
import stat
import sys
from pathlib import Path

import attrs
import pytest

from sidecar.editor.folders import WorkspaceFolders
from sidecar.editor.trust import FILE_NAME, TrustStore


@attrs.define
class Kept:
    folders: list[str] = attrs.field(factory=list[str])
    active_folder: str | None = None


def folders(*uris: str) -> tuple[Kept, WorkspaceFolders]:
    kept = Kept()
    found = WorkspaceFolders(kept)
    found.initialize({"workspaceFolders": [{"uri": uri, "name": "x"} for uri in uris]})
    return kept, found


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"workspaceFolders": [{"uri": "file:///a/b", "name": "b"}], "rootUri": "file:///c"}, ["/a/b"]),
        ({"workspaceFolders": None, "rootUri": "file:///c/"}, ["/c"]),
        ({"rootPath": "/d"}, ["/d"]),
        ({"rootPath": "relative"}, []),
        ({"rootUri": None, "rootPath": None}, []),
        ({"workspaceFolders": [7, {"uri": 3}, {"uri": "untitled:x"}, {"uri": "file:///a"}, {"uri": "file:///a"}]}, ["/a"]),
        ({"workspaceFolders": "file:///a"}, []),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_the_folders_of_an_editor_are_read_whatever_it_sends(params: dict[str, object], expected: list[str]) -> None:
    kept = Kept()
    WorkspaceFolders(kept).initialize(params)
    assert kept.folders == expected


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_the_active_folder_is_the_innermost_one_of_the_document_touched_last() -> None:
    kept, found = folders("file:///a", "file:///a/b", "file:///c")
    for uri, expected in (
        ("file:///a/x.py", "/a"),
        ("file:///a/b/x.py", "/a/b"),
        ("file:///a/bc/x.py", "/a"),
        ("file:///elsewhere/x.py", "/a"),
        ("untitled:1", "/a"),
        (None, "/a"),
        ("file:///c", "/c"),
    ):
        found.touch(uri)
        assert kept.active_folder == expected
    assert found.active_uri == "file:///c"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_a_folder_that_is_removed_is_not_active_any_more() -> None:
    kept, found = folders("file:///a", "file:///a/b")
    found.touch("file:///a/b/x.py")
    found.changed({"event": {"added": [{"uri": "file:///d"}], "removed": [{"uri": "file:///a/b"}]}})
    assert kept.folders == ["/a", "/d"]
    assert kept.active_folder == "/a"
    found.changed({"event": None})
    found.changed({})
    assert kept.folders == ["/a", "/d"]


def test_trust_is_kept_for_one_folder_and_exact_settings(tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "state")
    assert store.accepted("/a") == frozenset()
    assert store.accept("/a", ["1", "2"])
    assert store.accept("/b", ["3"])
    again = TrustStore(tmp_path / "state")
    assert again.accepted("/a") == {"1", "2"}
    assert again.accepted("/b") == {"3"}
    assert again.accepted("/c") == frozenset()
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "state" / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", '{"accepted": 3}', '{"accepted": [3, {"folder": "/a"}]}', "[" * 100_000])
def test_a_file_that_cannot_be_read_trusts_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content, encoding="utf-8")
    assert TrustStore(tmp_path).accepted("/a") == frozenset()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_trust_that_cannot_be_saved_counts_until_the_end(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    store = TrustStore(tmp_path / "state")
    assert not store.accept("/a", ["1"])
    assert store.accepted("/a") == {"1"}
