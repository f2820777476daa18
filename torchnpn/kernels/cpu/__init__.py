"""Kernels for a CPU: one autograd function for each map, and numpy for training small chains."""
