"""Training: one loop for all networks, with recipes, early stopping and checkpoints."""

from torchnpn._cuda import captured
from torchnpn.training.checkpoint import CheckpointError
from torchnpn.training.distributed import Processes, alone, join
from torchnpn.training.engine import resolve_device
from torchnpn.training.explanation import Explanation, explain
from torchnpn.training.history import Epoch, History
from torchnpn.training.loop import TrainingDiverged, train
from torchnpn.training.recipe import (
    OPTIMIZERS,
    Ramp,
    Recipe,
    adadelta,
    adam,
    constant,
    cosine,
    geometric_ramp,
    linear_ramp,
)

__all__ = [
    "OPTIMIZERS",
    "CheckpointError",
    "Epoch",
    "Explanation",
    "History",
    "Processes",
    "Ramp",
    "Recipe",
    "TrainingDiverged",
    "adadelta",
    "adam",
    "alone",
    "captured",
    "constant",
    "cosine",
    "explain",
    "geometric_ramp",
    "join",
    "linear_ramp",
    "resolve_device",
    "train",
]

# For other packages of torchnpn:
from torchnpn._cuda import CapturedCall as CapturedCall
from torchnpn.training.adversarial import adversarial_rows as adversarial_rows
from torchnpn.training.cpu_chain import why_not_numpy as why_not_numpy
from torchnpn.training.data import Batch as Batch
from torchnpn.training.data import Rows as Rows
from torchnpn.training.data import RowStream as RowStream
from torchnpn.training.data import as_tensor as as_tensor
from torchnpn.training.distributed import ALONE as ALONE
from torchnpn.training.engine import Engine as Engine
from torchnpn.training.engine import choose_engine as choose_engine
from torchnpn.training.engine import device_engine as device_engine
from torchnpn.training.history import mean_history as mean_history
from torchnpn.training.recipe import half_cosine as half_cosine
from torchnpn.training.tape import Objective as Objective
from torchnpn.training.wide import row_loss as row_loss
