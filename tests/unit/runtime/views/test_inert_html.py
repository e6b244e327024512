from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runtime.views.inert_html import (
    POLICY,
    inert,
    numbered,
    page_begin,
    page_end,
    table,
)
from tests.support.page_reader import PageReader

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title></head><body onload=alert(1)>",
    "</pre></td></table><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "javascript:alert(1)",
    "&lt;script&gt; &#60;b&#62; &amp;amp; &notin",
    "<!-- --><![CDATA[ ]]><?php ?>",
    "]]>--!>",
    "user\u202egnp.exe",
    "a\0b\x1b[31m\x7f\x85",
    "\ud83d",
    "\U000e0041\ufeff\u2066",
]


def page(text: str) -> PageReader:
    content = (
        page_begin(text)
        + table(text, (text, text), [(text, text)])
        + numbered(text.replace("\n", ""), [1])
        + page_end()
    )
    return PageReader(content.encode())


@pytest.mark.parametrize("text", HOSTILE)
def test_no_element_or_attribute_comes_from_a_text(text: str) -> None:
    """A hostile page has the elements and attributes of a harmless one, one for one."""
    found, harmless = page(text), page("x")
    assert harmless.elements == found.elements
    assert harmless.declarations == found.declarations
    assert [] == found.open


@given(st.text(max_size=30))
def test_no_text_whatever_becomes_markup(text: str) -> None:
    """The same for any text."""
    found, harmless = page(text), page("x")
    assert (harmless.elements, harmless.declarations) == (found.elements, found.declarations)


@pytest.mark.parametrize("text", HOSTILE[:10])
def test_a_text_is_shown_as_it_is(text: str) -> None:
    """What a reader sees is what the document says, entities and all."""
    assert text in PageReader(f"<p>{inert(text)}</p>".encode()).text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("a\0b", "a\\x00b"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ud83d", "\\ud83d"),
        ("a\rb", "a\\rb"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\u00a0\u200d\u00e9", "\u00a0\u200d\u00e9"),
    ],
)
def test_letters_that_deceive_are_shown_as_escapes(text: str, shown: str) -> None:
    """Controls and changes of direction; what languages need stays."""
    assert shown == inert(text)


def test_a_page_may_load_and_run_nothing() -> None:
    """The policy stands first, and there is no script, link or reference of any kind."""
    found = page("x")
    policy = ("meta", (("http-equiv", "Content-Security-Policy"), ("content", POLICY)))
    assert policy == found.elements[3]
    assert "default-src 'none'; style-src 'unsafe-inline'" == POLICY
    assert set() == {tag for tag, _ in found.elements} & {"script", "link", "img", "iframe", "a"}
    assert set() == found.names & {"src", "href", "style", "srcset", "action"}
    raw = page_begin("x") + page_end()
    assert "url(" not in raw
    assert "@import" not in raw
    assert "//" not in raw


def test_a_page_says_its_language_title_and_headers() -> None:
    """A screen reader finds its way."""
    found = page("x")
    assert ("html", (("lang", "en"),)) in found.elements
    assert 2 == found.elements.count(("th", (("scope", "col"),)))
    assert {"title", "h1", "main", "caption"} <= {tag for tag, _ in found.elements}


def test_light_and_dark_follow_the_reader() -> None:
    """The page asks the browser which of both its owner wants."""
    assert "prefers-color-scheme: dark" in page_begin("x")
    assert "color-scheme: light dark" in page_begin("x")


def test_lines_are_numbered_and_some_are_marked() -> None:
    """A mark spans its line and no other."""
    content = numbered("a\n<b>\nc", [2])
    assert "1  a\n2  <mark>&lt;b&gt;</mark>\n3  c" in content
