"""The elements of an HTML page."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """The elements of a page, with their attributes and the text directly inside them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.start_tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        self.start_tags.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        """Add text to the element that began last."""
        if self.texts:
            self.texts[-1] += data

    def text(self, tag: str, **attributes: str) -> str:
        """Return the text of the first element with this tag and these attributes."""
        return next(
            text
            for text, (name, own_attributes) in zip(self.texts, self.start_tags, strict=True)
            if name == tag and attributes.items() <= own_attributes.items()
        )
