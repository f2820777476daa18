"""Bags of words: autoencoders of distributions that are trained on sparse counts."""

from torchnpn.documents.autoencoder import GAMMA, GAUSSIAN, POISSON, Autoencoder
from torchnpn.documents.counts import checked_counts, row_max, row_sum
from torchnpn.documents.encoder import Encoder, JointArrayMoments, Reconstruction

__all__ = [
    "GAMMA",
    "GAUSSIAN",
    "POISSON",
    "Autoencoder",
    "Encoder",
    "JointArrayMoments",
    "Reconstruction",
    "checked_counts",
    "row_max",
    "row_sum",
]
