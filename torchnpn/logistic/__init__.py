"""Logistic regression with a Gaussian posterior of its weights; link prediction fits the same posterior."""

from torchnpn.logistic.posterior import Rows, fit_posterior
from torchnpn.logistic.regression import BayesianLogisticRegression

__all__ = ["BayesianLogisticRegression", "Rows", "fit_posterior"]
