"""Bags of words: autoencoders of distributions that are trained on sparse counts."""

from torchnpn.documents.autoencoder import DocumentAutoencoder, Reconstruction
from torchnpn.documents.counts import checked_counts, row_max, row_sum
from torchnpn.documents.joint import JointArrayMoments

__all__ = ["DocumentAutoencoder", "JointArrayMoments", "Reconstruction", "checked_counts", "row_max", "row_sum"]

# For other packages of torchnpn:
from torchnpn.documents.counts import present as present
from torchnpn.documents.counts import word_means as word_means
from torchnpn.documents.schedule import warm_cosine as warm_cosine
