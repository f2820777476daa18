"""Other methods on the same task, to compare with: settings, `fit`, `predict`."""

from npn_studies.baselines.bayes_by_backprop import BayesByBackprop
from npn_studies.baselines.dark_knowledge import DarkKnowledge
from npn_studies.baselines.document_autoencoders import StackedAutoencoder, VariationalAutoencoder
from npn_studies.baselines.document_codes import DocumentCodes, LatentSemantics, TfIdf
from npn_studies.baselines.dropout import DropoutNetwork, MCDropout
from npn_studies.baselines.ensemble import DeepEnsemble
from npn_studies.baselines.interface import Baseline, Fitted, Settings
from npn_studies.baselines.plain import PlainNetwork
from npn_studies.baselines.predicted import PredictedClasses, PredictedReal, replica
from npn_studies.baselines.probabilistic_backprop import ProbabilisticBackprop
from npn_studies.baselines.replicas import Number
from npn_studies.baselines.tasks import Classes, HeteroscedasticRegression, Regression
from npn_studies.baselines.tuned import DropoutGrid
from npn_studies.baselines.weight_priors import GaussianPrior, ScaleMixturePrior

__all__ = [
    "Baseline",
    "BayesByBackprop",
    "Classes",
    "DarkKnowledge",
    "DeepEnsemble",
    "DocumentCodes",
    "DropoutGrid",
    "DropoutNetwork",
    "Fitted",
    "GaussianPrior",
    "HeteroscedasticRegression",
    "LatentSemantics",
    "MCDropout",
    "Number",
    "PlainNetwork",
    "PredictedClasses",
    "PredictedReal",
    "ProbabilisticBackprop",
    "Regression",
    "ScaleMixturePrior",
    "Settings",
    "StackedAutoencoder",
    "TfIdf",
    "VariationalAutoencoder",
    "replica",
]
