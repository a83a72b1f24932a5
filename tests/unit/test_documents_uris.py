"""One spelling for each URI, and file URIs to paths and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.workspace.uris import normalise_uri, path_to_uri, uri_to_path


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("file:///a/b.md", "file:///a/b.md"),
        ("FILE:///a/b.md", "file:///a/b.md"),
        ("file:/a/b.md", "file:///a/b.md"),
        ("file://localhost/a", "file:///a"),
        ("file:///c%3A/x", "file:///c:/x"),
        ("file:///C:/x", "file:///c:/x"),
        ("file:///a b", "file:///a%20b"),
        ("file:///a%20b", "file:///a%20b"),
        ("file:///%e4%BD%A0", "file:///%E4%BD%A0"),
        ("file:///\u4f60", "file:///%E4%BD%A0"),
        ("file:///a%23b%3Fc%25", "file:///a%23b%3Fc%25"),
        ("file:///a%FF", "file:///a%FF"),
        ("file://Server/share/x", "file://server/share/x"),
        ("untitled:Untitled-1", "untitled:Untitled-1"),
        ("Vscode-Notebook-Cell:/A#b", "vscode-notebook-cell:/A#b"),
        ("", ""),
        ("no uri", "no uri"),
        ("file:///a\ud800", "file:///a%ED%A0%80"),
    ],
)
def test_a_uri_has_one_spelling(uri: str, normal: str) -> None:
    assert normalise_uri(uri) == normal
    assert normalise_uri(normal) == normal


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_normalising_fail_and_doing_it_twice_changes_nothing(text: str) -> None:
    for uri in (text, "file://" + text, "file:///" + text, "untitled:" + text):
        once = normalise_uri(uri)
        assert normalise_uri(once) == once
        uri_to_path(uri, windows=False)
        uri_to_path(uri, windows=True)


@settings(deadline=None)
@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])).map(lambda tail: "/" + tail))
def test_a_path_comes_back_from_its_uri(path: str) -> None:
    if not path.startswith("//"):
        uri = path_to_uri(path, windows=False)
        assert uri.isascii()
        assert normalise_uri(uri) == uri


@pytest.mark.parametrize("path", ["/a/b.md", "/a b/#?%/\u4f60", "/a;$(touch pwn)&.", "/a\udcff", "/a\\b", "/x:y/|z"])
def test_an_odd_path_comes_back_from_its_uri(path: str) -> None:
    assert uri_to_path(path_to_uri(path, windows=False), windows=False) == path


@pytest.mark.parametrize("path", ["c:\\a b\\x.md", "\\\\server\\share\\x", "d:\\"])
def test_a_windows_path_comes_back_from_its_uri(path: str) -> None:
    assert uri_to_path(path_to_uri(path, windows=True), windows=True) == path


@pytest.mark.parametrize("uri", ["", "untitled:x", "https://as.example/a", "file:a", "file://", "file://host/a", "file:///a%00b"])
def test_what_leads_to_no_local_path_has_none(uri: str) -> None:
    assert uri_to_path(uri, windows=False) is None
