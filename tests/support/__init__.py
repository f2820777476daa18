"""Cases, bounds, references and helpers that tests share; benchmarks use them, too."""
