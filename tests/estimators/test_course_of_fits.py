"""What users of scikit-learn expect of a fit: it ends early, goes on from the one before, and tells how far it is."""

from __future__ import annotations

import copy
import io
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

import torchnpn as npn
from torchnpn import NPNAutoencoder, NPNClassifier, NPNRegressor, censored

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=120)
ONE = {"hidden": (8,), "max_epochs": 60, "random_state": 0}
MIXTURE = {"max_epochs": 12, "random_state": 0}
TARGETS = {
    "numbers": (lambda **options: NPNRegressor(**options), Y),
    "several": (lambda **options: NPNRegressor(**options), np.column_stack([Y, X[:, 1]])),
    "durations": (lambda **options: NPNRegressor("weibull", **options), censored(np.exp(Y), X[:, 1] < 1)),
    "classes": (lambda **options: NPNClassifier(**options), np.where(Y > 0, "up", "down")),
}


@pytest.mark.parametrize("settings", [ONE, {**ONE, "n_estimators": 2}, MIXTURE], ids=["one", "ensemble", "mixture"])
@pytest.mark.parametrize("name", TARGETS)
def test_patience_ends_a_fit_where_held_out_rows_get_no_better(name, settings):
    make, y = TARGETS[name]
    told = []
    model = make(**settings, patience=2, learning_rate=0.05).fit(X, y, callbacks=[told.append])
    losses = [one.validation for one in told]
    assert all(np.isfinite(losses)) and model.history_.epochs[-1].validation is not None
    assert model.predict(X[:3]).shape[0] == 3
    for one in told:
        assert 0 < one.share <= 1 and one.epoch <= one.epochs == settings["max_epochs"]
    without = make(**settings, learning_rate=0.05).fit(X, y)
    assert all(epoch.validation is None for epoch in without.history_.epochs)


def test_patience_keeps_the_weights_of_the_best_epoch():
    told = []
    noise = RNG.normal(size=120)  # of which nothing can be learnt but the mean
    settings = {**ONE, "kl_weight": 0.01, "max_epochs": 400, "learning_rate": 0.03}
    model = NPNRegressor(**settings, patience=10, validation_fraction=0.3).fit(X, noise, callbacks=[told.append])
    best = int(np.argmin([one.validation for one in told]))
    assert len(told) == best + 1 + 10 < 400 and model.history_.stopped_early and model.history_.best_epoch == best + 1
    assert model.n_iter_ == len(told)
    whole = NPNRegressor(**settings).fit(X, noise)
    fresh = np.random.default_rng(1).normal(size=(500, 3)), np.random.default_rng(2).normal(size=500)
    assert model.log_likelihood(*fresh).mean() > whole.log_likelihood(*fresh).mean()


def test_rows_held_out_are_whole_copies_and_leave_every_class():
    same = np.repeat(X[:40], 3, axis=0)
    labels = np.repeat(np.where(np.arange(40) == 0, "rare", "usual"), 3)
    seen = []

    class Watching(NPNClassifier):
        def _learn(self, X, y, weight, X_variance, options):
            seen.append((X, y, options.validation))
            super()._learn(X, y, weight, X_variance, options)

    Watching(**ONE, patience=3, validation_fraction=0.5).fit(same, labels)
    (learnt, y, out), *_ = seen
    assert len(learnt) + len(out.X) == 120 and len(out.X) == 60
    assert not {tuple(row) for row in learnt} & {tuple(row) for row in out.X}
    assert set(y) == {"rare", "usual"} and set(out.y) == {"usual"}


def test_rows_held_out_have_to_count():
    weight = (np.arange(120) < 6).astype(float)
    with pytest.raises(ValueError, match="sample_weight 0 for all"):
        NPNRegressor(**ONE, patience=3, validation_fraction=0.01).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({"patience": 0}, {}, "patience expects a whole number from 1, or None"),
        (
            {"patience": 3, "validation_fraction": 1.0},
            {},
            "validation_fraction expects a number between 0 and 1",
        ),
        ({"patience": 3, "validation_fraction": 0.999}, {}, "leaves too few of 120 to learn from"),
        ({"patience": 3, "n_estimators": 1}, {"subsets": np.zeros((1, 9), int)}, "subsets goes with patience=None"),
        ({"warm_start": "yes"}, {}, "warm_start expects True or False"),
        ({"warm_start": True, "calibrate": "split"}, {}, "warm_start goes with calibrate=None"),
        ({"warm_start": True, "effort": "best", "hidden": None}, {}, "got warm_start=True"),
    ],
)
def test_what_does_not_go_together_is_said(settings, options, words):
    with pytest.raises(ValueError, match=words):
        NPNRegressor(**{**ONE, **settings}).fit(X, Y, **options)


# Going on --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_a_warm_start_goes_on_where_the_fit_before_has_ended(name):
    make, y = TARGETS[name]
    model = make(**{**ONE, "max_epochs": 5}, warm_start=True).fit(X, y)
    first, loss = model.network_, model.history_.last.loss
    before = {key: value.clone() for key, value in first.state_dict().items()}
    for _ in range(5):
        model.fit(X, y)
    assert model.history_.last.loss < loss
    assert all(torch.equal(value, before[key]) for key, value in first.state_dict().items())  # the old one is as it was
    anew = clone(model).fit(X, y)
    assert anew.history_.last.loss == pytest.approx(loss)


def test_a_warm_start_keeps_scales_and_refuses_another_network(tmp_path):
    model = NPNRegressor(**ONE, warm_start=True).fit(X, Y)
    again = model.fit(10 + X, Y)
    assert again.inputs_.center == pytest.approx(X.mean(0), abs=0.2)
    for settings, words in (
        ({"hidden": (9,)}, "settings of another one"),
        ({"family": "student_t"}, "family expects 'gaussian', as in the fit before"),
        ({"noise": "constant"}, "settings of another one"),
        ({"n_estimators": 2}, "settings of another one"),
    ):
        with pytest.raises(ValueError, match=words):
            copy.copy(model).set_params(**settings).fit(X, Y)
    with pytest.raises(ValueError, match="2 features"):
        model.fit(X[:, :2], Y)
    npn.save(model, tmp_path / "model.npn")
    loaded = npn.load(tmp_path / "model.npn")
    assert loaded.warm_start and loaded.fit(X, Y).predict(X).shape == (120,)
    mixture = NPNRegressor(max_epochs=3, random_state=0).fit(X, Y).set_params(warm_start=True)
    with pytest.raises(ValueError, match="got a mixture"):
        mixture.fit(X, Y)
    classes = NPNClassifier(**ONE, warm_start=True).fit(X, Y > 0)
    with pytest.raises(ValueError, match="y expects labels among"):
        classes.fit(X, np.where(Y > 0, 2, 3))


# Telling ---------------------------------------------------------------------------------------------------------


def test_a_callback_ends_the_training_under_way():
    told = []

    def stop(record):
        told.append(record)
        return record.epoch == 3

    model = NPNRegressor(**ONE).fit(X, Y, callbacks=[stop, lambda record: 7])  # other answers do not count
    assert [one.epoch for one in told] == [1, 2, 3] and model.history_.stopped_early and model.n_iter_ == 3
    told.clear()
    NPNRegressor(**MIXTURE).fit(X, Y, callbacks=[stop])
    assert [one.epoch for one in told] == 4 * [1, 2, 3] and told[-1].share < 1
    shares = [one.share for one in told]
    assert shares == sorted(shares)
    told.clear()
    assert NPNAutoencoder(hidden=(2,), max_epochs=9, random_state=0).fit(X, callbacks=[stop]).n_iter_ == 3
    members = NPNRegressor(**ONE, n_estimators=2).fit(X, Y, callbacks=[lambda one: one.share > 0.75])
    assert members.n_iter_ == 60  # of the first; the second was ended half-way


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_verbose_draws_a_bar_on_a_terminal_only(monkeypatch, capsys):
    NPNRegressor(**ONE, verbose=1, patience=50).fit(X, Y)
    lines = capsys.readouterr()
    assert len(lines.out.splitlines()) == 10 and not lines.err and ", held out " in lines.out
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "100")
    NPNRegressor(**MIXTURE, verbose=1).fit(X, Y)
    drawn = screen.getvalue()
    assert drawn.count("\n") == 1 and drawn.endswith("\n") and not capsys.readouterr().out
    *_, last = drawn.rstrip().split("\r")
    assert last.startswith("[NPNRegressor] ############################## 100%  loss ")
    with pytest.raises(ZeroDivisionError):
        NPNRegressor(**ONE, verbose=1).fit(X, Y, callbacks=[lambda record: 1 / 0])
    assert screen.getvalue().endswith("\n")
