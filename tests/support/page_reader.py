"""Reading a page as a browser's parser would, to see what in it is markup and what is text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "link", "img", "input"}


class PageReader(HTMLParser):
    """Collects the elements of a page with their attributes, and its text.

    Args:
        page: The page's bytes.
    """

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.declarations: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page.decode("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop(), "elements close in the order in which they opened"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.declarations.append(data)

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def handle_pi(self, data: str) -> None:
        self.declarations.append(data)

    def unknown_decl(self, data: str) -> None:
        self.declarations.append(data)

    @property
    def names(self) -> set[str]:
        """Return the names of all attributes."""
        return {name for _, attributes in self.elements for name, _ in attributes}
