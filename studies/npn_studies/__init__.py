"""The paper's experiments, other methods to compare with, and benchmarks; uses torchnpn, which never imports it."""
