"""Every claim of the paper's Sections 2-4 and supplement that can be measured, with a verdict read from the records."""

from __future__ import annotations

import math

import numpy as np

from npn_studies.experiments import active, document_claims, mnist_search, mnist_size, paper_claims
from npn_studies.experiments.digit_settings import STEPS
from npn_studies.experiments.tables import Summary, table
from npn_studies.experiments.verdict import BETTER, HOLDS, NOT, OPEN, TUNED, Claim, Records, Verdict, cell, judged, mean

# Section 2 -----------------------------------------------------------------------------------------------------------


def _theorem_1(found: Records) -> Verdict:
    errors = {name: one["figures"]["quadrature_error"] for name, one in found["activations"]["cells"].items()}
    return judged(
        max(errors.values()) < 1e-9, f"at most {max(errors.values()):.0e} from integrals, for {', '.join(errors)}"
    )


def _like_tanh(found: Records) -> Verdict:
    one = found["activations"]["cells"]["gamma"]
    gap = dict(zip(one["settings"]["taus"], one["figures"]["from_tanh"], strict=True))[1.5]
    return Verdict(HOLDS, f"at most {gap:.2f} from tanh(x)")


# Section 4.1 ---------------------------------------------------------------------------------------------------------


def _keeps_curve(found: Records) -> Verdict:
    ours, bdk = (mean(cell(found, "toy", name)["held_inside"]) for name in ("npn", "bdk"))
    return judged(min(ours, bdk) > 0.9, f"within ±3 std in ±4: NPN {ours:.0%}, BDK {bdk:.0%}".replace("%", " %"))


def _diverges(found: Records) -> Verdict:
    ratio = {
        k: np.divide(cell(found, "toy", k)["std_far"], cell(found, "toy", k)["least_std"]).mean()
        for k in ("npn", "pbp", "bdk")
    }
    told = ", ".join(f"{label} {ratio[k]:.1f}×" for k, label in (("npn", "NPN"), ("pbp", "PBP"), ("bdk", "BDK")))
    return judged(min(ratio.values()) > 1.5, f"std at ±6 over the least: {told}")


def _from_zero(found: Records) -> Verdict:
    one = cell(found, "toy", "npn")
    left, right = mean(one["widens_left"]), mean(one["widens_right"])
    return judged(
        abs(left) < 1 and abs(right) < 1,
        f"bands widen at x = {left:.1f} and {right:.1f}, where the points end; the noise of these data is the same "
        "everywhere, so that nothing begins at zero",
    )


def _boston(found: Records) -> Verdict:
    ours, pbp = cell(found, "uci", "npn/boston")["single"]["rmse"], cell(found, "uci", "pbp/boston")["rmse"]
    gap = Summary.of(np.subtract(ours, pbp).tolist())
    told = f"published splits: NPN {Summary.of(ours)}, PBP run here {Summary.of(pbp)}, in pairs {gap}"
    dark = found.get("paper", {"cells": {}})["cells"].get("boston/published/bdk")
    told += f"; BDK run here {Summary.of(dark['figures']['rmse'])}" if dark else "; BDK not run here yet"
    return judged(gap.mean < -2 * gap.error, told)


# Section 4.2 ---------------------------------------------------------------------------------------------------------


def _errors(found: Records, name: str) -> Summary:
    return Summary.of(cell(found, "mnist", name)["error"])


def _gap(one: Summary, other: Summary) -> Summary:
    return Summary(one.mean - other.mean, math.hypot(one.error, other.error))


def _beats_dropout(found: Records) -> Verdict:
    ours, alone, tuned = (_errors(found, name) for name in ("npn_unopposed", "dropout_alone", "dropout_unopposed"))
    against = _gap(ours, tuned)
    clear = against.mean < -2 * against.error
    return Verdict(
        BETTER if clear else TUNED,
        f"{ours} % beside {alone} % of dropout alone, but {tuned} % with weight decay: {against} points apart",
    )


def _adversary(found: Records) -> Verdict:
    rows = {name: _errors(found, name) for name in ("npn", "dropout", "bbb")}
    leads = rows["npn"].mean < min(rows["dropout"].mean, rows["bbb"].mean)
    told = (
        f"all with adversarial training: NPN {rows['npn']} %, dropout {rows['dropout']} %, "
        f"Bayes by Backprop {rows['bbb']} %"
    )
    return Verdict(BETTER if leads else TUNED, told)


def _gamma_beats_dropout(found: Records) -> Verdict:
    ours, alone = _errors(found, "gamma"), _errors(found, "dropout_alone")
    told = f"our own gamma network {ours} %, dropout alone {alone} %; for the paper's own see [the page](paper.md)"
    return judged(ours.mean < alone.mean, told, TUNED)


def _comparable(found: Records) -> Verdict:
    rows = {
        label: _errors(found, name)
        for name, label in (("bdk", "BDK"), ("bbb_unopposed", "BBB"), ("dropout_alone", "dropout alone"))
    }
    told = ", ".join(f"{label} {value} %" for label, value in rows.items())
    return judged(max(v.mean for v in rows.values()) - min(v.mean for v in rows.values()) < 0.11, told)


def _mixture_prior(found: Records) -> Verdict:
    trials = mnist_search.trials_of(found["mnist_search"], "bbb")
    free = [one for one in trials if "adversarial" not in one["settings"]]
    best = {
        kind: min(one["error"] for one in free if one["settings"]["prior"] == kind) for kind in ("gaussian", "mixture")
    }
    told = f"best of the search, validation images: {best['gaussian']} % with one, {best['mixture']} % with a mixture"
    return judged(best["gaussian"] > best["mixture"] + 0.2, told, TUNED)


def _wide_dropout(found: Records) -> Verdict:
    narrow, wide = _errors(found, "dropout_unopposed"), _errors(found, "dropout_1600")
    gap = _gap(wide, narrow)
    return judged(
        gap.mean > 2 * gap.error, f"1,600 units {wide} %, 800 units {narrow} %, both with weight decay", TUNED
    )


def _seconds(found: Records) -> Verdict:
    ours, plain = (cell(found, "mnist", name)["seconds_per_epoch"] for name in ("npn_unopposed", "dropout_alone"))
    return Verdict(
        BETTER if ours / plain < 18.3 / 6.4 else NOT,
        f"{ours:.3f} s beside {plain:.3f} s, {ours / plain:.1f}× (in the paper 2.9×); ours by fused kernels",
    )


def _margin_alone(found: Records) -> Verdict:
    gaps = [mnist_size.paired(found["mnist_size"], mnist_size.ALIKE, size, "error") for size in STEPS]
    told = "NPN minus dropout alone, neither with an adversary, 100 / 500 / 2,000 / 10,000 images: "
    told += " / ".join(map(str, gaps)) + " points"
    return judged(gaps[0].mean < gaps[-1].mean - 2 * math.hypot(gaps[0].error, gaps[-1].error), told)


def _margin_tuned(found: Records) -> Verdict:
    gaps = [mnist_size.paired(found["mnist_size"], mnist_size.OPPOSED, size, "error") for size in STEPS]
    clear = [gap.mean < -2 * gap.error for gap in gaps]
    told = "NPN minus dropout with weight decay and adversary: " + " / ".join(map(str, gaps)) + " points"
    return judged(clear[0], told, TUNED)


def _calibrated(found: Records) -> Verdict:
    scores = cell(found, "mnist_variance", "npn")["scores"]
    groups = np.mean(scores["probability_variance"]["accuracy"], axis=0)
    outputs = np.mean(scores["output_variance"]["accuracy"], axis=0)
    told = (
        f"accuracy from {100 * groups[0]:.2f} to {100 * groups[-1]:.2f} % over nine groups of the variance of "
        f"probabilities; by the variance of outputs o_s it goes from {100 * outputs[0]:.2f} to {100 * outputs[-1]:.2f} "
        "%"
    )
    return judged(bool(np.all(np.diff(groups) <= 0)), told)


# Sections 1 and 3 -----------------------------------------------------------------------------------------------------


def _topics(found: Records) -> Verdict:
    ours, other = (mean(cell(found, "topics", name)["coherence"]) for name in ("gamma", "nmf"))
    return judged(
        ours >= other, f"it factorises; coherence of its topics {ours:.2f}, of scikit-learn's NMF {other:.2f}", TUNED
    )


def _completion(found: Records) -> Verdict:
    values = {key: mean(one["figures"]["perplexity"]) for key, one in found["completion"]["cells"].items()}
    told = ", ".join(f"{key} {value:.0f}" for key, value in values.items())
    ours = min((values[key] for key in ("gamma", "poisson") if key in values), default=math.inf)
    theirs = min((values[key] for key in ("nmf", "lda") if key in values), default=math.inf)
    if math.inf in (ours, theirs):
        return Verdict(OPEN, told)
    return judged(ours <= theirs, f"perplexity of the other half of a document, {told}", TUNED)


def _active(found: Records) -> Verdict:
    gaps = {
        name: Summary.of(np.subtract(active.area(rows["epistemic"]), active.area(rows["random"])).tolist())
        for name in active.TASKS
        if {"epistemic", "random"} <= (rows := active.of_task(found["active"], name)).keys()
    }
    told = ", ".join(f"{name} {gap}" for name, gap in gaps.items())
    better = [gap.mean < -2 * gap.error for gap in gaps.values()]
    word = HOLDS if all(better) else f"holds on {sum(better)} of {len(better)} tasks" if any(better) else NOT
    return Verdict(word, f"mean error by epistemic variance minus that by chance: {told}")


CLAIMS = (
    Claim("2.3, Theorem 1", "v = r - q exp(-τ u_i) has moments in closed form", ("activations",), _theorem_1),
    Claim("Supplement B", "1 - exp(-1.5x) is very similar to tanh(x)", ("activations",), _like_tanh),
    Claim("2.4, supplement F", "The KL from N(0, 10⁴) regularises the weights", ("paper",), paper_claims.prior, True),
    Claim("4.1", "Most of the curve lies within ±3 std, for NPN and BDK", ("toy",), _keeps_curve, True),
    Claim("4.1", "The variance of PBP, BDK and NPN grows away from the data", ("toy",), _diverges),
    Claim("4.1", "NPN's variance begins to grow at x = 0", ("toy",), _from_zero),
    Claim("4.1", "Boston: NPN has less error than PBP and BDK", ("uci",), _boston),
    Claim("4.2, Table 2", "Gaussian NPN has 1.25 % test errors on MNIST", ("paper",), paper_claims.table_2),
    Claim("4.2, Table 2", "gamma NPN has 1.27 %", ("paper",), paper_claims.table_2_gamma),
    Claim("4.2, Table 3", "29.97 / 13.79 / 7.89 / 3.28 % with fewer images", ("paper",), paper_claims.table_3),
    Claim("Supplement E", "Dropout regularises NPN", ("paper",), paper_claims.dropout_helps),
    Claim("4.2, Table 2", "Gaussian NPN has less error than dropout", ("mnist",), _beats_dropout, True),
    Claim("4.2, Table 2", "Gaussian NPN is the best of all methods", ("mnist",), _adversary),
    Claim("4.2, Table 2", "gamma NPN has slightly less error than dropout", ("mnist",), _gamma_beats_dropout, True),
    Claim("4.2", "BDK and BBB do about as well as dropout", ("mnist",), _comparable),
    Claim("4.2", "BBB with one Gaussian as its prior errs by half a point more", ("mnist_search",), _mixture_prior),
    Claim("4.2", "Dropout with 1,600 units is worse than with 800", ("mnist",), _wide_dropout),
    Claim("4.2", "An epoch of NPN takes three times that of a plain network", ("mnist",), _seconds),
    Claim(
        "4.2, Table 3",
        "The lead over dropout grows as the training set shrinks",
        ("mnist_size",),
        _margin_alone,
        True,
    ),
    Claim(
        "4.2, Table 3",
        "The lead over dropout grows, with weight decay and adversary for both",
        ("mnist_size",),
        _margin_tuned,
        True,
    ),
    Claim("4.2, Figure 2", "The more uncertain NPN is, the lower its accuracy", ("mnist_variance",), _calibrated, True),
    Claim(
        "4.3, Table 4",
        "Gaussian NPN ranks links better than all baselines",
        ("links",),
        document_claims.gaussian_links,
        True,
    ),
    Claim(
        "4.3, Table 4",
        "gamma and Poisson NPN rank links better than all baselines",
        ("links",),
        document_claims.positive_links,
        True,
    ),
    Claim("4.3, Table 4", "Variances of codes help the Gaussian NPN", ("links",), document_claims.gaussian_variance),
    Claim("4.3, Table 4", "Variances of codes help the Poisson NPN", ("links",), document_claims.poisson_variance),
    Claim("4.3, Table 4", "Poisson NPN is best where documents are long", ("links",), document_claims.poisson_best),
    Claim("Supplement D", "AUC agrees with the link rank", ("links",), document_claims.auc_agrees),
    Claim("Supplement D", "A split by links gives the same picture", ("links",), document_claims.split_agrees),
    Claim(
        "4.3, Figure 3",
        "Higher uncertainty means higher reconstruction error",
        ("reconstruction",),
        document_claims.higher_error,
        True,
    ),
    Claim(
        "4.3, Figure 3",
        "Higher uncertainty means higher variance of that error",
        ("reconstruction",),
        document_claims.higher_spread,
    ),
    Claim("3.1", "A gamma autoencoder is a nonnegative factorisation", ("topics",), _topics),
    Claim("3.3", "Poisson NPN is an analogue of Poisson factor analysis", ("completion",), _completion),
    Claim("1", "Good uncertainty helps active learning", ("active",), _active),
)


def claims_table(found: Records) -> str:
    """Every claim with its verdict."""
    rows = []
    for claim in CLAIMS:
        verdict = claim.verdict(found)
        rows.append([claim.place, claim.text, f"**{verdict.word}**", verdict.evidence])
    return table(["place", "claim", "verdict", "figures"], rows, words=4)


def summary(found: Records) -> str:
    """Ten lines: what of the paper holds, what holds better here, and what does not once baselines are tuned."""
    lines = []
    for claim in CLAIMS:
        if claim.brief:
            verdict = claim.verdict(found)
            lines.append(
                f"- **{verdict.word[0].upper()}{verdict.word[1:]}**: {claim.text} ({claim.place}). "
                f"{_sentence(verdict.evidence)}"
            )
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
