"""The layer for PyTorch: values against enumeration, gradients against differences, batches against single rows."""

from __future__ import annotations

import numpy as np
import pytest

import beliefs as bl
from beliefs.learning.copies import beliefs_of_rows
from beliefs.learning.gradients import AtConvergence, Exact, Truncated

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
pytestmark = pytest.mark.long


def layer():
    import beliefs.torch

    return beliefs.torch


def tied_chain() -> bl.FactorGraph:
    return bl.FactorGraph.pairwise(np.zeros((4, 3)), [(0, 1), (1, 2), (2, 3)], np.zeros((3, 3)))


def mixed_loop() -> bl.FactorGraph:
    scopes = [((0, 1), (2, 3)), ((1, 2), (3, 2)), ((0, 2), (2, 2)), ((1,), (3,)), ((), ())]
    return bl.FactorGraph.from_tables([2, 3, 2, 2], [(scope, np.ones(shape)) for scope, shape in scopes])


GRAPHS = {"tied chain": tied_chain, "mixed loop": mixed_loop}


def potentials(graph, *shape, seed=0):
    theta = np.random.default_rng(seed).normal(size=(*shape, graph.layout.n_cells))
    return torch.tensor(theta, requires_grad=True)


@pytest.mark.parametrize("name", GRAPHS)
def test_exact_values_are_those_of_enumeration(name: str) -> None:
    graph = GRAPHS[name]()
    theta = potentials(graph, 2, 3)
    log_z = layer().log_partition(theta, graph.layout)
    found = layer().marginals(theta, graph.layout)
    assert log_z.shape == (2, 3) and found.mu.shape == theta.shape
    for at in np.ndindex(2, 3):
        truth = bl.infer(graph.with_theta(theta[at].detach().numpy()), "enumeration")
        assert log_z[at].item() == pytest.approx(truth.log_z, abs=1e-12)
        np.testing.assert_allclose(found.mu_var[at].detach().numpy(), truth.mu_var, atol=1e-12)
        np.testing.assert_allclose(found.mu[at].detach().numpy(), truth.mu, atol=1e-12)
    one = layer().log_partition(theta[0, 1], graph)  # a graph says its layout, a vector is one row
    assert one.shape == () and one.item() == pytest.approx(log_z[0, 1].item(), abs=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_log_partitions_have_two_derivatives(name: str) -> None:
    graph = GRAPHS[name]()
    theta = potentials(graph, 2)

    def log_z(t):
        return layer().log_partition(t, graph.layout, threads=1)

    assert torch.autograd.gradcheck(log_z, (theta,))
    assert torch.autograd.gradgradcheck(log_z, (theta,))


@pytest.mark.parametrize(
    ("method", "n_sweeps"), [("exact", None), ("bp", 2), ("trw", 2), ("mean_field", 2), ("trw", None)]
)
@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_have_a_gradient(name: str, method: str, n_sweeps: int | None) -> None:
    graph = GRAPHS[name]()
    theta = potentials(graph, 2, seed=1)
    assert torch.autograd.gradcheck(
        lambda t: tuple(layer().marginals(t, graph.layout, method, n_sweeps=n_sweeps, threads=1)), (theta,)
    )


def test_surrogate_values_have_their_beliefs_as_gradient() -> None:
    graph = mixed_loop()
    theta = potentials(graph, 2)
    assert torch.autograd.gradcheck(lambda t: layer().log_partition(t, graph, "trw", tol=1e-11), (theta,), atol=1e-5)
    (grad,) = torch.autograd.grad(layer().log_partition(theta, graph, "trw").sum(), theta, create_graph=True)
    with pytest.raises(bl.UnsupportedError, match="no second derivative"):
        grad.sum().backward()


@pytest.mark.parametrize("method", [Exact(), Truncated(method=bl.TRW(), n_sweeps=3)], ids=lambda way: way.name)
def test_a_batch_is_its_rows_on_any_number_of_threads(method) -> None:
    graph = bl.datasets.make_ising_grid(3, seed=0) if method.name == "truncated" else tied_chain()
    theta = potentials(graph, 40)
    bar = torch.tensor(np.random.default_rng(2).normal(size=(40, graph.layout.n_states)))

    def run(rows, bars, threads):
        found = layer().marginals(rows, graph, method, threads=threads)
        (grad,) = torch.autograd.grad(found.mu_var, rows, bars)
        return [part.detach().numpy() for part in (found.mu_var, found.mu, grad)]

    together, on_threads = run(theta, bar, 1), run(theta, bar, 2)
    for one, other in zip(together, on_threads):
        assert one.tobytes() == other.tobytes()
    for k in (0, 17, 39):
        for one, other in zip(together, run(theta[k], bar[k], 1)):
            np.testing.assert_allclose(one[k], other, rtol=1e-12, atol=1e-14)


def test_double_tensors_are_not_copied(monkeypatch) -> None:
    graph, seen = mixed_loop(), []

    def spy(g, theta, *rest):
        seen.append(theta)
        return beliefs_of_rows(g, theta, *rest)

    monkeypatch.setattr("beliefs.torch.beliefs_of_rows", spy)
    theta = potentials(graph, 3)
    layer().log_partition(theta, graph)
    assert np.shares_memory(seen[0], theta.detach().numpy())
    assert np.shares_memory(graph.lent(seen[0][0]).theta, seen[0])
    single = layer().log_partition(theta.detach().float().requires_grad_(), graph)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.detach(), layer().log_partition(theta, graph).detach(), rtol=1e-5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value = layer().log_partition(theta, graph).sum()
        with torch.no_grad():
            theta.add_(1.0)
        value.backward()


def test_a_batch_may_be_empty() -> None:
    graph = tied_chain()
    theta = potentials(graph, 0)
    found = layer().marginals(theta, graph)
    assert found.mu_var.shape == (0, 12) and found.mu.shape == (0, 21)
    for method in ("exact", "trw"):
        assert layer().log_partition(theta, graph, method).shape == (0,)
    (found.mu_var.sum() + layer().log_partition(theta, graph).sum()).backward()
    assert theta.grad.shape == (0, 21)


def test_evidence_and_zeros_are_respected() -> None:
    graph = tied_chain()
    seen = graph.condition({0: 1})
    theta = potentials(graph, 2)
    assert seen.parent_cells is not None
    given = layer().marginals(theta[:, seen.parent_cells.copy()], seen).mu_var.detach().numpy()
    for k in range(2):
        truth = bl.infer(graph.with_theta(theta[k].detach().numpy()).condition({0: 1}))
        np.testing.assert_allclose(given[k], truth.mu_var, atol=1e-12)
    with torch.no_grad():
        theta[1, :2] = -np.inf
    log_z = layer().log_partition(theta, graph)
    log_z.sum().backward()
    assert torch.isfinite(log_z).all() and (theta.grad[1, :2] == 0).all() and torch.isfinite(theta.grad).all()
    with torch.no_grad():
        theta[1, :3] = -np.inf
    with pytest.raises(bl.ZeroProbabilityError, match="row 1 of theta"):
        layer().log_partition(theta, graph)


def test_the_likelihood_is_log_partition_less_score() -> None:
    graph = mixed_loop()
    theta, labels = potentials(graph, 2), torch.tensor([[1, 2, 0, 1], [0, 1, 1, 0]])
    score = layer().log_score(theta, graph, labels)
    for k in range(2):
        assert score[k].item() == pytest.approx(
            graph.with_theta(theta[k].detach().numpy()).log_score(labels[k].numpy()), abs=1e-12
        )
    assert torch.autograd.gradcheck(lambda t: layer().log_score(t, graph, labels), (theta,))


def test_what_cannot_be_is_refused_in_one_line() -> None:
    graph = tied_chain()
    theta = potentials(graph, 2)
    with pytest.raises(bl.ModelError, match="21 log potentials"):
        layer().log_partition(theta[:, :5], graph)
    with pytest.raises(bl.ModelError, match="must be a tensor"):
        layer().log_partition(theta.detach().numpy(), graph)
    with pytest.raises(bl.ModelError, match="give the conditioned graph itself"):
        layer().log_partition(theta, graph.condition({0: 1}).layout)
    with pytest.raises(bl.ModelError, match="labels of variable 'x0' must be 0..2"):
        layer().log_score(theta, graph, torch.full((2, 4), 3))
    found = layer().marginals(theta, graph)
    (grad,) = torch.autograd.grad(found.mu_var.square().sum(), theta, create_graph=True)
    with pytest.raises(bl.UnsupportedError, match="differentiated once"):
        grad.sum().backward()


def test_tensors_options_and_labels_of_other_kinds() -> None:
    graph = tied_chain()
    theta, n = potentials(graph, 2), graph.layout.n_cells
    for tensor, said in (
        (torch.zeros(2, n, dtype=torch.int64), "theta must be floating point, found torch.int64: use .double"),
        (torch.zeros(2, n, device="meta"), "theta must be on the CPU, found meta"),
        (torch.zeros(2, n).to_sparse(), "theta must be a plain tensor, .*found torch.sparse_coo"),
    ):
        with pytest.raises(bl.ModelError, match=said):
            layer().log_partition(tensor, graph)
    for tol in (None, -1, "x"):
        for method in ("exact", "trw"):
            with pytest.raises(bl.ModelError, match="tol must be a number of at least 0"):
                layer().log_partition(theta, graph, method, tol=tol)
    with pytest.raises(bl.ModelError, match=r"Truncated\(...\) says how far inference runs, not n_sweeps=3"):
        layer().marginals(theta, graph, Truncated(method=bl.TRW(), n_sweeps=5), n_sweeps=3)
    with pytest.raises(bl.UnsupportedError, match="log_partition would differentiate its noise"):
        layer().log_partition(theta, graph, "gibbs")
    with pytest.raises(bl.ModelError, match="here a method must be named, and auto is none"):
        layer().log_partition(theta, graph, "auto")
    for labels in (torch.zeros(8, dtype=torch.int64), torch.zeros(4, 2, dtype=torch.int64), [[0.5] * 4] * 2, None, "x"):
        with pytest.raises(bl.ModelError, match=r"labels must be integers of shape \(2, 4\), found"):
            layer().log_score(theta, graph, labels)
    zero = torch.zeros(2, n, dtype=torch.float64)
    zero[1] = -np.inf
    with pytest.raises(bl.ZeroProbabilityError, match="row 1 of theta"):
        layer().log_partition(zero, graph, "trw")


def test_a_way_back_that_does_not_settle_is_said() -> None:
    graph = bl.datasets.make_ising_grid(4, seed=0)
    theta = potentials(graph, 2)
    found = layer().marginals(theta, graph, AtConvergence(method=bl.TRW(), max_iters=6, tol=0.1, back_tol=1e-14))
    with pytest.warns(bl.ConvergenceWarning, match="2 of 2 rows have not converged on the way back"):
        found.mu_var.square().sum().backward()


def test_sweeps_that_would_be_ignored_are_refused() -> None:
    graph = mixed_loop()
    theta = potentials(graph, 2)
    for method, end in (("exact", "exact"), ("junction_tree", "exact"), ("gbp", "those at its end")):
        with pytest.raises(bl.ModelError, match=f"marginals by {method} are {end} and take no n_sweeps, found 3"):
            layer().marginals(theta, graph, method, n_sweeps=3)
    with pytest.raises(bl.ModelError, match="after n_sweeps=3 have no tolerance, found tol=0.1"):
        layer().marginals(theta, graph, "trw", n_sweeps=3, tol=0.1)
    with pytest.raises(bl.ModelError, match="tol must be None or a number of at least 0"):
        layer().marginals(theta, graph, tol=-1)


@pytest.mark.parametrize("method", ["exact", "trw", "mean_field"])
def test_the_row_without_numbers_is_named(method: str) -> None:
    graph = tied_chain()
    theta = potentials(graph, 40).detach()
    theta[17, 3] = np.nan
    with pytest.raises(bl.ModelError, match="row 17 of theta: .* found nan"):
        layer().log_partition(theta, graph, method)
    with pytest.raises(bl.ModelError, match="row 17 of theta: .* found nan"):
        layer().marginals(theta, graph, method)


def test_labels_agree_with_the_evidence_and_are_of_any_integer_type() -> None:
    graph = tied_chain().condition({0: 1})
    theta = potentials(graph, 2)
    with pytest.raises(bl.ModelError, match="labels of variable 'x0' must be 1, as it was observed"):
        layer().log_score(theta, graph, torch.tensor([[1, 2, 0, 1], [0, 2, 0, 1]]))
    labels = torch.tensor([[1, 2, 0, 1], [1, 0, 0, 2]])
    scores = [layer().log_score(theta, graph, labels.to(kind)) for kind in (torch.int64, torch.uint8, torch.uint64)]
    assert all(torch.equal(score, scores[0]) for score in scores)


def test_views_that_negate_and_networks_of_tables_are_taken() -> None:
    graph = tied_chain()
    theta = potentials(graph, 2).detach()
    negated = torch.complex(torch.zeros_like(theta), -theta).conj().imag  # the sign is a flag of the view
    assert torch.equal(layer().log_partition(negated, graph), layer().log_partition(theta, graph))
    asia = bl.datasets.load_bn("asia")
    own = torch.tensor(asia.to_factor_graph().theta)
    assert layer().log_partition(own, asia).item() == pytest.approx(0.0, abs=1e-12)
