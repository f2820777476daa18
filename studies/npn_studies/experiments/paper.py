"""The paper's protocol with the paper's settings: its printed errors corrected, and nothing else changed.

Where the other experiments are our best reading of the paper, with settings that were searched, this one does what its
words say, and shows what comes of it. Pieces that a CPU cannot do are left out on one; a run on a GPU adds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from npn_studies.experiments import paper_digits, paper_links, paper_regression
from npn_studies.experiments.experiment import Cell, Experiment, Options
from npn_studies.experiments.paper_page import figure, page, section


def cells(options: Options) -> Sequence[Cell]:
    """Regressions, digits, documents."""
    return [part for module in (paper_regression, paper_digits, paper_links) for part in module.cells(options)]


EXPERIMENT = Experiment(
    name="paper",
    title="The paper's own settings",
    place="Sections 3-4, supplement",
    data=("toy", "boston", "mnist", "citeulike-t", "arxiv"),
    quick_data=("toy", "boston", "mnist", "cora"),
    minutes=300,
    cells=cells,
    section=section,
    figure=figure,
    in_parts=True,
    page=page,
)
