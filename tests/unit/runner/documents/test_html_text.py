from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.documents.html_text import html_to_text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one</p><p>two</p>", "one\n\ntwo\n"),
        ("one<br>two<BR/>three", "one\ntwo\nthree\n"),
        ("<h1>Title</h1>\n  <p>some\n   words</p>", "Title\n\nsome words\n"),
        ("<ul><li>a</li><li>b <b>c</b></li></ul>", "- a\n- b c\n"),
        ("<table><tr><td>a</td> <td>b</td></tr><tr><td>c</td></tr></table>", "a\tb\nc\n"),
        ("<div>a<div>b</div>c</div>", "a\nb\nc\n"),
        ("<pre>  x\n    y  z</pre>", "x\n    y  z\n"),
        ("x<i>y</i>z", "xyz\n"),
        ("a <b> b</b> c", "a b c\n"),
        ("<title>T &amp; U</title><body>B", "T & U\n\nB\n"),
    ],
)
def test_blocks_become_lines(page: str, text: str) -> None:
    """What stands on lines of its own on the page does so in the text."""
    assert text == html_to_text(page)


@pytest.mark.parametrize(
    "page",
    [
        "<script>alert('<p>no</p>')</script>yes",
        "<STYLE>p > a { color: red }</STYLE>yes",
        "<script>if (a < b) document.write('</' + 'b>')</SCRIPT >yes",
        "<!-- no <p> -->yes",
        "<!---->yes<!-->",
        "<!DOCTYPE html><?xml no?>yes",
        "<noscript>no</noscript><template><p>no</p></template>yes",
        "<svg><text>no</text></svg>yes",
        '<a title="no > no">yes</a>',
        "<a title='no > \" no'>yes</a>",
        "<a title=it's>yes</a>",
        "<a title = no>yes</a\n>",
    ],
)
def test_what_nobody_reads_is_dropped(page: str) -> None:
    """Scripts, styles, comments, declarations and attributes are no text."""
    assert "yes\n" == html_to_text(page)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("&lt;b&gt; &eacute; &#233; &#xE9; &nbsp;&copy", "<b> \u00e9 \u00e9 \u00e9 \u00a0\u00a9\n"),
        ("&#xD800; &#0; &#150;", "\ufffd \ufffd \u2013\n"),
        ("&#" + "9" * 5000 + ";", "\ufffd\n"),
        ("&unknown; & &; &#;", "&unknown; & &; &#;\n"),
        ("&lt;script&gt;shown&lt;/script&gt;", "<script>shown</script>\n"),
    ],
)
def test_character_references_are_resolved_once(page: str, text: str) -> None:
    """References become characters, also odd ones, and what they spell is no markup."""
    assert text == html_to_text(page)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a < b and c > d", "a < b and c > d\n"),
        ("1 <2 and x", "1 <2 and x\n"),
        ("<p>cut <a href='x", "cut <a href='x\n"),
        ("before <!-- never closed", "before <!-- never closed\n"),
        ("<script>never closed", "never closed\n"),
        ("<svg><p>kept", "kept\n"),
        ('<a title="open>text</a> and "rest"', 'text and "rest"\n'),
        ("</p></div>text</span>", "text\n"),
        ("", ""),
        ("<p> \n </p><br>", ""),
    ],
)
def test_broken_markup_loses_no_text(page: str, text: str) -> None:
    """What is not closed as it has to be stays readable."""
    assert text == html_to_text(page)


HOSTILE = [
    "<!--",
    "<",
    "<a",
    "<a b='",
    '<a b="',
    "<a a=a ",
    "<a b='>'",
    "<a b='>' ",
    "</",
    "<![CDATA[",
    "<script>",
    "<svg>",
    "<title>",
    "&#9",
    "&amp",
    "<td> ",
    "= ",
]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("tail", ["", ">", "-->", "'>"])
def test_hostile_pages_take_time_in_proportion_to_their_length(unit: str, tail: str) -> None:
    """A few hundred kilobytes of unclosed markup must not hold up an import."""
    page = unit * 40_000 + tail
    started = time.process_time()
    html_to_text(page)
    assert 3.0 > time.process_time() - started


@given(st.text(alphabet="<>/!-&#;='\" \n\tabpreSCRIPTscript1", max_size=80))
def test_any_text_is_a_page(page: str) -> None:
    """Nothing raises, and the result is tidy."""
    text = html_to_text(page)
    assert "" == text or text.endswith("\n")
    assert "\n\n\n" not in text
    assert text == html_to_text(page)


@given(st.text(st.characters(exclude_characters="<&\r", exclude_categories=["Cs"])))
def test_plain_text_keeps_every_word(text: str) -> None:
    """Only white space changes where there is no markup."""
    spaces = " \t\n\r\f"
    words = [word for word in _split(text, spaces) if word]
    assert words == [word for word in _split(html_to_text(text), spaces) if word]


def _split(text: str, separators: str) -> list[str]:
    for separator in separators:
        text = text.replace(separator, " ")
    return text.split(" ")
