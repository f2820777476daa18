"""What is wrong with a table, in words for whoever made it."""

from __future__ import annotations


class TableError(ValueError):
    """A file that cannot be used as it is; the text is one line that says where, and what to do."""
