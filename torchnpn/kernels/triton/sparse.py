"""Products of sparse rows with two weight matrices at once, and their dense gradients, in Triton.

Forward, for the entries (column_k, x_k) of a row:  o_m = Σ_k x_k W_m[:, column_k],  o_s = Σ_k x_k² W_s[:, column_k].
Backward, for all entries (row_e, x_e) of one column:  ∂W_m[:, column] = Σ_e x_e g_m[row_e],  ∂W_s likewise with x_e².

No float atomics: a program of the forward pass owns a row, one of the backward pass a few columns, and each sums in a
fixed order. For that the entries of a batch are sorted by column, stable, once a backward pass. With LOG_STD the second
matrix holds ℓ, where W_s = exp(2ℓ), and so does its gradient: ∂ℓ = 2 W_s ∘ ∂W_s.
"""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from torchnpn.kernels.triton.signals import fused_once

_ENTRIES, _COLUMNS, _OUTPUTS = 32, 32, 32  # of a tile


def products(
    columns: Tensor, values: Tensor, W_m: Tensor, W_s: Tensor, log_std: bool = False
) -> tuple[Tensor, Tensor]:  # (*replicas, batch, width) twice, (*replicas, out, in) twice -> (*replicas, batch, out)
    """x W_mᵀ and x² W_sᵀ, with gradients to both matrices; rows and weights may share replica dimensions or lack them.

    Args:
        columns: Of the entries of each row.
        values: Of the entries; those that are 0 are skipped.
        W_m: Means of the weights.
        W_s: Their variances, or with `log_std` the logarithms of their standard deviations.
        log_std: What `W_s` holds.
    """
    lead = torch.broadcast_shapes(W_m.shape[:-2], columns.shape[:-2])
    if W_m.dim() == 2:  # one network: all rows are one batch
        columns, values = (part.reshape(1, -1, part.shape[-1]) for part in (columns, values))
    elif columns.dim() > 2:
        columns, values = (part.expand(*lead, *part.shape[-2:]).flatten(0, -3) for part in (columns, values))
    else:
        columns, values = columns[None], values[None]
    if W_m.dim() > 2:
        W_m, W_s = (W.expand(*lead, *W.shape[-2:]).flatten(0, -3) for W in (W_m, W_s))
    else:
        W_m, W_s = W_m[None], W_s[None]
    o_m, o_s = _Products.apply(columns.contiguous(), values.to(W_m.dtype).contiguous(), W_m, W_s, log_std)
    return o_m.reshape(*lead, -1, W_m.shape[-2]), o_s.reshape(*lead, -1, W_m.shape[-2])


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, values: Tensor, W_m: Tensor, W_s: Tensor, log_std: bool) -> Any:
        W_m, W_s = W_m.contiguous(), W_s.contiguous()
        replicas, n_out, n_in = W_m.shape
        batch, width = columns.shape[-2:]
        ctx.save_for_backward(columns, values, *([W_s] if log_std else []))
        ctx.shape = W_m.shape
        o_m, o_s = (W_m.new_empty(replicas, batch, n_out) for _ in range(2))
        stride = batch * width if len(columns) > 1 else 0  # rows shared by all replicas lie in memory once
        grid = (batch, triton.cdiv(n_out, _OUTPUTS), replicas)
        _forward[grid](
            columns, values, W_m, W_s, o_m, o_s, stride, batch, n_out, n_in, width, log_std, _OUTPUTS, _ENTRIES
        )
        return o_m, o_s

    @staticmethod
    @fused_once
    def backward(ctx: Any, g_m: Tensor, g_s: Tensor) -> tuple[Tensor | None, ...]:
        columns, values, *log_std = ctx.saved_tensors
        replicas, n_out, n_in = ctx.shape
        batch, width = columns.shape[-2:]
        starts, order = _sorted(columns, values, n_in)
        d_m, d_s = (g_m.new_empty(ctx.shape) for _ in range(2))
        shared = len(columns) == 1
        grid = (triton.cdiv(n_in, _COLUMNS), triton.cdiv(n_out, _OUTPUTS), replicas)
        strides = (0, 0) if shared else (n_in + 1, batch * width)
        _backward[grid](
            starts, order, values, g_m.contiguous(), g_s.contiguous(), log_std[0] if log_std else d_s, d_m, d_s,
            *strides, batch, n_out, n_in, width, bool(log_std), _OUTPUTS, _COLUMNS,
        )  # fmt: skip
        return None, None, d_m, d_s, None


def _sorted(columns: Tensor, values: Tensor, features: int) -> tuple[Tensor, Tensor]:
    """The places of the entries in the order of their columns, rows in order, and where each column starts.

    Entries of value 0, the padding among them, come after all columns, where nobody looks.
    """
    keys, order = torch.where(values == 0, features, columns).flatten(1).sort(dim=1, stable=True)
    every = torch.arange(features + 1, dtype=keys.dtype, device=keys.device)
    return torch.searchsorted(keys, every.expand(len(keys), -1).contiguous(), out_int32=True), order.int()


@triton.jit
def _forward(
    columns, values, W_m, W_s, o_m, o_s, stride, batch, n_out, n_in, WIDTH: tl.constexpr, LOG_STD: tl.constexpr,
    OUTPUTS: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    row, replica = tl.program_id(0), tl.program_id(2).to(tl.int64)
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    weights = (replica * n_out + outputs) * n_in  # where each output's weights start
    mean = tl.zeros((OUTPUTS, ENTRIES), W_m.dtype.element_ty)
    variance = tl.zeros((OUTPUTS, ENTRIES), W_m.dtype.element_ty)
    for start in range(0, WIDTH, ENTRIES):
        entries = start + tl.arange(0, ENTRIES)
        at = replica * stride + row * WIDTH + entries
        x = tl.load(values + at, mask=entries < WIDTH, other=0.0)
        column = tl.load(columns + at, mask=entries < WIDTH, other=0)
        here = (outputs < n_out)[:, None] & (x != 0)[None, :]
        place = weights[:, None] + column[None, :]
        w_m = tl.load(W_m + place, mask=here, other=0.0)
        w_s = tl.load(W_s + place, mask=here, other=0.0)
        if LOG_STD:
            w_s = tl.exp(2 * w_s)
        mean += x[None, :] * w_m
        variance += (x * x)[None, :] * w_s
    place = (replica * batch + row) * n_out + outputs
    tl.store(o_m + place, tl.sum(mean, 1), mask=outputs < n_out)
    tl.store(o_s + place, tl.sum(variance, 1), mask=outputs < n_out)


@triton.jit
def _backward(
    starts, order, values, g_m, g_s, log_std, d_m, d_s, starts_stride, entries_stride, batch, n_out, n_in,
    WIDTH: tl.constexpr, LOG_STD: tl.constexpr, OUTPUTS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    replica = tl.program_id(2).to(tl.int64)
    own = starts + replica * starts_stride + columns
    first = tl.load(own, mask=columns < n_in, other=0)
    end = tl.load(own + 1, mask=columns < n_in, other=0)
    by_m = tl.zeros((OUTPUTS, COLUMNS), d_m.dtype.element_ty)
    by_s = tl.zeros((OUTPUTS, COLUMNS), d_m.dtype.element_ty)
    longest = tl.max(end - first)
    k = 0
    while k < longest:  # the k-th entry of every column; `range` of such a number is beyond Triton's interpreter
        here = first + k < end
        entry = tl.load(order + replica * entries_stride + first + k, mask=here, other=0)
        x = tl.load(values + replica * entries_stride + entry, mask=here, other=0.0)
        place = (replica * batch + entry // WIDTH)[None, :] * n_out + outputs[:, None]
        wanted = here[None, :] & (outputs < n_out)[:, None]
        by_m += x[None, :] * tl.load(g_m + place, mask=wanted, other=0.0)
        by_s += (x * x)[None, :] * tl.load(g_s + place, mask=wanted, other=0.0)
        k += 1
    place = (replica * n_out + outputs)[:, None] * n_in + columns[None, :]
    inside = (outputs < n_out)[:, None] & (columns < n_in)[None, :]
    if LOG_STD:
        by_s *= 2 * tl.exp(2 * tl.load(log_std + place, mask=inside, other=0.0))
    tl.store(d_m + place, by_m, mask=inside)
    tl.store(d_s + place, by_s, mask=inside)
