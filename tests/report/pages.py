"""Reading a page back: its tree, checked for being well-formed, and its images."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser

import numpy as np
from PIL import Image

VOID = {"meta", "link", "img", "source", "br", "hr", "input"}


class Page(HTMLParser):
    """Elements of a page in order, with attributes and text; raises if tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.headings: list[int] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def images(self) -> list[np.ndarray]:
        """Pixels of the PNG images, in order."""
        prefix = "data:image/png;base64,"
        found = []
        for attributes in self.all("img"):
            if attributes["src"].startswith(prefix):
                data = base64.b64decode(attributes["src"].removeprefix(prefix))
                with Image.open(io.BytesIO(data)) as image:
                    pixels = np.asarray(image)
                found.append(pixels if pixels.ndim == 3 else pixels[..., None])
        return found
