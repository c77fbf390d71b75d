"""Templates: potentials from features, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from beliefs.model import features
from beliefs.model.features import DifferentiableTemplate, FactorType, LogLinearTemplate, Rows


def some_inputs(kind: str) -> tuple[Rows, ...]:
    rng = np.random.default_rng(0)
    unary, pairs = rng.standard_normal((4, 3)), rng.standard_normal((5, 2))
    unary[np.abs(unary) < 0.5] = 0.0
    if kind == "sparse":
        return Rows(4, sparse.csr_array(unary)), Rows(5, pairs), Rows(2)
    if kind == "made on the fly":
        return Rows(4, lambda: unary), Rows(5, lambda: pairs.astype(np.float32)), Rows(2)
    return Rows(4, unary), Rows(5, pairs), Rows(2)


def template() -> LogLinearTemplate:
    return LogLinearTemplate([FactorType("unary", 3, 3), FactorType("pair", 9, 2), FactorType("triple", 27)])


@pytest.mark.parametrize("kind", ["dense", "sparse", "made on the fly"])
def test_potentials_and_pullback_are_the_products(kind):
    inputs, model = some_inputs(kind), template()
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(model.n_weights)
    unary, pairs = (np.asarray(r.features().todense() if kind == "sparse" and r.n_factors == 4 else r.features())
                    for r in inputs[:2])  # fmt: skip
    f, g, t = (model.matrix(weights, k) for k in range(3))
    wanted = np.concatenate([(unary @ f.T).ravel(), (pairs @ g.T).ravel(), t[:, 0]])
    np.testing.assert_allclose(model.theta(weights, inputs), wanted, rtol=1e-14)
    grad = rng.standard_normal(wanted.size)
    out = np.ones(model.n_weights)
    model.add_pullback(weights, inputs, grad, out)
    direction = rng.standard_normal(model.n_weights)
    assert (out - 1) @ direction == pytest.approx(grad @ model.theta(direction, inputs))


def test_a_type_without_factors_has_no_cells():
    model = LogLinearTemplate([FactorType("unary", 2), FactorType("pair", 4)])
    inputs = (Rows(1, np.ones((1, 1))), Rows(0))
    assert model.theta(np.arange(6.0), inputs).tolist() == [0.0, 1.0]
    out = np.zeros(6)
    model.add_pullback(np.zeros(6), inputs, np.ones(2), out)
    assert out.tolist() == [1, 1, 0, 0, 0, 0]


def test_the_papers_parameter_counts():
    """Denoising F 2x2, G 4x2; horses F 2x100, G 4x42; backgrounds F 8x100, G 64x22."""
    for k, du, dv in ((2, 2, 2), (2, 100, 42), (8, 100, 22)):
        model = LogLinearTemplate([FactorType("unary", k, du), FactorType("pair", k * k, dv)])
        assert model.n_weights == k * du + k * k * dv


def test_a_curved_template_asks_the_users_functions():
    model = DifferentiableTemplate(2, lambda w, x: np.sin(w[0] * x) + w[1], lambda w, x, g: np.array(
        [g @ (np.cos(w[0] * x) * x), g.sum()]))  # fmt: skip
    x, w, g = np.arange(3.0), np.array([0.3, -1.0]), np.array([1.0, 2.0, -1.0])
    out = np.zeros(2)
    model.add_pullback(w, x, g, out)
    step = 1e-6
    for k in range(2):
        e = np.eye(2)[k] * step
        assert out[k] == pytest.approx(g @ (model.theta(w + e, x) - model.theta(w - e, x)) / (2 * step), rel=1e-8)


def test_the_old_name_of_a_template_stays_for_a_release() -> None:
    with pytest.warns(DeprecationWarning, match="CurvedTemplate is called DifferentiableTemplate now"):
        assert features.CurvedTemplate is DifferentiableTemplate
    with pytest.raises(AttributeError, match="has no attribute 'StraightTemplate'"):
        features.StraightTemplate  # noqa: B018
