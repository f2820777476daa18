"""Texts, and graphs of texts, as counts of their words; `torchnpn.datasets` lists, fetches and verifies them."""

from npn_studies.datasets import citations, texts
from npn_studies.datasets.documents import Documents
from torchnpn import datasets

__all__ = ["Documents", "load_documents"]

datasets.register(*citations.SOURCES, *texts.SOURCES)


def load_documents(name: str) -> Documents:
    """The documents called `name`, found or downloaded as `torchnpn.datasets.load` does."""
    found = datasets.load(name)
    if not isinstance(found, Documents):
        raise TypeError(f"{name!r} is a table. Load it with torchnpn.datasets.load.")
    return found
