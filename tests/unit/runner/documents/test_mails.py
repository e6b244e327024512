from __future__ import annotations

import base64
import io
import time
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.documents import (
    Document,
    ImportItem,
    ImportOptions,
    ProblemCode,
    Reading,
    RecordFields,
    Refusal,
)
from casework.runner.documents.decoding import Undecodable
from casework.runner.documents.document_reader import read_stream
from casework.runner.documents.extraction import Extracted, extract
from casework.runner.documents.mail_text import NESTED_MAX

HEAD = b"From: a@b.example\nSubject: s\n"


def mail(content: bytes, name: str = "m.eml") -> Extracted:
    found = extract(name, content, Reading(media="mail"))
    assert isinstance(found, Extracted)
    return found


def codes(found: Extracted) -> list[ProblemCode]:
    return [code for code, _ in found.findings]


def imported(content: bytes, name: str = "m.mbox", **limits: int) -> list[ImportItem]:
    return list(read_stream(io.BytesIO(content), name, ImportOptions(**limits)))  # type: ignore[arg-type]


def composed() -> EmailMessage:
    message = EmailMessage()
    message["From"] = "J\u00fcrgen M\u00fcller <j@b.example>"
    message["To"] = "\u6c34\u9053 <m@c.example>, n@c.example"
    message["Cc"] = "o@c.example"
    message["Subject"] = "Gr\u00f6\u00dfe \u2013 " + "x" * 90
    message["Date"] = "Fri, 21 Nov 1997 09:55:06 -0600"
    message["Message-ID"] = "<1@b.example>"
    message["X-Secret"] = "not shown"
    message.set_content("Plain caf\u00e9\n")
    message.add_alternative("<p>Page", subtype="html")
    message.add_attachment(
        b"\x00" * 300, maintype="application", subtype="pdf", filename="Pl\u00e4ne 1.pdf"
    )
    return message


def test_a_mail_is_its_headers_its_plain_text_and_a_list_of_what_is_attached() -> None:
    """Everything a reader needs, and no more."""
    expected = (
        "From: J\u00fcrgen M\u00fcller <j@b.example>\n"
        "To: \u6c34\u9053 <m@c.example>, n@c.example\n"
        "Cc: o@c.example\n"
        f"Subject: Gr\u00f6\u00dfe \u2013 {'x' * 90}\n"
        "Date: Fri, 21 Nov 1997 09:55:06 -0600\n"
        "Message-ID: <1@b.example>\n"
        "\nPlain caf\u00e9\n"
        "\nAttachments:\n"
        '- "Pl\u00e4ne 1.pdf" (application/pdf, 300 bytes)\n'
    )
    for content in (composed().as_bytes(), composed().as_bytes().replace(b"\n", b"\r\n")):
        found = mail(content)
        assert expected == found.text
        assert () == found.findings


def test_a_mail_without_plain_text_is_its_page() -> None:
    """HTML is split as in a file of its own; an empty plain version does not hide it."""
    only = mail(HEAD + b"Content-Type: text/html; charset=utf-8\n\n<p>\xc3\xa9<script>x</script>")
    assert only.text.endswith("\n\n\u00e9\n")
    both = (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\n \n"
        b"--b\nContent-Type: text/html\n\n<b>full</b>\n--b--\n"
    )
    assert mail(HEAD + both).text.endswith("\n\nfull\n")


def test_a_mail_inside_of_a_mail_is_listed() -> None:
    """Its text is not mixed with that of the mail around it."""
    outer = EmailMessage()
    outer["Subject"] = "outer"
    outer.set_content("See below.")
    outer.add_attachment(composed())
    text = mail(outer.as_bytes()).text
    assert "See below." in text
    assert "Plain" not in text
    assert "- without a name (message/rfc822, " in text


@pytest.mark.parametrize(
    ("header", "body", "text", "encoding"),
    [
        ('charset="iso-8859-8-i"', b"\xf9", "\u05e9", "iso8859-8"),
        ('charset="utf-8"content-transfer-encoding: 8bit', b"\xc3\xa9", "\u00e9", "utf-8"),
        ('charset=""', b"\xc3\xa9", "\u00e9", "utf-8"),
        ("charset=", b"\xe9 \x96", "\u00e9 \u2013", "cp1252"),
        ("charset=klingon", b"\xe9", "\u00e9", "cp1252"),
        ("charset=utf-8", b"\xe9", "\u00e9", "cp1252"),
        ('charset="idna"', b"x" * 100, "x" * 100, "utf-8"),
        ("charset=us-ascii (Plain text)", b"x", "x", "utf-8"),
        ("charset=utf-16", b"\0\xd8", "\ufffd\ufffd", "utf-8"),
    ],
)
def test_an_odd_character_set_is_remarked_on_and_the_mail_imported(
    header: str, body: bytes, text: str, encoding: str
) -> None:
    """Unknown, malformed, empty or wrong: nothing is lost but certainty, and that is told."""
    found = mail(HEAD + f"Content-Type: text/plain; {header}\n\n".encode() + body)
    assert found.text.endswith(f"\n\n{text}\n")
    assert encoding == found.encoding
    assert ProblemCode.CHARSET_UNKNOWN in codes(found)


@pytest.mark.parametrize(
    ("header", "body", "text", "expected"),
    [
        (b"", b"\xe9 \x96", "\u00e9 \u2013", [ProblemCode.ENCODING_GUESSED]),
        (b"", b"\xc3\xa9", "\u00e9", []),
        (b"Content-Type: text/plain; charset=ISO-8859-1\n", b"\x96", "\u2013", []),
        (b"Content-Type: text/plain; charset=GB2312\n", b"\xcb\xae", "\u6c34", []),
        (b"Content-Type: text\n", b"x", "x", []),
        (b"Content-Type: text/plain; format=flowed; delsp=yes;\n", b"x", "x", []),
        (b"Content-Transfer-Encoding: base64\n", b"w6k", "\u00e9", []),
        (b"Content-Transfer-Encoding: quoted-printable\n", b"=C3=A9=\n!", "\u00e9!", []),
        (b"Content-Transfer-Encoding: nonsense\n", b"x", "x", []),
    ],
)
def test_usual_mails_need_no_remark(
    header: bytes, body: bytes, text: str, expected: list[ProblemCode]
) -> None:
    """What a label says is believed where it can be, as mail programs do."""
    found = mail(HEAD + header + b"\n" + body)
    assert found.text.endswith(f"\n\n{text}\n")
    assert expected == codes(found)


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        (b"=?utf-8?q?Gr=C3=B6=C3?=\n =?UTF-8?Q?=9Fe?= now", "Gr\u00f6\u00dfe now"),
        (b"=?iso-8859-1?Q?a_b?= c", "a b c"),
        (b"a =?utf-8?b?w6k?= =?utf-8?b?w6k=?=", "a \u00e9\u00e9"),
        (b"=?utf-8?b?\xc3?=", "=?utf-8?b?\u00c3?="),
        (b"=?utf-8?b?A?= x", "=?utf-8?b?A?= x"),
        (b"=?klingon?q?x=E9?=", "x\u00e9"),
        (b"Gr\xc3\xb6\xc3\x9fe", "Gr\u00f6\u00dfe"),
        (b"=?utf-8?q?x=0AFrom:_y?=", "x From: y"),
    ],
)
def test_header_words_are_decoded(raw: bytes, subject: str) -> None:
    """Also those that other programs wrote wrongly, and never as a second header line."""
    assert f"Subject: {subject}\n" == mail(b"Subject: " + raw + b"\n\n").text


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b"attachment; filename*=utf-8''Pl%C3%A4ne.pdf", "Pl\u00e4ne.pdf"),
        (b'attachment; filename*0="a b"; filename*1="c.pdf"', "a bc.pdf"),
        (b'attachment; filename="=?utf-8?q?=C3=A9?="', "\u00e9"),
        (b'attachment; filename="a\\"b"', 'a"b'),
        (b"attachment; filename*=klingon''%E9", "\u00e9"),
    ],
)
def test_names_of_attachments_are_decoded(disposition: bytes, name: str) -> None:
    """Names come in many spellings."""
    content = HEAD + b"Content-Type: application/pdf\nContent-Disposition: "
    assert f'- "{name}" (application/pdf, 1 bytes)' in mail(content + disposition + b"\n\nx").text


@pytest.mark.parametrize(
    "content",
    [
        HEAD + b"Content-Type: multipart/mixed\n\nhello",
        HEAD + b"Content-Type: multipart/mixed; boundary=b\n\nhello",
        HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello",
        HEAD + b"Content-Type: multipart/mixed; boundary=\n\n--b\n\nhello",
        HEAD + b"no colon\n\nhello",
        b"hello",
        b"\n\nhello",
    ],
)
def test_broken_mails_keep_their_text(content: bytes) -> None:
    """Whatever is missing, the words are there."""
    assert "hello" in mail(content).text


PIECES = st.sampled_from(
    [
        *(
            f"Content-Type: {v}\n".encode()
            for v in ("multipart/mixed; boundary=b", "text/html", "")
        ),
        *(b"--b\n", b"--b--\n", b"\n", b"\r\n", b"=\n", b"\xff\xfe\0", b"From: =?x?b?=?=\n"),
        *(b"Content-Type: message/rfc822\n", b"Content-Transfer-Encoding: base64\n", b"==A="),
        *(b"Content-Disposition: attachment; filename*0*=''%\n", b'Content-Type: ;;=;"\n', b" x\n"),
        *(b"Content-Transfer-Encoding: x-uuencode\n", b"begin 666 x\nM\n", b"Subject:\n", b"<p>"),
        *(
            b'Content-Type: multipart/alternative; boundary="b\n',
            b"Content-Type: text/plain; charset",
        ),
        *(b"Content-Type: text/plain; charset=\0\xff\n", b"\n\xff"),
        *(b"Content-Type: te\xeext/\xed\xa0\x80; name=\xff\n", b"From: \xed\xa0\x80\n"),
        *(b"=utf-7\n", b"+2AA-", b"Content-Type: message/external-body\n", b"Date: \xff\n"),
    ]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=25).map(b"".join))
def test_no_mail_is_broken_enough_to_stop_an_import(content: bytes) -> None:
    """It becomes a text that can be stored, or a refusal with a code."""
    found = extract("m.eml", content, Reading(media="mail"))
    assert isinstance(found, Undecodable) or "\0" not in found.text.encode().decode()


def test_what_a_part_says_of_itself_stays_on_its_line() -> None:
    """Neither a folded header nor an odd byte can write a line of its own into the list."""
    content = HEAD + b"Content-Type: im\xee\n age/x\x0b\n - y; name=a\n b\n\nx"
    assert mail(content).text.endswith('Attachments:\n- "a b" (im\u00ee age/x  - y, 1 bytes)\n')


def test_a_binary_file_is_no_mail() -> None:
    """What has no header and is no text is refused."""
    assert isinstance(extract("m.eml", b"\xd0\xcf\x11\xe0\0", Reading(media="mail")), Undecodable)


def test_parts_inside_of_parts_without_end_are_not_taken_apart() -> None:
    """The text stands as it was found, and the time stays small."""
    nested = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(5000)
    )
    begun = time.process_time()
    found = mail(HEAD + nested + b"\nhello\n" + b"line\n" * 100_000)
    assert 5 > time.process_time() - begun
    assert "hello" in found.text
    assert found.text.startswith("From: a@b.example\nSubject: s\n")
    assert [ProblemCode.MAIL_DAMAGED] == codes(found)
    assert NESTED_MAX == 100


MBOX = (
    b"From a@b Thu Jan  1 00:00:00 2026\nSubject: one\n\nbody\n>From here on\n>>From x\n"
    b"From now on\n\nFrom the start\n\n"
    b"From - Fri Jan  2 00:00:00 2026\nSubject: two\n\nlast"
)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_mailbox_is_one_case_a_mail(end: bytes) -> None:
    """Quoted lines are unquoted, and a line that only looks like a border is none."""
    content = MBOX.replace(b"\n", end)
    first, second = imported(content)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert ["m.mbox#1", "m.mbox#2"] == [first.case_id, second.case_id]
    assert ["m.mbox:1", "m.mbox:11"] == [first.source, second.source]
    assert content == first.originals["mail.mbox"] + second.originals["mail.mbox"]
    text = first.derived["text/mail.mbox.txt"].decode()
    assert "Subject: one\n\nbody\nFrom here on\n>From x\nFrom now on\n\nFrom the start\n\n" == text
    assert b"Subject: two\n\nlast\n" == second.derived["text/mail.mbox.txt"]


def test_a_mailbox_whose_borders_have_no_time_is_read_too() -> None:
    """Then each line that could be a border is one."""
    items = imported(b"From x\n\na\n\nFrom y\n\nb\n")
    assert ["m.mbox#1", "m.mbox#2"] == [i.case_id for i in items if isinstance(i, Document)]


def test_mails_are_numbered_whatever_the_fields_say() -> None:
    """The fields are those of records and rows."""
    options = ImportOptions(fields=RecordFields("id", "text"))
    items = list(read_stream(io.BytesIO(MBOX), "m.mbox", options))
    assert ["m.mbox#1", "m.mbox#2"] == [i.case_id for i in items if isinstance(i, Document)]


def test_what_is_no_mailbox_is_refused_with_its_line() -> None:
    """Nothing is guessed about its borders."""
    (item,) = imported(b"\n\nSubject: x\n\nFrom y\n")
    assert isinstance(item, Refusal)
    assert ("m.mbox:3", ProblemCode.RECORD_INVALID) == (item.problem.where, item.problem.code)


def test_a_mail_that_is_too_large_is_left_out_and_the_next_is_read() -> None:
    """The limit is that of a file."""
    big = b"From x 1:00\n\n" + b"y" * 200_000 + b"\n\n"
    first, second = imported(big + b"From x 2:00\n\nz\n", file_bytes_max=1000)
    assert isinstance(first, Refusal)
    assert ("m.mbox:1", ProblemCode.TOO_LARGE) == (first.problem.where, first.problem.code)
    assert isinstance(second, Document)


BODIES = st.lists(
    st.text(alphabet=">From \n\r\u00e9a\u2028:", max_size=40).map(str.encode), max_size=6
)


@given(BODIES, st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_the_count_in_is_the_count_out(bodies: list[bytes], end: bytes, final: bool) -> None:  # noqa: FBT001
    """As many cases come out as mails were put in, and together they are the mailbox."""
    mails = [
        b"From x Thu Jan  1 00:00:00 2026"
        + end
        + b"Subject: %d" % n
        + end
        + end
        + body.replace(b"\r", b"").replace(b"\n", end)
        + end
        + end
        for n, body in enumerate(bodies)
    ]
    content = b"".join(mails)
    if not final:
        content = content.removesuffix(end)
    items = imported(content)
    assert len(bodies) == len(items)
    found = [item for item in items if isinstance(item, Document)]
    assert content == b"".join(item.originals["mail.mbox"] for item in found)
    for number, item in enumerate(found):
        assert f"Subject: {number}\n" in item.derived["text/mail.mbox.txt"].decode()


def test_a_large_attachment_is_counted_and_not_shown() -> None:
    """Sizes are those of the decoded bytes."""
    content = HEAD + b"Content-Type: image/png; name=p.png\nContent-Transfer-Encoding: base64\n\n"
    assert (
        '- "p.png" (image/png, 100000 bytes)'
        in mail(content + base64.encodebytes(b"x" * 100_000)).text
    )
