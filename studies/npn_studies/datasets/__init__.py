"""Images, texts as counts of their words, and graphs of texts; `torchnpn.datasets` lists, fetches and verifies them."""

from npn_studies.datasets import citations, images, texts
from npn_studies.datasets.documents import Documents
from npn_studies.datasets.splits import LinkSplit, link_split, node_split
from torchnpn import datasets

__all__ = ["Documents", "LinkSplit", "link_split", "load_documents", "node_split"]

datasets.register(*images.SOURCES, *citations.SOURCES, *texts.SOURCES)


def load_documents(name: str) -> Documents:
    """The documents called `name`, found or downloaded as `torchnpn.datasets.load` does."""
    found = datasets.load(name)
    if not isinstance(found, Documents):
        raise TypeError(f"{name!r} is a table. Load it with torchnpn.datasets.load.")
    return found
