"""Real tables, methods that predict a distribution for each row of them, and how well they do."""

from npn_studies.tabular.collection import TABLES, Table
from npn_studies.tabular.contest import METHODS, Figures, judged, read_parts, splits_of
from npn_studies.tabular.ranks import Ranks, ranks
from npn_studies.tabular.rows import NotInstalled, Rows

__all__ = [
    "METHODS",
    "TABLES",
    "Figures",
    "NotInstalled",
    "Ranks",
    "Rows",
    "Table",
    "judged",
    "ranks",
    "read_parts",
    "splits_of",
]
