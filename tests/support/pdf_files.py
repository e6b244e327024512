"""PDFs written by hand, so that each oddity in them is known."""

from __future__ import annotations

import zlib
from collections.abc import Sequence


def make_pdf(pages: Sequence[str], *, kids: str | None = None, extra: bytes = b"") -> bytes:
    """Write a PDF with a line of ASCII text on each page; an empty text leaves a page bare.

    Args:
        pages: The texts.
        kids: Stands in the page tree in place of the references to the pages.
        extra: Operators before the text of each page.
    """
    count = len(pages)
    references = kids or " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{references}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * number)
        )
        shown = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() if text else b""
        stream = zlib.compress(extra + shown)
        objects.append(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream)
        )
    content = b"%PDF-1.7\n"
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return content + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (size, table, size, len(content))
    )
