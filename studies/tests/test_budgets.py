"""No page says of a comparison that it is equal unless the records of the searches say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from committed import recorded
from npn_studies.experiments import budgets, mnist
from npn_studies.experiments.digit_settings import STEPS

ROOT = Path(__file__).parents[2]
PAGES = "docs/results.md", "docs/paper.md", "README.md", "docs/comparison.md", "docs/baselines.md"
EQUALITY = re.compile(
    r"as many (?:settings|trials|epochs)|same (?:budget|number of (?:settings|trials|epochs))"
    r"|equal (?:budget|search|trial)"
    r"|searched (?:as long|alike)|best settings of its own search|steps are the same|(?:twelve|twenty) settings",
    re.IGNORECASE,
)


def counted(name: str) -> dict[str, int]:
    """Cells of a search by what stands before the last slash."""
    cells = recorded(name)["cells"]
    return {kind: sum(key.startswith(kind + "/") for key in cells) for kind in {k.rpartition("/")[0] for k in cells}}


def of_sizes() -> bool:
    found = budgets.sizes(recorded("mnist_size_search"))
    return all(abs(found[size]["npn"] - found[size]["dropout"]) <= 1 for size in STEPS)


def steps() -> bool:
    cells = recorded("mnist_size_search")["cells"]
    lengths = {
        (key.split("/")[1], one["epochs"], one["batch_size"])
        for key, cell in cells.items()
        for one in cell["settings"]["candidates"]
    }
    return len(lengths) == len(STEPS)


def of_topics() -> bool:
    found: dict[str, int] = {}
    for key in recorded("topics_search")["cells"]:
        found[key.partition("/")[0]] = found.get(key.partition("/")[0], 0) + 1
    return len(set(found.values())) == 1


def of_links() -> bool:
    found = budgets.documents(recorded("links_search"))
    return {count for by_method in found.values() for count in by_method.values()} == {20}


def of_toy() -> bool:
    return set(counted("toy_search").values()) == {12}


SAID = {  # the words on a page, and whether the records agree
    "as many trials, within one (`mnist_size_search`)": of_sizes,
    "Steps are the same for all": steps,
    "Steps and batch are the same for all methods": steps,
    "Of as many settings each, `topics_search`": of_topics,
    "than the twenty settings of each method": of_links,
    "Twelve settings a method": of_toy,
}


@pytest.mark.parametrize("words", SAID)
def test_what_is_said_to_be_equal_is_equal_in_the_records(words):
    assert SAID[words]()


@pytest.mark.parametrize("page", PAGES)
def test_pages_claim_no_other_equality(page):
    text = re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8"))
    for found in EQUALITY.finditer(text):
        around = text[max(0, found.start() - 80) : found.end() + 80]
        assert any(words in around for words in SAID), f"{page}: “…{around}…” is checked against no record"


def test_the_check_would_find_a_false_claim():
    assert EQUALITY.search("Each method has the best settings of its own search.")
    assert not any(words in "Each method has the best settings of its own search." for words in SAID)


def test_budgets_of_digits_are_those_of_the_record():
    """The inequalities that the page prints, counted by hand in the record of the search."""
    rows = budgets.digits(recorded("mnist_search"))
    assert rows.keys() == mnist.ROWS.keys()
    assert (rows["bbb_unopposed"].rank, rows["bbb_unopposed"].run) == (6, 200)
    assert (rows["dropout_alone"].trials, rows["dropout_alone"].lengths, rows["dropout_alone"].run) == (16, (50,), 200)
    assert rows["dropout_1600"].rank is None and rows["dropout_1600"].trials == 0
    assert (rows["gamma"].trials, rows["gamma"].epochs) == (10, 440)
    assert rows["npn"].trials == 104 and rows["npn"].epochs == 11_200
    told = budgets.inequalities(rows)
    assert "differ in settings and epochs" in told and "Bayes by Backprop (6th)" in told
    assert "Not searched at all: dropout, weight decay, 1,600 units" in told
    assert "Run for another number of epochs than tried: dropout alone, 800 units" in told


def test_equal_budgets_are_called_equal():
    row = budgets.Budget("a", 3, 30, 1, (10,), 10)
    assert budgets.inequalities({"a": row, "b": row._replace(label="b")}) == "All rows had equal searches."
    assert "differ in epochs" in budgets.inequalities({"a": row, "b": row._replace(epochs=31)})
