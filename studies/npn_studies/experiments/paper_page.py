"""The section and the page of `paper`: printed, to the letter, ours; and what became of every claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npn_studies.experiments import links_page, mnist, mnist_size
from npn_studies.experiments.claims import CLAIMS, claims_table
from npn_studies.experiments.document_claims import spread
from npn_studies.experiments.experiment import Record
from npn_studies.experiments.paper_digits import BINS, FEWEST, SIZES, WIDTH
from npn_studies.experiments.paper_networks import EPOCHS
from npn_studies.experiments.tables import Summary, table
from npn_studies.experiments.verdict import OPEN, mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Records = Mapping[str, Record]
NOT_RUN, BREAK = "not run yet", "<br>"
WAYS = {
    "full": "full KL",
    "none": "no KL",
    "dropout": "no KL, dropout",
    "hundredth": "a hundredth of the KL",
    "short": "full KL",
    "proxy_softplus": "learning mean and variance by log(1 + eˣ)",
    "natural_softplus": "learning η",
}


class Row(NamedTuple):
    """A figure of the paper, what its words give, what we reach, and why these differ."""

    what: str
    printed: str
    letter: str
    ours: str
    why: str = ""


def ways(record: Record, place: str, names: Sequence[str], key: str, unit: str = "") -> str:
    """The figure of several networks to the letter, each with what it was trained by."""
    cells = {name: record["cells"].get(f"{place}/{name}") for name in names}
    told = [f"{Summary.of(one['figures'][key])}{unit} ({way(name, one)})" for name, one in cells.items() if one]
    return BREAK.join(told) or NOT_RUN


def way(name: str, cell: Mapping[str, Any]) -> str:
    """What a network was trained by, and for how long where that is not the paper's 2,000 epochs."""
    epochs = cell["settings"]["epochs"]
    return WAYS[name] if epochs == EPOCHS else f"{WAYS[name]}, {epochs:,} epochs"


# Rows ----------------------------------------------------------------------------------------------------------------


def _toy(record: Record, found: Records) -> Iterator[Row]:
    rows = {"to the letter": ("full", "hundredth", "none")}
    letter = []
    for name in rows["to the letter"]:
        if one := record["cells"].get(f"toy/{name}"):
            figures = one["figures"]
            held, least, far = (mean(figures[key]) for key in ("held_inside", "least_std", "std_far"))
            letter.append(f"{100 * held:.0f} %, {least:.2g} to {far:.2g} ({WAYS[name]})")
    ours = "–"
    if "toy" in found:
        one = found["toy"]["cells"]["npn"]["figures"]
        held, least, far = (mean(one[key]) for key in ("held_inside", "least_std", "std_far"))
        ours = f"{100 * held:.0f} %, {least:.2g} to {far:.2g}"
    yield Row(
        "Figure 1: share of the curve within ±3 std in ±4; std from its least to ±6",
        "most of it; no numbers",
        BREAK.join(letter) or NOT_RUN,
        ours,
        "Ours learns the noise, has the prior N(0, 10³) and a ramp of the KL; at its full weight, 20 points say "
        "less than 301 priors, and nothing is learnt.",
    )


def _boston(record: Record, found: Records) -> Iterator[Row]:
    kinds = ("full", "none", "short")
    authors = record["cells"].get("boston/authors/ours")
    ours = f"{Summary.of(authors['figures']['rmse'])} (three seeds)" if authors else NOT_RUN
    why = (
        "After 2,000 epochs the full KL has erased the network, and without it the network has overfitted. The test "
        "rows are the end of the file, where prices are others than before."
    )
    yield Row("Boston RMSE, NPN, the authors' split", "2.57", ways(record, "boston/authors", kinds, "rmse"), ours, why)
    uci = Summary.of(found["uci"]["cells"]["npn/boston"]["figures"]["single"]["rmse"]) if "uci" in found else "–"
    letter = ways(record, "boston/published", (*kinds, "proxy_softplus", "natural_softplus"), "rmse")
    yield Row("Boston RMSE, NPN, the 20 published splits", "–", letter, str(uci), "The paper's figure is of one split.")
    for where in ("authors", "published"):
        dark = record["cells"].get(f"boston/{where}/bdk")
        told = str(Summary.of(dark["figures"]["rmse"])) if dark else NOT_RUN
        yield Row(
            f"Boston RMSE, BDK, {where} splits".replace("authors splits", "the authors' split"),
            "2.82" if where == "authors" else "–",
            "–",
            told,
            "Step size, prior and noise were searched on training rows; the paper does not print its own."
            if dark
            else "",
        )
    pbp = Summary.of(found["uci"]["cells"]["pbp/boston"]["figures"]["rmse"]) if "uci" in found else "–"
    yield Row("Boston RMSE, PBP, published splits", "3.01", "–", str(pbp))


def _mnist(record: Record, found: Records) -> Iterator[Row]:
    kinds = ("full", "none", "dropout")
    why = {
        "npn_unopposed": "Ours: softmax, dropout, a prior 3·10⁷ times as tight with a thousandth of its KL.",
        "gamma": "All that is positive can only grow with the ink; with the KL it does not learn. Ours is another "
        "network: neurons exp(-o) of inputs x and 1 - x, no prior.",
        "dropout_alone": "The paper does not print its rates; ours are the best of sixteen.",
        "dropout_1600": "Ours has weight decay; its settings are those of 800 units.",
        "bbb_unopposed": "The paper's prior is a mixture of two Gaussians, which lost to one in our search.",
        "bdk": "Step size, prior and noise were searched; the paper's teachers sample forty times as long.",
    }
    for name, row in mnist.ROWS.items():
        printed = _PRINTED.get(name)
        if printed is None or "mnist" not in found:
            continue
        letter = "–"
        if name == "npn_unopposed":
            letter = ways(record, "mnist/50000", kinds, "error", " %")
        elif name == "gamma":
            letter = _gamma(record)
        cell = found["mnist"]["cells"][name]
        ours = f"{Summary.of(cell['figures']['error'])} %"
        how = f"{why[name]} We learn by Adam, for {cell['settings']['epochs']} epochs."
        yield Row(f"Table 2: {row.label}", f"{printed} %", letter, ours, how)


_PRINTED = {
    "npn_unopposed": "1.25",
    "gamma": "1.27",
    "dropout_alone": "1.33",
    "dropout_1600": "1.40",
    "bbb_unopposed": "1.34",
    "bdk": "1.38",
}


def _gamma(record: Record) -> str:
    told = []
    for images in (50_000, 1_000):
        for name in ("adadelta", "adam"):
            if one := record["cells"].get(f"mnist/{images}/gamma/{name}"):
                before, after = one["figures"]["loss_before_and_after"][:2]
                error, epochs = Summary.of(one["figures"]["error"]), one["settings"]["epochs"]
                words = f"{images:,} images, {name}, {epochs:,} epochs; loss {before:.2f} to {after:.2f}"
                told.append(f"{error} % ({words})")
    return BREAK.join(told) or NOT_RUN


def _sizes(record: Record, found: Records) -> Iterator[Row]:
    for size, printed in mnist_size.PAPER["npn"].items():
        ours = "–"
        if "mnist_size" in found:
            without, opposed = (
                Summary.of(mnist_size.figure_of(found["mnist_size"], name, size, "error"))
                for name in ("npn_unopposed", "npn")
            )
            ours = f"{without} %{BREAK}with an adversary {opposed} %"
        letter = ways(record, f"mnist/{size}", ("full", "none", "dropout"), "error", " %")
        why = "The paper says neither which images nor what weight its KL has; ours: dropout and decay were searched."
        yield Row(f"Table 3: {size:,} images", f"{printed} %", letter, ours, why)


def _figures(record: Record, found: Records) -> Iterator[Row]:
    groups = "–"
    if "mnist_variance" in found:
        scores = found["mnist_variance"]["cells"]["npn"]["figures"]["scores"]["probability_variance"]["accuracy"]
        first, *_, last = np.mean(scores, axis=0)
        groups = f"from {100 * first:.1f} to {100 * last:.1f} %, groups of equal size"
    digits = (f"mnist/{size}/none" for size in (50_000, 10_000, 2_000, 500, 100))
    best = next((record["cells"][key]["figures"]["bins"] for key in digits if key in record["cells"]), None)
    yield Row(
        "Figure 2: accuracy by variance",
        "falls",
        bins_told(best["paper"]) if best else NOT_RUN,
        groups,
        "A sigmoid's variance as printed is up to 0.027 where its input has none; what that alone sorts stands below.",
    )
    if "reconstruction" in found:
        means, stds = spread(found)
        yield Row(
            "Figure 3: error, and spread of the error, by variance (Citeulike-a; ours Citeulike-t)",
            "both rise",
            "–",
            f"mean from {means[0]:.0f} to {means[-1]:.0f}, standard deviation from {stds[0]:.1f} to {stds[-1]:.1f}",
        )


def bins_told(one: Mapping[str, Any]) -> str:
    """Accuracy of the first and the last bin with enough images to say."""
    each = enumerate(zip(one["accuracy"], one["count"], strict=True), start=1)
    there = [(number, value) for number, (value, count) in each if count >= FEWEST]
    (first, most), (last, least) = there[0], there[-1]
    return f"bin {first}: {most:.1f} %, bin {last}: {least:.1f} %"


def _links(record: Record, found: Records) -> Iterator[Row]:
    for name, published in links_page.PAPER_FIGURES.items():
        results = links_page.results(found["links"], name, "nodes") if "links" in found else {}
        for method, label in (("gaussian", "Gaussian"), ("gamma", "gamma"), ("poisson", "Poisson")):
            letter = []
            for weight in ("full", "none"):
                if one := record["cells"].get(f"links/{name}/{method}/{weight}"):
                    parts = (one["figures"][view]["rank"] for view in ("with variance", "mean"))
                    letter.append(
                        "{} ({})".format(*(f"{mean(part):.0f}" for part in parts))
                        + f" ({WAYS[weight]}, {one['settings']['epochs']:,} epochs)"
                    )
            ours = links_page.whole(Summary.of(results[method].shown.rank)) if method in results else "–"
            yield Row(
                f"Table 4: link rank, {links_page.LABELS[name]}, {label} NPN",
                published[label].rpartition(", ")[0],
                BREAK.join(letter) or NOT_RUN,
                ours,
                "Ours: words dropped at random, more features of a pair"
                + ("; arXiv has other texts than the paper's." if name == "arxiv" else "."),
            )


def rows(record: Record, found: Records) -> list[Row]:
    """All of them."""
    return [row for part in (_toy, _boston, _mnist, _sizes, _figures, _links) for row in part(record, found)]


# The page ------------------------------------------------------------------------------------------------------------


def page(record: Record, found: Records) -> str:
    """docs/paper.md, from the record of `paper` and all others."""
    lines = [[row.what, row.printed, row.letter, row.ours, row.why] for row in rows(record, found)]
    done, planned = len(record["cells"]), record["planned"]
    parts = [
        "# The paper to the letter",
        "<!-- rendered from results/ by npn report: do not edit -->",
        "What does the paper's own protocol give, and where do we differ from it? This page has three things side by "
        "side: what the paper prints, what its words give if they are followed literally, with its "
        "[printed errors](mathematics.md) corrected and nothing else changed, and what this library reaches with "
        "settings that were searched ([Results](results.md)). `npn reproduce paper` runs the second column: AdaDelta, "
        "minibatches of 128, 2,000 epochs, the prior N(0, 10⁴) with its whole KL divergence or, as in the authors' "
        "released code, without it, KL(N(y, ε) ‖ N(o_m, o_s)) for numbers, ten sigmoids with cross-entropy for digits. "
        f"{done} of its {planned} pieces are in the record; “{NOT_RUN}” are the others, most of which need a GPU.",
        table(["", "printed", "to the letter", "ours", "why they differ"], lines, words=5),
        _why_full(record),
        "## Accuracy by variance, in the paper's bins",
        _bins(record),
        "## Both halves of Figure 3",
        _figure_3(found),
        "## Two averages of the link rank",
        _averages(record),
        "## Every claim",
        "Verdicts are read from the records by rules that stand in `studies/npn_studies/experiments/claims.py`; "
        f"“{OPEN}” means that a record is missing. {len(CLAIMS)} claims:",
        claims_table({**found, "paper": record}),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _why_full(record: Record) -> str:
    """What becomes of the objective as it is printed, and why."""
    toy = record["cells"].get("toy/full")
    digits = {size: one for size in SIZES if (one := record["cells"].get(f"mnist/{size}/full"))}
    told = (
        [f"the band of the toy curve ends at a standard deviation of {mean(toy['figures']['std_far']):.2g}"]
        if toy
        else []
    )
    if digits:
        listed = " / ".join(f"{size:,}" for size in digits)
        errors = " / ".join(f"{mean(one['figures']['error']):.1f}" for one in digits.values())
        told.append(f"networks that learnt from {listed} images of MNIST end with {errors} % errors")
    if not told:
        return ""
    return (
        "**Why the full weight of the KL fails.** The objective is the loss of all rows plus the KL of all weights "
        "from N(0, 10⁴), which pulls every standard deviation towards 100. With few rows and many weights that is "
        f"the larger part, and a network that learns for long gives up what it has learnt: {'; '.join(told)}. "
        "Stopped early it still predicts (Boston after 200 epochs). The authors' released code has no KL at all."
    )


def _bins(record: Record) -> str:
    """Images and accuracy by bin, for the printed variance, the same at o_s = 0, and the exact one."""
    lines = []
    for key, one in record["cells"].items():
        for way, label in _VARIANCES.items():
            if "bins" in one["figures"] and not key.endswith("/full"):
                bins = one["figures"]["bins"][way]
                cells = [
                    "–" if value is None else f"{value:.1f} % of {count:,}"
                    for value, count in zip(bins["accuracy"], bins["count"], strict=True)
                ]
                lines.append([f"{key.removeprefix('mnist/')}: {label}", *cells])
    if not lines:
        return NOT_RUN
    head = ["images, training: variance", *(f"{WIDTH * k:.2f}–" for k in range(BINS)), "beyond"]
    return "\n\n".join(
        [
            "Bins of Σ a_s of width 0.04, as in Figure 2: accuracy and number of test images, over all "
            "networks. The printed formula gives a sigmoid a variance where its input has none. *At o_s = 0* shows "
            "what remains of the figure if the network's variances are thrown away; *exact* is the variance of the "
            "sigmoid by integration.",
            table(head, lines),
        ]
    )


_VARIANCES = {"paper": "as printed", "certain": "at o_s = 0", "exact": "exact"}


def _figure_3(found: Records) -> str:
    if "reconstruction" not in found:
        return NOT_RUN
    lines = []
    for name in ("citeulike-t", "arxiv"):
        for what, values in zip(("mean", "standard deviation"), spread(found, name), strict=True):
            lines.append([f"{links_page.LABELS[name]}: {what} of the error", *(f"{value:.1f}" for value in values)])
    return "\n\n".join(
        [
            "1,000 test documents of seed 0, in nine groups of equal size by rising variance. “Higher uncertainty "
            "often indicates not only higher reconstruction error E but also higher variance in E” (Section 4.3):",
            table(["", *map(str, range(1, 10))], lines),
        ]
    )


def _averages(record: Record) -> str:
    lines = []
    for key, one in record["cells"].items():
        if "rank_of_links" in one["figures"]:
            _, name, method = key.split("/")
            first, second = mean(one["figures"]["rank"]), mean(one["figures"]["rank_of_links"])
            words = one["figures"]["distinct_words"]
            lines.append(
                [
                    f"{links_page.LABELS.get(name, name)}, {method}",
                    f"{first:.0f}",
                    f"{second:.0f}",
                    f"{100 * (second / first - 1):+.1f} %",
                    f"{words:.1f}",
                ]
            )
    if not lines:
        return NOT_RUN
    return "\n\n".join(
        [
            "“The average rank of the observed links from test nodes to training nodes” is a mean over links. Ours "
            "is the mean over a node's neighbours, then over nodes, as in related code of the same authors. What "
            "that changes, on baselines; and how many different words a document has, 18.8 in the paper's "
            "Citeulike-t and 88.8 in its arXiv, whose texts we do not have:",
            table(["", "over nodes", "over links", "difference", "words a document"], lines),
        ]
    )


def section(record: Record) -> str:
    """On the page of results: what was run, and where the three columns are."""
    lines = [[key, f"{one['seconds']:.0f}", one["device"]] for key, one in record["cells"].items()]
    return "\n\n".join(
        [
            "The paper's protocol with its own settings, piece by piece; its figures stand beside the printed ones "
            "and ours on [The paper to the letter](paper.md).",
            table(["piece", "s", "device"], lines),
        ]
    )


def figure(record: Record) -> Figure:
    """The band of seed 0 by weight of the KL, and accuracy by the paper's bins."""
    from npn_studies.experiments.paper_figures import bands_and_bins

    return bands_and_bins(record)
