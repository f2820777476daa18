"""The commands that join `npn` when this package is installed; they import their work only when they run."""
