"""The paper's tables and figures, and more; `npn reproduce` runs them and `npn report` shows what they found."""

from npn_studies.experiments import (
    activations,
    active,
    calibrated,
    completion,
    durations,
    exposure,
    gaps,
    links,
    links_search,
    mnist,
    mnist_search,
    mnist_size,
    mnist_size_search,
    mnist_variance,
    odd,
    paper,
    reconstruction,
    tabular,
    tied,
    topics,
    topics_search,
    toy,
    toy_search,
    uci,
    uci_search,
)
from npn_studies.experiments.experiment import Cell, Experiment, Options, Progress, Record

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        paper.EXPERIMENT,
        toy.EXPERIMENT,
        toy_search.EXPERIMENT,
        uci.EXPERIMENT,
        uci_search.EXPERIMENT,
        activations.EXPERIMENT,
        mnist.EXPERIMENT,
        mnist_search.EXPERIMENT,
        mnist_size.EXPERIMENT,
        mnist_size_search.EXPERIMENT,
        mnist_variance.EXPERIMENT,
        links.EXPERIMENT,
        links_search.EXPERIMENT,
        reconstruction.EXPERIMENT,
        topics.EXPERIMENT,
        topics_search.EXPERIMENT,
        completion.EXPERIMENT,
        active.EXPERIMENT,
        tabular.EXPERIMENT,
        exposure.EXPERIMENT,
        durations.EXPERIMENT,
        calibrated.EXPERIMENT,
        gaps.EXPERIMENT,
        odd.EXPERIMENT,
        tied.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Options", "Progress", "Record"]
