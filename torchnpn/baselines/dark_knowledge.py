"""Bayesian dark knowledge (Korattikara et al. 2015): SGLD draws teachers, a student learns their mean prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torchnpn.baselines.interface import Fitted, Predictor, Settings, training_rows
from torchnpn.baselines.loop import adam, decay_each_step, for_each_batch, seeded
from torchnpn.baselines.network import Network
from torchnpn.baselines.tasks import Classes, HeteroscedasticRegression, Regression


@dataclass(frozen=True)
class DarkKnowledge:
    """A chain of teachers by stochastic gradient Langevin dynamics, and one student that is asked in prediction.

    In each step the teacher moves once; then the student lowers the cross entropy from the teacher's prediction to its
    own at noisy inputs. In regression the teacher's noise is known and the student predicts mean and variance.

    Attributes:
        task: `Regression` with a `noise_std`, or `Classes`.
        settings: Of both networks; `learning_rate` is the student's, `decay` both have.
        step_size: ε of SGLD: the parameters move by ε/2 · ∇log posterior + N(0, ε). About 1 / (10 N).
        prior_precision: λ of the teacher's weights.
        input_noise: Standard deviation of the noise in the student's inputs.
        burn_in: Share of the steps before the student starts to learn.
    """

    task: Regression | Classes
    settings: Settings
    step_size: float = 1e-4
    prior_precision: float = 1.0
    input_noise: float = 0.1
    burn_in: float = 0.1

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        if isinstance(self.task, Regression) and self.task.noise_std is None:
            raise ValueError("DarkKnowledge expects a known noise in regression: task=Regression(noise_std=…).")
        x, y = training_rows(x, y, self.task, self.settings)
        place, count = self.settings.device, len(x)
        with seeded(self.settings.seed, place):
            teacher = Teacher(x, y, self.task, self.settings, self.step_size, self.prior_precision)
            student = Network(x, student_task(self.task), self.settings)
            optimizer = adam(student.parameters(), self.settings.learning_rate, place)
            factor = decay_each_step(count, self.settings)
            steps = self.settings.epochs * count / min(self.settings.batch_size, count)
            left = torch.tensor(math.floor(self.burn_in * steps), device=place)

            def step(rows: Tensor) -> None:
                teacher.step(rows)
                noisy = torch.add(x[rows], torch.randn_like(x[rows]), alpha=self.input_noise)
                with torch.no_grad():
                    truth = teacher.network.head.predicted(teacher.network(noisy)[None])
                optimizer.zero_grad()
                loss = student.head.cross_entropy(student(noisy), truth).mean()
                (loss * (left <= 0)).backward()  # zero gradients while burning in: Adam stands still
                optimizer.step()
                optimizer.param_groups[0]["lr"].mul_(factor)
                left.sub_(1)

            for_each_batch(step, count, self.settings)
        return Predictor(lambda x: student.head.predicted(student(x)[None]), self.settings)


def student_task(task: Regression | Classes) -> HeteroscedasticRegression | Classes:
    """What a student must predict: a variance that depends on x, too."""
    return HeteroscedasticRegression(task.targets) if isinstance(task, Regression) else task


class Teacher:
    """Draws from the posterior of a network's weights by SGLD (Welling and Teh 2011).

    One step of size ε, with M of N rows at hand:
        w ← w + ε/2 (Σ_batch (N/M) ∇log p(y | x, w) - λ w) + N(0, ε).

    Args:
        x: Inputs.
        y: Targets.
        task: Its noise is known: only weights and biases are drawn.
        settings: The network, and `decay` of ε.
        step_size: ε of the first step.
        prior_precision: λ.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        task: Regression | Classes,
        settings: Settings,
        step_size: float,
        prior_precision: float,
    ) -> None:
        self.x, self.y, self.prior_precision = x, y, prior_precision
        self.network = Network(x, task, settings)
        self.step_size = torch.tensor(step_size, dtype=x.dtype, device=x.device)
        self.parameters = list(self.network.layers.parameters())
        self._factor = decay_each_step(len(x), settings)

    def step(self, rows: Tensor) -> None:
        """Move once, by the gradient on these rows."""
        energy = len(self.x) * self.network.loss(self.x[rows], self.y[rows])
        energy = energy + self.prior_precision * self.network.half_squares()
        slopes = torch.autograd.grad(energy, self.parameters)
        with torch.no_grad():
            for parameter, slope in zip(self.parameters, slopes, strict=True):
                noise = self.step_size.sqrt() * torch.randn_like(parameter)
                parameter.add_(noise - 0.5 * self.step_size * slope)
            self.step_size.mul_(self._factor)
