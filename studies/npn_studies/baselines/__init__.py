"""Other methods on the same task, to compare with: settings, `fit`, `predict`."""

from torchnpn.baselines.bayes_by_backprop import BayesByBackprop
from torchnpn.baselines.dark_knowledge import DarkKnowledge
from torchnpn.baselines.document_autoencoders import StackedAutoencoder, VariationalAutoencoder
from torchnpn.baselines.document_codes import DocumentCodes, LatentSemantics, TfIdf
from torchnpn.baselines.dropout import DropoutNetwork, MCDropout
from torchnpn.baselines.ensemble import DeepEnsemble
from torchnpn.baselines.interface import Baseline, Fitted, Settings
from torchnpn.baselines.plain import PlainNetwork
from torchnpn.baselines.predicted import PredictedClasses, PredictedReal, replica
from torchnpn.baselines.probabilistic_backprop import ProbabilisticBackprop
from torchnpn.baselines.replicas import Number
from torchnpn.baselines.tasks import Classes, HeteroscedasticRegression, Regression
from torchnpn.baselines.tuned import DropoutGrid
from torchnpn.baselines.weight_priors import GaussianPrior, ScaleMixturePrior

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
