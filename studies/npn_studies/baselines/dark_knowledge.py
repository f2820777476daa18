"""Bayesian dark knowledge (Korattikara et al. 2015): SGLD draws teachers, a student learns their mean prediction."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from npn_studies.baselines.adam import Adam, shares
from npn_studies.baselines.adversary import pushing
from npn_studies.baselines.interface import Fitted, Settings
from npn_studies.baselines.loop import batches, recorded, seeded, steps
from npn_studies.baselines.network import Network
from npn_studies.baselines.plain import answers
from npn_studies.baselines.replicas import Number
from npn_studies.baselines.rows import Rows, training_rows
from npn_studies.baselines.tasks import Classes, HeteroscedasticRegression, Regression


@dataclass(frozen=True)
class DarkKnowledge:
    """A chain of teachers by stochastic gradient Langevin dynamics, and one student that is asked in prediction.

    In each step the teacher moves once; then the student lowers the cross entropy from the teacher's prediction to its
    own at noisy inputs. In regression the teacher's noise is known and the student predicts mean and variance. Each
    number but `burn_in` may be a tuple, one for each replica.

    Attributes:
        task: `Regression` with a `noise_std`, or `Classes`.
        settings: Of both networks; `learning_rate` is the student's, `schedule` both have.
        step_size: ε of SGLD: the parameters move by ε/2 · ∇log posterior + N(0, ε). About 1 / (10 N).
        prior_precision: λ of the teacher's weights.
        input_noise: Standard deviation of the noise in the student's inputs.
        burn_in: Share of the steps before the student starts to learn.
        adversarial: How far the teacher's rows are moved against their targets (`training.adversarial`).
    """

    task: Regression | Classes
    settings: Settings
    step_size: Number = 1e-4
    prior_precision: Number = 1.0
    input_noise: Number = 0.1
    burn_in: float = 0.1
    adversarial: Number = 0.0

    def fit(self, x: Tensor, y: Tensor) -> Fitted:
        """See `Baseline`."""
        if isinstance(self.task, Regression) and self.task.noise_std is None:
            raise ValueError("DarkKnowledge expects a known noise in regression: task=Regression(noise_std=…).")
        settings = self.settings
        rows = training_rows(x, y, self.task, settings.device)
        replicas, count = rows.replicas, steps(rows.size, settings)
        alone = math.floor(self.burn_in * count)
        noise = replicas.number("input_noise", self.input_noise)
        with seeded(settings.seed, settings.device):
            teacher = Teacher(rows, self.task, settings, self.step_size, self.prior_precision, self.adversarial)
            student = Network(x.shape[-1], replicas, student_task(self.task), settings)
            rate = replicas.number("learning_rate", settings.learning_rate)
            adam = Adam(student.parameters, rate, count - alone, settings.schedule)

            def both(numbers: Tensor) -> None:
                teacher.step(numbers)
                x, _ = rows.batch(numbers)
                noisy = torch.addcmul(x, noise, torch.randn_like(x))
                with torch.no_grad():
                    truth = teacher.network.head.predicted(teacher.network(noisy)[None])
                loss = student.head.cross_entropy(student(noisy), truth).mean(-1)
                adam.step(torch.autograd.grad(loss.sum(), student.parameters))

            drawn = batches(replicas.networks, rows.size, settings)
            burn, learn = recorded(teacher.step, settings.device), recorded(both, settings.device)
            for numbers in itertools.islice(drawn, alone):
                burn(numbers)
            for numbers in drawn:
                learn(numbers)
        return answers(student, replicas)


def student_task(task: Regression | Classes) -> HeteroscedasticRegression | Classes:
    """What a student must predict: a variance that depends on x, too."""
    return HeteroscedasticRegression(task.targets) if isinstance(task, Regression) else task


class Teacher:
    """Draws from the posterior of networks' weights by SGLD (Welling and Teh 2011).

    One step of size ε, with M of N rows at hand:
        w ← w + ε/2 (Σ_batch (N/M) ∇log p(y | x, w) - λ w) + N(0, ε).

    Args:
        rows: Inputs and targets.
        task: Its noise is known: only weights and biases are drawn.
        settings: The network, and the `schedule` of ε.
        step_size: ε of the first step.
        prior_precision: λ.
        adversarial: How far rows are moved against their targets.
    """

    def __init__(
        self,
        rows: Rows,
        task: Regression | Classes,
        settings: Settings,
        step_size: Number,
        prior_precision: Number,
        adversarial: Number = 0.0,
    ) -> None:
        self.rows = rows
        self.network = Network(rows.x.shape[-1], rows.replicas, task, settings)
        self.parameters = self.network.layers
        self._precision = rows.replicas.number("prior_precision", prior_precision).flatten()
        self._size = rows.replicas.number("step_size", step_size)
        self._push = pushing(rows.replicas, adversarial)
        self._shares = shares(steps(rows.size, settings), settings.schedule).to(self._size)
        self._step = torch.zeros(1, dtype=torch.int64, device=self._size.device)

    def step(self, numbers: Tensor) -> None:  # (networks, batch)
        """Move once, by the gradient on these rows."""
        x, y = self.rows.batch(numbers)
        x = self._push(lambda x: self.network.loss(x, y), x)
        energy = self.rows.size * self.network.loss(x, y)
        energy = energy + self._precision * self.network.half_squares()
        slopes = torch.autograd.grad(energy.sum(), self.parameters)
        size = self._size * self._shares[self._step]
        half, std = 0.5 * size, size.sqrt()
        with torch.no_grad():
            for parameter, slope in zip(self.parameters, slopes, strict=True):
                parameter.add_(std * torch.randn_like(parameter) - half * slope)
            self._step.add_(1)
