r"""A layer for networks of PyTorch: log Z and marginals as functions of log potentials, with gradients.

A network produces ``theta``, one row an example; the layer answers for the factor graphs with these potentials, and
hands gradients back to the network. With expected statistics :math:`\mu`,

.. math:: \frac{d \log Z}{d\theta} = \mu, \qquad
          \bar\theta = \Bigl(\frac{d\mu}{d\theta}\Bigr)^{\!\top} \bar\mu

The second is what the reverse kernels of :mod:`beliefs.learning.gradients` compute: through exact inference, through a
number of sweeps, or at a fixed point. No operation of inference is recorded on PyTorch's tape.

Double tensors on the CPU are read where they lie; others are converted on the way in and back on the way out. Rows are
answered side by side on threads, small ones together (:mod:`beliefs.learning.copies`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from beliefs.errors import ConvergenceWarning, ModelError, UnsupportedError
from beliefs.inference.base import Method
from beliefs.inference.quiet import warn
from beliefs.inference.text import named_method
from beliefs.learning.copies import RowBeliefs, beliefs_of_rows, log_partitions
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.gradients.exact import Exact
from beliefs.learning.gradients.registry import make_gradient
from beliefs.learning.gradients.smooth import check_smooth
from beliefs.learning.gradients.truncated import Truncated
from beliefs.model.graph import FactorGraph, Model, as_factor_graph
from beliefs.model.layout import Layout
from beliefs.options import MANY, check_integer, check_number, shown
from beliefs.typing import Floats

__all__ = ["Marginals", "log_partition", "log_score", "marginals"]

_TOL = 1e-6  # of log Z by an approximate method: its beliefs are the gradient at a fixed point only


class Marginals(NamedTuple):
    """Marginals of the variables ``(..., n_states)`` and expected statistics ``(..., n_cells)``, tied cells added."""

    mu_var: Any
    mu: Any


def log_partition(
    theta: Any, layout: Layout | Model, method: Any = "exact", *, tol: float = _TOL, threads: int | None = None
) -> Any:
    """Return log Z of each row of log potentials, differentiable: the gradient is the expected statistics.

    Parameters
    ----------
    theta : Tensor (..., n_cells)
        Log potentials, factor by factor, last variable of a scope fastest; ``-inf`` is a true zero.
    layout : Layout or model
        The structure. Evidence is that of a graph: ``graph.condition(...)``.
    method : Method or str
        ``"exact"``, or a method such as ``"trw"`` whose value takes the place of log Z; it is run until it settles.
    tol : float
        When it has settled.
    threads : int, optional
        Rows answered side by side; None means all cores. It changes no byte of the answer.

    Returns
    -------
    Tensor (...)
        Exact ones can be differentiated twice.

    Warns
    -----
    ConvergenceWarning
        Where the method has not settled: the gradient is then not that of the value.
    """
    graph, rows, shape = _checked(theta, layout, threads)
    check_number("tol", tol)
    exact = isinstance(method, str) and method == "exact"
    how = Exact() if exact else named_method(method)
    if isinstance(how, Method):
        check_smooth(how, "log_partition")
    question = _Question(graph, how, tol, threads)
    return _functions()[0].apply(rows, question)[0].reshape(shape)


def marginals(
    theta: Any,
    layout: Layout | Model,
    method: Any = "exact",
    *,
    n_sweeps: int | None = None,
    tol: float | None = None,
    threads: int | None = None,
) -> Marginals:
    """Return marginals and expected statistics of each row of log potentials, differentiable.

    Parameters
    ----------
    theta, layout, threads
        As in :func:`log_partition`.
    method : Method, str or Gradient
        ``"exact"``; a method such as ``"trw"`` or ``"mean_field"``; or a way to differentiate through inference, such
        as ``Truncated(method=TRW(), n_sweeps=10, checkpoints=4)``.
    n_sweeps : int, optional
        The beliefs after exactly so many iterations, and their gradient; None: those of the fixed point.
    tol : float, optional
        Of a run to the fixed point.
    """
    graph, rows, shape = _checked(theta, layout, threads)
    through = _through(method, n_sweeps, tol)
    mu_var, mu = _functions()[1].apply(rows, _Question(graph, through, None, threads))
    return Marginals(mu_var.reshape(*shape, mu_var.shape[1]), mu.reshape(*shape, mu.shape[1]))


def log_score(theta: Any, layout: Layout | Model, labels: Any) -> Any:
    r"""Return the log score :math:`\theta \cdot f(x)` of one assignment a row, ``labels (..., n_vars)``.

    ``log_partition(theta, layout) - log_score(theta, layout, labels)`` is the negative log-likelihood.
    """
    import torch

    graph, rows, shape = _checked(theta, layout, None)
    lay = graph.layout
    try:
        found = torch.as_tensor(labels).detach().cpu().numpy()
    except (TypeError, ValueError, RuntimeError):
        found = np.zeros(0)
    if found.shape != (*shape, lay.n_vars) or found.dtype.kind not in "iu":
        what = f"{found.dtype} of shape {found.shape}" if found.size else shown(labels)
        raise ModelError(f"labels must be integers of shape {(*shape, lay.n_vars)}, found {what}")
    states = found.reshape(-1, lay.n_vars)
    fine = (states >= 0) & (states < lay.card)
    if not fine.all():
        v = int(np.argmin(fine.all(axis=0)))
        raise ModelError(f"labels of variable {graph.naming.name(v)!r} must be 0..{lay.card[v] - 1}")
    states = states.astype(np.int64)
    as_seen = (states == graph.evidence_states).all(axis=0) | ~lay.observed
    if not as_seen.all():
        v = int(np.argmin(as_seen))
        seen = graph.evidence_states[v]
        raise ModelError(f"labels of variable {graph.naming.name(v)!r} must be {seen}, as it was observed")
    cells = np.broadcast_to(lay.cell_ptr, (len(states), lay.n_factors)).copy()
    for edge, (f, v) in enumerate(zip(lay.edge_factor, lay.scope_vars, strict=True)):
        cells[:, f] += lay.edge_stride[edge] * states[:, v]
    return rows.gather(1, torch.from_numpy(cells)).sum(1).reshape(shape)


@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked of every row: the structure, the way through inference or the method, and how."""

    graph: FactorGraph
    how: Any
    tol: float | None
    threads: int | None

    def answer(self, theta: Floats) -> tuple[RowBeliefs, Floats]:
        if isinstance(self.how, Gradient):
            found = beliefs_of_rows(self.graph, theta, self.how, self.threads)
        else:
            assert self.tol is not None
            found = log_partitions(self.graph, theta, self.how, self.tol, self.threads, self._refusal)
        _warn_of(found[0].n_not_converged, theta, "rows have not converged", 6)
        return found

    def way_back(self, theta: Any, found: RowBeliefs, bars: Sequence[Floats | None]) -> Floats:
        before = found.n_not_converged
        grad = found.pullback(*bars)
        missed = found.n_not_converged - before  # where the way back ends when it settles, as the way there does
        _warn_of(missed, theta, "rows have not converged on the way back", 5)
        return grad

    def _refusal(self) -> Exception:
        return UnsupportedError(f"log_partition by {self.how} has no second derivative; use method='exact'")


def _warn_of(n_missed: int, theta: Any, what: str, stacklevel: int) -> None:
    """Warn of rows whose gradients are not those of their values."""
    if n_missed:
        warn(
            f"{n_missed} of {len(theta)} {what}, and their gradients are not those of the values; raise tol, use "
            "damping, or ask for a number of sweeps",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def _checked(theta: Any, layout: Any, threads: Any) -> tuple[FactorGraph, Any, tuple[int, ...]]:
    """Return the structure as a graph, the potentials as rows, and the shape of the answers."""
    import torch

    check_integer("threads", threads, 1, MANY, none=True)
    if not isinstance(theta, torch.Tensor):
        raise ModelError(f"theta must be a tensor, found {type(theta).__name__}")
    if not theta.dtype.is_floating_point:
        raise ModelError(f"theta must be floating point, found {theta.dtype}: use .double()")
    if theta.device.type != "cpu":
        raise ModelError(f"theta must be on the CPU, found {theta.device}: use .cpu()")
    if theta.is_nested or theta.layout != torch.strided:
        kind = "a nested tensor" if theta.is_nested else str(theta.layout)
        raise ModelError(f"theta must be a plain tensor, one row of potentials after the other, found {kind}")
    if isinstance(layout, Layout):
        if layout.observed.any():
            raise ModelError(
                "the layout has observed variables but not their states; give the conditioned graph itself"
            )
        layout = layout.plan(_empty)
    layout = as_factor_graph(layout)
    n = layout.layout.n_cells
    if theta.ndim == 0 or theta.shape[-1] != n:
        raise ModelError(f"theta must have {n} log potentials in its last dimension, found shape {tuple(theta.shape)}")
    return layout, theta.reshape(-1, n) if n else theta.reshape(theta.shape[:-1].numel(), 0), tuple(theta.shape[:-1])


def _empty(layout: Layout) -> FactorGraph:
    return FactorGraph.build(layout, np.zeros(layout.n_cells))


def _through(method: Any, n_sweeps: int | None, tol: float | None) -> Gradient:
    if isinstance(method, Gradient):
        for name, value in (("n_sweeps", n_sweeps), ("tol", tol)):
            if value is not None:
                raise ModelError(f"{type(method).__name__}(...) says how far inference runs, not {name}={value}")
        return method
    check_number("tol", tol, none=True)
    exact = isinstance(method, str) and method == "exact"
    way = Exact() if exact else make_gradient("auto", named_method(method), n_sweeps=n_sweeps, tol=tol)
    if n_sweeps is None:
        return way
    if not isinstance(way, Truncated):
        end = "exact" if isinstance(way, Exact) else "those at its end"
        raise ModelError(f"marginals by {method} are {end} and take no n_sweeps, found {n_sweeps}; 'trw' does")
    if tol is not None:
        raise ModelError(f"marginals after n_sweeps={n_sweeps} have no tolerance, found tol={tol}; give one of the two")
    return way


@cache
def _functions() -> tuple[Any, Any]:
    """Return the functions of PyTorch; made when they are asked for, since importing it takes a second."""
    import torch
    from torch.autograd import Function

    def numbers(tensor: Any) -> Floats:
        found: Floats = tensor.detach().to(torch.float64).resolve_neg().contiguous().numpy()
        return found

    class Pullback(Function):
        """The transposed Jacobian of the marginals times gradients in them; not to be differentiated again."""

        @staticmethod
        def forward(ctx: Any, theta: Any, question: _Question, found: RowBeliefs, *bars: Any) -> Any:
            given = [None if bar is None else numbers(bar) for bar in bars]
            return torch.from_numpy(question.way_back(theta, found, given)).to(theta.dtype)

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            raise UnsupportedError("marginals can be differentiated once, exact log partitions twice")

    class LogPartition(Function):
        """Log Z and expected statistics of each row."""

        @staticmethod
        def forward(ctx: Any, theta: Any, question: _Question) -> Any:
            found, log_z = question.answer(numbers(theta))
            mu = torch.from_numpy(found.mu).to(theta.dtype)
            ctx.question, ctx.found = question, found
            ctx.save_for_backward(theta, mu)
            ctx.set_materialize_grads(False)
            return torch.from_numpy(log_z).to(theta.dtype), mu

        @staticmethod
        def backward(ctx: Any, bar_log_z: Any, bar_mu: Any) -> Any:
            theta, mu = ctx.saved_tensors
            grad = None if bar_log_z is None else bar_log_z[:, None] * mu
            if bar_mu is not None:
                more = Pullback.apply(theta, ctx.question, ctx.found, None, bar_mu)
                grad = more if grad is None else grad + more
            return grad, None

    class MarginalsOf(Function):
        """Marginals and expected statistics of each row."""

        @staticmethod
        def forward(ctx: Any, theta: Any, question: _Question) -> Any:
            found, _ = question.answer(numbers(theta))
            ctx.question, ctx.found = question, found
            ctx.save_for_backward(theta)
            ctx.set_materialize_grads(False)
            return torch.from_numpy(found.mu_var).to(theta.dtype), torch.from_numpy(found.mu).to(theta.dtype)

        @staticmethod
        def backward(ctx: Any, bar_var: Any, bar_mu: Any) -> Any:
            (theta,) = ctx.saved_tensors
            if bar_var is None and bar_mu is None:
                return None, None
            return Pullback.apply(theta, ctx.question, ctx.found, bar_var, bar_mu), None

    return LogPartition, MarginalsOf
