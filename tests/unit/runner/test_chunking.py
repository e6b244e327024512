from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import ConfigurationError
from casework.runner.chunking import CHUNK_BYTES_MIN, Chunk, split_text

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from(
            ["\n", "\n\n", "\r\n", ". ", "\f", "e\u0301", "\U0001f468\u200d\U0001f469"]
        ),
        st.text("ab .\n", max_size=200),
    ),
    max_size=40,
).map("".join)
SIZES = st.integers(CHUNK_BYTES_MIN, 300).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(0, size // 2))
)


def texts(chunks: tuple[Chunk, ...]) -> list[str]:
    return [chunk.text for chunk in chunks]


@given(TEXTS, SIZES)
def test_the_fresh_parts_are_the_text(text: str, sizes: tuple[int, int]) -> None:
    """Nothing is lost, doubled or changed, and no chunk or overlap is over its size."""
    size, overlap = sizes
    chunks = split_text(text, chunk_bytes=size, overlap_bytes=overlap)
    assert text == "".join(chunk.fresh for chunk in chunks)
    assert [text[chunk.start : chunk.end] for chunk in chunks] == texts(chunks)
    assert [(n, len(chunks)) for n in range(1, len(chunks) + 1)] == [
        (chunk.number, chunk.total) for chunk in chunks
    ]
    assert size >= max(len(chunk.text.encode()) for chunk in chunks)
    assert overlap >= max(len(chunk.text[: chunk.overlap].encode()) for chunk in chunks)
    assert all(chunk.fresh for chunk in chunks) or text == ""
    assert all(a.end - b.start == b.overlap >= 0 for a, b in pairwise(chunks))


@given(TEXTS, SIZES)
def test_the_same_text_gives_the_same_chunks(text: str, sizes: tuple[int, int]) -> None:
    """Chunks are named in requests, so they may not differ from run to run."""
    size, overlap = sizes
    again = split_text("".join(text), chunk_bytes=size, overlap_bytes=overlap)
    assert split_text(text, chunk_bytes=size, overlap_bytes=overlap) == again


@pytest.mark.parametrize("text", ["", "short", "x" * 64, "\u00fc" * 32])
def test_a_text_that_fits_is_one_chunk(text: str) -> None:
    """There is always a chunk to ask about, and a short text is left as it is."""
    assert (Chunk(1, 1, 0, len(text), 0, text),) == split_text(
        text, chunk_bytes=64, overlap_bytes=16
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * 40 + "\n\n" + "b. b\nb " * 8, "a" * 40 + "\n\n"),
        ("a" * 40 + "\n" + "b. b " * 11, "a" * 40 + "\n"),
        ("a" * 40 + ". " + "b " * 25, "a" * 40 + ". "),
        ("\u3042" * 12 + "\u3002" + "\u3044" * 12, "\u3042" * 12 + "\u3002"),
        ("a" * 40 + " " + "b" * 40, "a" * 40 + " "),
        ("a" * 80, "a" * 64),
        ("a" * 40 + "\r\n\r\n" + "b\r\n" * 20, "a" * 40 + "\r\n\r\n"),
        ("a\n\n" + "b" * 70, "a\n\n" + "b" * 61),
    ],
)
def test_a_cut_is_made_at_the_best_border(text: str, expected: str) -> None:
    """Paragraph before line before sentence before word before character, if not too early."""
    assert expected == split_text(text, chunk_bytes=64, overlap_bytes=0)[0].text


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301\u0323",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd",
        "\u0915\u094d\u0937",
        "\r\n",
    ],
)
def test_no_letter_is_cut_from_its_marks(cluster: str) -> None:
    """Whatever stands before it, a cluster begins and ends in one chunk."""
    for shift in range(64):
        text = "x" * shift + cluster * 60
        chunks = split_text(text, chunk_bytes=64, overlap_bytes=20)
        for place in (*(c.start for c in chunks), *(c.end for c in chunks)):
            assert place <= shift or 0 == (place - shift) % len(cluster)


def test_marks_without_end_are_cut_all_the_same() -> None:
    """A text of nothing but marks still comes to an end."""
    text = "e" + "\u0301" * 500
    chunks = split_text(text, chunk_bytes=64, overlap_bytes=32)
    assert text == "".join(chunk.fresh for chunk in chunks)
    assert 64 >= max(len(chunk.text.encode()) for chunk in chunks)


def test_the_overlap_begins_at_a_border() -> None:
    """What is repeated begins with a line or a word where one begins near."""
    text = "".join(f"line {number:03d} of the report\n" for number in range(40))
    first, second, *_ = split_text(text, chunk_bytes=260, overlap_bytes=80)
    assert second.text.startswith("line ")
    assert first.text.endswith(second.text[: second.overlap])
    assert 0 < second.overlap <= 80


@pytest.mark.parametrize("sizes", [(63, 0), (64, 33), (64, -1), (0, 0)])
def test_sizes_without_room_are_refused(sizes: tuple[int, int]) -> None:
    """A mistake in the settings shows before the first case."""
    with pytest.raises(ConfigurationError) as caught:
        split_text("x", chunk_bytes=sizes[0], overlap_bytes=sizes[1])
    assert "chunk_size" == caught.value.code


@pytest.mark.parametrize("piece", ["word ", "\n", "\u0301", "a", "\U0001f1e9", ".", "\n\r \t"])
def test_the_time_grows_with_the_length_alone(piece: str) -> None:
    """Two million characters are cut in seconds, whatever they are."""
    text = piece * (2_000_000 // len(piece))
    begun = time.process_time()
    chunks = split_text(text, chunk_bytes=8000, overlap_bytes=4000)
    assert 8 > time.process_time() - begun
    assert len(text) == sum(len(chunk.fresh) for chunk in chunks)
