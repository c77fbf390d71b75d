"""Kernels that may be interpreted give the same bytes as when they are compiled, so nobody can tell which was done."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import beliefs as bl
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.io import bif, fg, uai, wcsp
from beliefs.kernels._jit import Kernel, Operation, Twofold, kernels
from families import evidence, family
from twofold import made_both_ways

METHODS = [
    "junction_tree",
    "elimination",
    "wmb(ibound=2)",
    "mini_bucket(ibound=2)",
    "gdd",
    "bp",
    "gibbs",
    "trw(rho=sampled)",
]
FAMILIES = ["grid", "higher_order", "hard_zeros", "huge_range", "isolated_variables", "no_factors"]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_question(name: str) -> None:
    with made_both_ways() as calls, warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        for graph in (family(name), family(name).condition(evidence(name, 1))):
            for method in METHODS:
                bl.infer(graph, method, max_iters=3)
            bl.maximize(graph)
            bl.maximize(graph, "local_search", max_iters=3)
            bl.marginal_map(graph, [0])
            bl.sample(graph, 3)
    assert len(calls) > 20


@pytest.mark.parametrize("name", ["asia", "alarm", "child", "hailfinder"])
def test_bundled_networks(name: str) -> None:
    with made_both_ways() as calls:
        network = bl.datasets.load_bn(name)
        bl.infer(network)
        bl.infer(network.condition({0: 0, 3: 1}))
        bl.maximize(network)
        network.sample(3, seed=0)
    assert {"bif.bif_table", "linear.distribute_linear", "decode.decode_maximum"} <= calls.keys()


def test_files() -> None:
    network = bl.datasets.load_bn("asia")
    graph = network.to_factor_graph()
    with made_both_ways() as calls:
        for text in (uai.dumps(graph), "MARKOV 1 2 1 1 0 2 1e-320 12345678901234567891234.5e-7", "MARKOV\n1 300\n0\n"):
            uai.loads(text)
        uai.loads_evidence("1 0 1")
        bif.loads(bif.dumps(network).replace("0.01", "1.0000000000000000208166817117216851e-2"))
        fg.loads(fg.dumps(graph))
        wcsp.loads(wcsp.dumps(graph))
    assert {"tokens.read_numbers", "tokens.read_integers", "tokens.read_scopes", "bif.bif_tokens"} <= calls.keys()


@pytest.mark.parametrize("size", [5, 12])
def test_plans_of_grids(size: int) -> None:
    grid = bl.datasets.make_ising_grid(size, seed=0)
    with made_both_ways() as calls, warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        JunctionTree().planned(bl.inference.base.Problem(grid))
        for method in METHODS[2:]:
            bl.infer(grid, method, max_iters=1)
        bl.maximize(grid, "local_search", max_iters=2)
    assert {"search.search_keys", "partition.eliminate_mini_buckets"} <= calls.keys()


def test_fits() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 3, 2)) for _ in range(2)]
    Y = [(x[..., 0] > 0).astype(int) for x in X]
    with made_both_ways() as calls, warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.ConvergenceWarning)
        for loss in ("univariate_logistic", "univariate_quadratic", "smoothed_classification"):
            bl.GridCRF(loss=loss, max_iters=2).fit(X, Y)
    assert {
        "messages.add_unary",
        "marginal.logistic_loss",
        "marginal.quadratic_loss",
    } <= calls.keys()


def test_both_ways_are_compared() -> None:
    def broken(x: np.ndarray) -> float:
        return x.sum() if x.flags.writeable else 0.0

    kernel = Twofold(broken, fastmath=False)
    kernel._dispatcher = lambda x: float(x.sum()) + 1.0
    with made_both_ways(), pytest.raises(AssertionError, match="broken"):
        kernel(np.ones(3))


def test_they_call_nothing_that_only_the_compiler_can_do() -> None:
    for kernel in (kernel for kernel in kernels() if isinstance(kernel, Twofold)):
        for name in kernel.py_func.__code__.co_names:
            called = kernel.py_func.__globals__.get(name)
            assert not isinstance(called, Operation), (kernel, name)
            assert not isinstance(called, Kernel) or isinstance(called, Twofold), (kernel, name)
