"""Public data sets by name: looked up on disk, else downloaded from their source, checked and kept."""

from torchnpn.datasets.catalogue import Verdict, available, fetch, load, verify
from torchnpn.datasets.dataset import Dataset, Info, Split
from torchnpn.datasets.documents import Documents
from torchnpn.datasets.download import DownloadError, Patience
from torchnpn.datasets.splits import LinkSplit, link_split, node_split

__all__ = [
    "Dataset",
    "Documents",
    "DownloadError",
    "Info",
    "LinkSplit",
    "Patience",
    "Split",
    "Verdict",
    "available",
    "fetch",
    "link_split",
    "load",
    "node_split",
    "verify",
]
