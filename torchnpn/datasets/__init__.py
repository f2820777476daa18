"""Public data sets by name: looked up on disk, else downloaded from their source, checked and kept."""

from torchnpn.datasets.catalogue import Verdict, available, fetch, load, register, verify
from torchnpn.datasets.dataset import Dataset, Info, Split
from torchnpn.datasets.download import DownloadError, Patience

__all__ = [
    "Dataset",
    "DownloadError",
    "Info",
    "Patience",
    "Split",
    "Verdict",
    "available",
    "fetch",
    "load",
    "register",
    "verify",
]

# For other packages of torchnpn:
from torchnpn.datasets import toy as toy
from torchnpn.datasets.dataset import Original as Original
from torchnpn.datasets.dataset import Source as Source
from torchnpn.datasets.store import Arrays as Arrays
