"""Questions about machines that share their weights, answered together: by messages, means or chains.

A method that has no form for batches is asked of one machine after the other. A machine's answer depends on no other of
its batch. Batches keep no state to go on from and have no trace, so options that concern these are refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from beliefs.deadline import OutOfTime, limited
from beliefs.errors import BudgetError, ConvergenceWarning, ModelError, UnsupportedError
from beliefs.inference.base import Bound, Method, Task
from beliefs.inference.batch_result import BatchDecoding, BatchMarginals
from beliefs.inference.boltzmann.batch_gibbs import chain_bytes_of, gibbs_rows
from beliefs.inference.boltzmann.batch_mean_field import each_alone, mean_field_rows, row_values
from beliefs.inference.boltzmann.bp import LayerBP, climbed
from beliefs.inference.boltzmann.machines import roundings_of
from beliefs.inference.boltzmann.matrix_bp import LayerMessages
from beliefs.inference.budget import default_budget, over_budget
from beliefs.inference.messages.bp import BP
from beliefs.inference.quiet import quietly, warn
from beliefs.inference.run import default_threads
from beliefs.inference.sampling.gibbs import Gibbs
from beliefs.inference.text import named_method
from beliefs.inference.variational.mean_field import MeanField
from beliefs.kernels.boltzmann.second_order import add_pairs
from beliefs.model.rbm import RBM
from beliefs.model.rbm_batch import RBMBatch
from beliefs.typing import VariableRef

__all__ = ["check_query", "decode_batch", "infer_batch"]

_REFUSED = ("init", "callback", "trace_every")
Ask = Callable[[RBM], Any]
Answer = TypeVar("Answer", BatchMarginals, BatchDecoding)


def infer_batch(batch: RBMBatch, method: Method | str, options: Any, one: Ask) -> BatchMarginals:
    """Return log Z and the marginals of all machines; ``one`` asks the same of a single one."""
    _check(batch, options)
    started = time.perf_counter()
    asked = named_method(method) if not _is_auto(method) else None
    with _in_time(len(batch), options):
        if isinstance(asked, BP) and LayerBP.serves(asked, batch[0]):
            found = _propagated(batch, asked, options)
        elif isinstance(asked, MeanField) and asked.structure == "none" and not asked.restarts:
            found = _means(batch, asked, options)
        elif isinstance(asked, Gibbs) and not asked.needs_machine:
            found = _averaged(batch, asked, options)
        else:
            found = _one_by_one(batch, one)
    return _told(BatchMarginals(model=batch, seconds=time.perf_counter() - started, **found))


def decode_batch(batch: RBMBatch, task: Task, method: Method | str, options: Any, one: Ask) -> BatchDecoding:
    """Return good states of all machines: of both layers, or of the visible one with the hidden one summed out."""
    _check(batch, options)
    started = time.perf_counter()
    asked = named_method(method) if not _is_auto(method) else None
    with _in_time(len(batch), options):
        if isinstance(asked, BP) and LayerBP.serves(asked, batch[0]):
            found = _decoded(batch, asked, task, options)
        else:
            found = _decoded_one_by_one(batch, task, one)
    return _told(BatchDecoding(model=batch, seconds=time.perf_counter() - started, **found))


@contextmanager
def _in_time(n_machines: int, options: Any) -> Iterator[None]:
    """Within, all machines share the time limit; a BudgetError where it is over."""
    limit = _option(options, "time_limit", np.inf)
    try:
        with limited(limit):
            yield
    except OutOfTime:
        raise BudgetError(f"the {n_machines} machines were not done after {limit:g} s; raise time_limit") from None


def _told(result: Answer) -> Answer:
    """Warn where machines have stopped short of a fixed point."""
    short = int((~result.converged).sum())
    if short and result.method.fixed_point:
        warn(f"{result.method}: {short} of {len(result)} machines have not converged", ConvergenceWarning, stacklevel=3)
    return result


# -- forms for batches ------------------------------------------------------------------------------------------------
def _messages(batch: RBMBatch, method: BP, options: Any) -> tuple[LayerMessages, int, float]:
    threads = _option(options, "threads", default_threads())
    budget = _option(options, "max_bytes", default_budget())
    needed = LayerMessages.needed_bytes(batch.weights, len(batch), threads, method.damping)
    if needed > budget:
        raise over_budget(f"{method} needs", needed, budget, "Ask about fewer machines, or raise max_bytes")
    limits = _option(options, "max_iters", method.default_max_iters), _option(options, "tol", method.default_tol)
    return LayerMessages(batch.weights, method.damping, threads), *limits


def _propagated(batch: RBMBatch, method: BP, options: Any) -> dict[str, Any]:
    messages, max_iters, tol = _messages(batch, method, options)
    found = messages.sums(batch.visible_bias, batch.hidden_bias, max_iters, tol)
    return {
        "method": method, "log_z": found.log_z, "bound": Bound.EXACT if batch.n_hidden == 0 else Bound.ESTIMATE,
        "visible": found.visible, "hidden": found.hidden, "pair_sum": found.pair_sum.astype(batch.dtype, copy=False),
        "converged": found.converged, "n_iters": found.n_iters,
    }  # fmt: skip


def _means(batch: RBMBatch, method: MeanField, options: Any) -> dict[str, Any]:
    max_iters = _option(options, "max_iters", method.default_max_iters)
    tol = _option(options, "tol", method.default_tol)
    weights, visible_bias, hidden_bias = (
        np.array(array, np.float64) for array in (batch.weights, batch.visible_bias, batch.hidden_bias)
    )
    product = each_alone(_option(options, "threads", default_threads()))
    found = mean_field_rows(weights, visible_bias, hidden_bias, max_iters, tol, method.order, product)
    log_z = row_values(weights, visible_bias, hidden_bias, found, method.order, product)
    if method.order == 1:
        log_z -= 2.0 * roundings_of(batch)
        pair_sum = found.visible.T @ found.hidden
    else:
        pair_sum = np.zeros(weights.shape)
        add_pairs(weights, found.visible, found.hidden, pair_sum)
    return {
        "method": method, "log_z": log_z, "bound": Bound.LOWER if method.order == 1 else Bound.ESTIMATE,
        "visible": found.visible, "hidden": found.hidden, "pair_sum": pair_sum.astype(batch.dtype),
        "converged": found.converged, "n_iters": found.n_iters,
    }  # fmt: skip


def _averaged(batch: RBMBatch, method: Gibbs, options: Any) -> dict[str, Any]:
    threads, budget = _option(options, "threads", default_threads()), _option(options, "max_bytes", default_budget())
    needed = chain_bytes_of(batch, method.chains, threads)
    if needed > budget:
        raise over_budget(f"{method} needs", needed, budget, "Run fewer chains, or raise max_bytes")
    limits = _option(options, "max_iters", method.default_max_iters), _option(options, "tol", method.default_tol)
    found = gibbs_rows(batch, method, limits, _option(options, "seed", 0), threads)
    return {
        "method": method, "log_z": found.log_z, "bound": Bound.LOWER,
        "visible": found.visible, "hidden": found.hidden, "pair_sum": found.pair_sum.astype(batch.dtype, copy=False),
        "converged": found.converged, "n_iters": found.n_iters,
    }  # fmt: skip


def _decoded(batch: RBMBatch, method: BP, task: Task, options: Any) -> dict[str, Any]:
    messages, max_iters, tol = _messages(batch, method, options)
    if task is Task.MARGINAL_MAP:
        found = messages.mixed(batch.visible_bias, batch.hidden_bias, max_iters, tol)
        visible = found.visible_log_odds > 0.0
        hidden, values = found.hidden, -batch.free_energy(visible)
    else:
        found = messages.maxima(batch.visible_bias, batch.hidden_bias, max_iters, tol)
        visible, hidden = found.visible_log_odds > 0.0, np.empty((len(batch), batch.n_hidden), np.int64)
        values = np.empty(len(batch))
        for k, machine in enumerate(batch):
            visible[k], hidden[k], values[k] = climbed(machine, visible[k])
    return {
        "method": method, "visible": visible.astype(np.int64), "hidden": hidden, "log_value": values,
        "converged": found.converged, "n_iters": found.n_iters,
    }  # fmt: skip


# -- one machine after the other --------------------------------------------------------------------------------------
def _one_by_one(batch: RBMBatch, one: Ask) -> dict[str, Any]:
    results = [_quietly(one, machine) for machine in batch]
    kinds = {result.bound for result in results}
    return {
        "method": results[0].method, "log_z": np.array([r.log_z for r in results]),
        "bound": kinds.pop() if len(kinds) == 1 else Bound.ESTIMATE,
        "visible": np.array([r.visible for r in results]), "hidden": np.array([r.hidden for r in results]),
        "pair_sum": sum(r.pairs for r in results).astype(batch.dtype), **_runs(results),
    }  # fmt: skip


def _decoded_one_by_one(batch: RBMBatch, task: Task, one: Ask) -> dict[str, Any]:
    results, n = [_quietly(one, machine) for machine in batch], batch.n_visible
    visible = np.array([r.assignment[:n] for r in results])
    if task is Task.MARGINAL_MAP:
        hidden: np.ndarray = np.array([m.hidden_probability(v[None])[0] for m, v in zip(batch, visible, strict=True)])
        values = -batch.free_energy(visible)
    else:
        hidden = np.array([r.assignment[n:] for r in results])
        values = np.array([r.log_score for r in results])
    return {"method": results[0].method, "visible": visible, "hidden": hidden, "log_value": values, **_runs(results)}


def _runs(results: list[Any]) -> dict[str, Any]:
    converged = [result.status.name in ("CONVERGED", "STOPPED") for result in results]
    return {"converged": np.array(converged), "n_iters": np.array([result.n_iters for result in results])}


def _quietly(one: Ask, machine: RBM) -> Any:
    """Ask about one machine; whether it converged is in the answer."""
    with quietly():
        return one(machine)


# -- options ----------------------------------------------------------------------------------------------------------
def _check(batch: RBMBatch, options: Any) -> None:
    for name in _REFUSED:
        if options.get(name) is not None:
            raise UnsupportedError(f"{name} is for single models; a batch of machines keeps no state between calls")
    if not len(batch):
        raise ModelError("the batch has no machines")


def check_query(batch: RBMBatch, query: Sequence[VariableRef]) -> None:
    """Raise unless a query about a batch is its visible units in order."""
    names = [f"v{i}" for i in range(batch.n_visible)]
    if list(query) not in (names, list(range(batch.n_visible))):
        raise UnsupportedError("marginal_map of a batch is of all its visible units, v0, v1, ...; ask about batch[k]")


def _option(options: Any, name: str, default: Any) -> Any:
    value = options.get(name)
    return default if value is None else value


def _is_auto(method: Method | str) -> bool:
    return isinstance(method, str) and method.strip() == "auto"
