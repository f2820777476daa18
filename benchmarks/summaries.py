"""Tables of figures inside pages; means with standard errors are those of the experiments."""

from __future__ import annotations

from npn_studies.experiments.tables import Summary, rounded, table

__all__ = ["END", "Summary", "rounded", "table", "with_table"]
END = "<!-- end of rendered part -->"


def with_table(page: str, script: str, table: str) -> str:
    """The page with what stands between the comment of `script` and the next end comment replaced by the table."""
    start = f"by benchmarks/{script}: do not edit -->\n"
    before, found, rest = page.partition(start)
    if not found or END not in rest:
        raise ValueError(f"The page expects a comment that ends in {start!r}, and after it {END!r}. Write both first.")
    return f"{before}{start}\n{table}\n\n{END}{rest.partition(END)[2]}"
