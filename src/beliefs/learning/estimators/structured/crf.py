"""What all conditional random fields share: a template, a loss through inference, and answers about new inputs.

A kind of graph (chain, grid, any) says how one input is parsed (:meth:`CRF._read`); the options of a fit, labels and
files are those of every :class:`~beliefs.learning.estimators.base.Estimator`. A fitted model answers with the inference
it was fitted through: the same method, sweeps and order, because a model learned through approximate inference is only
as good as the inference it was learned for ([domke2013]).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from beliefs.elsewhere import FIELDS
from beliefs.errors import ModelError, UnsupportedError
from beliefs.inference.base import Method
from beliefs.inference.doors import sample
from beliefs.learning.data import LabelledData
from beliefs.learning.estimators.base import MOST_STATES, Estimator
from beliefs.learning.estimators.examples import (
    Example,
    Examples,
    PartStream,
    Stream,
    array_bytes,
    checked_costs,
    inputs_of,
    largest,
)
from beliefs.learning.estimators.fitting import FitOptions
from beliefs.learning.estimators.inputs import FactorSpec, Layouts, ParsedInput, check_kinds, check_tables
from beliefs.learning.estimators.labels import Classes, Tally, label_array
from beliefs.learning.estimators.parts import parts_of
from beliefs.learning.estimators.storage import Learned
from beliefs.learning.estimators.structured.prediction import (
    all_marginals,
    expected_states,
    likeliest_states,
    map_states,
    method_of,
)
from beliefs.learning.estimators.structured.states import (
    Outputs,
    StateSpaces,
    check_substates,
    check_unlabelled,
    substates_of,
)
from beliefs.learning.estimators.structured.table import weight_table
from beliefs.learning.gradients.base import Gradient
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.learning.joined import Joiner
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.inference import InferenceSpec
from beliefs.learning.losses.registry import loss_named, make_loss
from beliefs.model.features import LogLinearTemplate, Template
from beliefs.model.graph import FactorGraph
from beliefs.options import MANY, check_integer, check_option, is_number, is_word
from beliefs.typing import Bools, Floats

__all__ = ["DECODERS", "CRF"]

T = TypeVar("T")
DECODERS = ("mpm", "map", "mean")


@dataclass(kw_only=True, eq=False, repr=False)
class CRF(Estimator[Loss]):
    r"""Base of the fields: :math:`p(y \mid x) \propto \exp \theta(x; w) \cdot f(y)`, with w fitted to examples.

    For the options of the fit see :class:`~beliefs.learning.estimators.base.Estimator`.

    Parameters
    ----------
    loss : str
        What is minimised, such as ``"clique_logistic"`` or ``"smoothed_classification(alpha=15)"``; see
        :mod:`beliefs.learning.losses`.
    inference : str or Method
        The method through which is fitted and predicted, such as ``"trw"`` or ``"mean_field"``.
    n_sweeps : int, optional
        Sweeps of inference in losses on marginals and truncated losses; None: until convergence.
    gradient : str
        How losses on marginals are differentiated; ``"auto"`` goes back through the sweeps, or chooses what suits
        converged or exact inference. See :mod:`beliefs.learning.gradients`.
    decode : {"mpm", "map", "mean"}
        What :meth:`predict` returns: the likeliest state of each variable, the likeliest joint state, or the
        expected state.
    inference_tol : float, optional
        Residual of inference where it is run to convergence; None: the method's own, and 1e-5 for predictions of
        models that were fitted without inference.
    substates : int or sequence of int, optional
        Hidden states of each label: one number for all, or one a label. Weights are then those of the substates.
    n_hidden_states : int, optional
        States of vertices that an input declares hidden (graphs only); None: as many as labels.

    Attributes
    ----------
    kinds_ : tuple of FactorSpec
        The types of factors, each with its number of variables and of features.
    n_features_in_ : int
        Features of a variable, the constant included.
    template_ : Template
    loss_ : Loss
    """

    loss: Any = "clique_logistic"
    inference: Any = "trw"
    n_sweeps: int | None = 10
    gradient: Any = "auto"
    decode: str = "mpm"
    inference_tol: float | None = None
    substates: Any = None
    n_hidden_states: int | None = None

    # -- what a kind of graph says ------------------------------------------------------------------------------
    @abstractmethod
    def _read(self, x: Any, name: str) -> ParsedInput:
        """Parse one input; errors begin with ``name``. Must not need ``n_states_``."""

    def _prepare(self, examples: Examples) -> None:
        """Learn from all examples what parsing needs (vocabularies, thresholds), before any is parsed."""

    def _template(self, kinds: tuple[FactorSpec, ...]) -> Template:
        """Return the template for these types of factors, and the states that have weights."""
        return LogLinearTemplate(self._spaces.types(kinds))

    _elsewhere: ClassVar[Mapping[str, str]] = FIELDS
    _decoders: ClassVar[tuple[str, ...]] = DECODERS
    _may_declare_hidden: ClassVar[bool] = False  # whether inputs say which vertices are hidden

    def _state_spaces(self) -> StateSpaces:
        """Return which states the variables have, when the labels are known."""
        return StateSpaces(self.n_states_, substates=substates_of(self.substates, self.n_states_))

    # -- fitting ------------------------------------------------------------------------------------------------
    def _data(self, X: Any, Y: Any, sample_weight: ArrayLike | None) -> list[Instance] | Stream:
        if isinstance(X, Examples):
            examples = X
        else:
            parts = parts_of(X, Y, type(self))
            examples = Examples(X, Y, sample_weight) if parts is None else Examples(parts, None, sample_weight)
        self._prepare(examples)
        return self._instances(examples)

    def _loss(self) -> Loss:
        """Return the loss for the template."""
        return self._made_loss(self.loss)

    def _stage(self, text: str) -> Loss:
        """Return the loss of a stage before the last."""
        return self._made_loss(text)

    def _made_loss(self, text: Any) -> Loss:
        spec, named = self._inference_spec, loss_named(text)[0]
        if self._spaces.latent and not named.hidden:
            raise ModelError(
                f"{named.name} is not defined with hidden variables, which substates and hidden vertices are; try "
                "surrogate_em, likelihood, or a marginal loss such as univariate_logistic"
            )
        return make_loss(
            text, template=self.template_, method=spec.method, n_sweeps=spec.n_sweeps, gradient=spec.gradient,
            tol=spec.tol, l2=self._ridge, threads=self._threads,
        )  # fmt: skip

    def _fitted(self, X: Any, Y: Any, sample_weight: ArrayLike | None) -> Self:
        with self._list_of_inputs(X):
            return super()._fitted(X, Y, sample_weight)

    def _instances(self, examples: Examples) -> list[Instance] | Stream:
        """Check all examples, settle states, classes and template, and return what a loss takes."""
        tally, read, kinds, sizes, counted = Tally(self.n_states), [], None, [], 0.0
        for example in examples:
            parsed = self._read(example.x, example.name)
            kinds = kinds or parsed.kinds
            self._check_kinds(parsed, kinds, example.name, "instance 0")
            labels = label_array(example.y, parsed.shape, example.name)
            check_unlabelled(labels, parsed.hidden, example.name)
            known = tally.add(labels, example.name)
            if examples.lazy:
                sizes.append(array_bytes((parsed.inputs, labels)))
                counted += example.weight * known
            else:
                read.append((example, parsed, labels))
        assert kinds is not None
        classes = tally.classes()
        self.classes_, self.n_states_, self.kinds_ = classes.names, len(classes.names), kinds
        self._spaces = self._state_spaces()
        check_tables(kinds, self._spaces.most)
        self.template_ = self._spaces.with_ties(self._template(kinds))
        self.class_counts_ = np.array([tally.counts.get(k, 0) for k in classes.names.tolist()], np.int64)
        weights, self._layouts = classes.weights(self.class_weight, tally.counts), Layouts(self._spaces.layout)
        if examples.lazy:
            hidden = tally.n_hidden > 0 or self._spaces.substates is not None
            kind = Stream if examples.parts is None else PartStream
            return kind(
                examples, lambda example: self._example(example, classes, weights), len(sizes), hidden,
                None if self._spaces.latent else counted, largest(sizes, examples.sizes),
            )  # fmt: skip
        return [self._instance(*entry, classes, weights) for entry in read]

    def _example(self, example: Example, classes: Classes, weights: Floats | None) -> Instance:
        parsed = self._read(example.x, example.name)
        self._check_kinds(parsed, self.kinds_, example.name, "instance 0")
        labels = label_array(example.y, parsed.shape, example.name)
        return self._instance(example, parsed, labels, classes, weights)

    def _instance(
        self, example: Example, parsed: ParsedInput, labels: np.ndarray, classes: Classes, weights: Floats | None
    ) -> Instance:
        codes = classes.codes(labels, example.name)
        spaces, each = self._spaces, None
        if weights is not None:
            each = spaces.of_vertices(np.where(codes == HIDDEN, 0.0, weights[codes]), parsed)
        layout, costs = self._layouts.of(parsed), None
        if example.costs is not None:
            costs = spaces.of_states(checked_costs(example, (*parsed.shape, self.n_states_)), parsed, layout)
        return Instance(
            layout, spaces.inputs(parsed), spaces.labels(codes, parsed), example.weight, each, example.name, costs
        )

    def _fit_options(self, data: LabelledData) -> FitOptions:
        options = super()._fit_options(data)
        latent = self._spaces.own or self._spaces.substates is not None  # from zeros their states stay alike for ever
        starts_at_random = latent and isinstance(self.init, str) and self.init == "auto"
        return replace(options, init="random") if starts_at_random else options

    def _touching_hidden(self, data: Iterable[Instance]) -> Bools:
        return self._spaces.touching_hidden(self.kinds_, self.template_, data)

    def _check_options(self) -> None:
        """Raise for options out of range, before any work."""
        super()._check_options()
        check_integer("n_sweeps", self.n_sweeps, 0, MANY, none=True)
        tol = self.inference_tol
        ok = tol is None or (is_number(tol) and 0 <= tol < np.inf)
        check_option(ok, "inference_tol", "a number of at least 0", tol)
        check_option(
            isinstance(self.loss, str) or (isinstance(self.loss, type) and issubclass(self.loss, Loss)),
            "loss", "the text of a loss", self.loss,
        )  # fmt: skip
        check_option(isinstance(self.gradient, str | Gradient), "gradient", "a Gradient or its text", self.gradient)
        self._check_decode(self.decode)
        check_substates(self.substates)
        check_integer("n_hidden_states", self.n_hidden_states, 2, MOST_STATES, none=True)
        if self.n_hidden_states is not None and not self._may_declare_hidden:
            raise ModelError(
                f"n_hidden_states is of vertices that an input declares hidden, and those of {type(self).__name__} "
                "declare none; give labels hidden states by substates"
            )

    def _check_decode(self, how: Any) -> None:
        check_option(is_word(how, self._decoders), "decode", f"one of {', '.join(self._decoders)}", how)

    # -- answers ------------------------------------------------------------------------------------------------
    def model(self, x: Any) -> FactorGraph:
        """Return the factor graph of one input, with the fitted potentials."""
        self._check_fitted()
        return self._graph(self._asked(("the input", x))[0])

    def predict(self, X: Any, decode: str | None = None) -> list[np.ndarray]:
        """Return the labels of each input, in the shape of its variables; see ``decode`` of the class."""
        how = self.decode if decode is None else decode
        self._check_decode(how)
        self._check_fitted()
        with self._list_of_inputs(X):
            return [self._shown(states, outputs) for states, outputs in self._decoded(X, how)]

    def _decoded(self, X: Any, how: str) -> list[tuple[np.ndarray, Outputs]]:
        """Return the states of each input's vertices, flat, and their shape."""
        if how == "map":
            return self._each(X, lambda graph, outputs: (map_states(self._method, graph)[: outputs.n_vars], outputs))
        by = likeliest_states if how == "mpm" else expected_states
        return [(by(self._spaces.label_marginals(mu, outputs)), outputs) for mu, outputs in self._all_marginals(X)]

    def predict_latent(self, X: Any) -> list[np.ndarray]:
        """Return the best hidden states of each input given its predicted labels, in the shape of its variables.

        Of a vertex that is declared hidden its state, with ``substates`` the number of the substate within its label,
        and -1 where nothing is hidden. Joint states of all hidden variables, by the inference of the fit.
        """
        self._check_fitted()
        if not self._spaces.latent:
            raise ModelError("the model has no hidden variables: neither substates nor vertices declared hidden")
        entries = list(inputs_of(X))
        labels = self._decoded([x for _, x in entries], "mpm" if self.decode == "mean" else self.decode)

        def best(number: int) -> np.ndarray:
            instance, outputs = self._asked(entries[number])
            seen = {int(v): int(labels[number][0][v]) for v in outputs.visible}
            states = map_states(self._method, self._graph(instance).condition(seen))
            return self._spaces.latent_states(states, outputs)

        return self._executor.map(best, range(len(entries)))

    def predict_marginals(self, X: Any) -> list[Floats]:
        """Return the marginals of each input's labels, in the shape of the variables and a last axis of states.

        Those of vertices that are declared hidden are 0.
        """
        self._check_fitted()
        with self._list_of_inputs(X):
            return [
                np.minimum(self._spaces.label_marginals(mu, outputs), 1.0).reshape(*outputs.shape, self.n_states_)
                for mu, outputs in self._all_marginals(X)
            ]

    def predict_proba(self, X: Any) -> list[Floats]:
        """Return :meth:`predict_marginals`, by the name that scikit-learn's scorers ask for."""
        return self.predict_marginals(X)

    def sample(self, X: Any, n: int = 1, method: Any = "auto") -> list[np.ndarray]:
        """Draw ``n`` joint labellings of each input, ``(n, *shape)``; exactly where that is affordable."""

        def drawn(graph: FactorGraph, outputs: Outputs) -> np.ndarray:
            found = sample(graph, n, method, seed=self.seed, threads=1).samples[:, : outputs.n_vars]
            return np.stack([self._shown(states, outputs) for states in found])

        return self._each(X, drawn)

    def _compared(self, X: Any) -> list[np.ndarray]:
        return self.predict(X, "mpm" if self.decode == "mean" else self.decode)

    # -- the model itself ---------------------------------------------------------------------------------------
    def describe(self, feature_names: Sequence[str] | None = None, limit: int = 30) -> str:
        """Return the learned weights as a table: features by states, and states by states for edges."""
        self._check_fitted()
        if not isinstance(self.template_, LogLinearTemplate):
            raise UnsupportedError("only log-linear models have a table of weights; read weights_")
        check_integer("limit", limit, 1)
        names = self._feature_names(feature_names)
        axes = self._spaces.axes(self.kinds_, [str(k) for k in self.classes_])
        return weight_table(self.template_, self.weights_, axes, names, limit)

    def _feature_names(self, given: Sequence[str] | None) -> Sequence[str] | None:
        """Return the names of features as tables take them: without the constant, which has a name already."""
        if given is None and self._n_constants:
            return [f"feature {k}" for k in range(self.kinds_[0].width - 1)]
        return given

    def _learned(self) -> Learned:
        return super()._learned()._replace(kinds=self.kinds_)

    def _restore_model(self, learned: Learned) -> None:
        self.kinds_ = learned.kinds
        self._spaces = self._state_spaces()
        self.template_ = self._spaces.with_ties(self._template(self.kinds_))
        self._layouts = Layouts(self._spaces.layout)

    @property
    def _n_weights(self) -> int:
        return self.template_.n_weights

    # -- parts of answers ---------------------------------------------------------------------------------------
    def _marginals(self, graph: FactorGraph) -> Floats:
        """Return ``mu_var (n_states,)`` by the inference of the fit."""
        return self.loss_.marginals(graph, self._inference_spec)

    def _graph(self, instance: Instance) -> FactorGraph:
        return FactorGraph.build(instance.layout, self.template_.theta(self.weights_, instance.inputs))

    def _check_kinds(self, parsed: ParsedInput, kinds: tuple[FactorSpec, ...], name: str, model: str) -> None:
        if parsed.kinds != kinds:
            check_kinds(parsed.kinds, kinds, name, model, self._n_constants)

    @contextmanager
    def _list_of_inputs(self, X: Any) -> Iterator[None]:
        """Say so where what was given as a list of inputs is one input."""
        try:
            yield
        except ModelError:
            first = X[0] if isinstance(X, list) and X else None
            whole = isinstance(first, np.ndarray) and first.ndim > 1
            if not whole and not self._is_input(lambda: X[0]) and self._is_input(lambda: X):
                raise ModelError("X is a single input; pass a list of inputs, [X]") from None
            raise

    def _is_input(self, given: Callable[[], Any]) -> bool:
        """Whether something could be an input, whatever its features are called."""
        try:
            self._read(given(), "X")
        except Exception:
            return False
        return True

    def _asked(self, entry: tuple[str, Any]) -> tuple[Instance, Outputs]:
        """Return one input, with its name, as an instance whose labels say nothing, and the shape of its answers."""
        name, x = entry
        parsed = self._read(x, name)
        self._check_kinds(parsed, self.kinds_, name, "the fitted model")
        layout = self._layouts.of(parsed)
        outputs = Outputs(parsed.shape, parsed.hidden)
        nothing = self._spaces.labels(outputs.masked(np.zeros(parsed.n_vars, np.int64)).ravel(), parsed)
        return Instance(layout, self._spaces.inputs(parsed), nothing, name=name), outputs

    def _shown(self, states: np.ndarray, outputs: Outputs) -> np.ndarray:
        """Return states of vertices as labels in their shape; declared hidden ones are -1, among words None."""
        named = self._named(states)
        if outputs.hidden is None:
            return named.reshape(outputs.shape)
        return outputs.masked(named.astype(object), None) if named.dtype.kind == "U" else outputs.masked(named)

    def _each(self, X: Any, answer: Callable[[FactorGraph, Outputs], T]) -> list[T]:
        """Answer for each input, several side by side if asked; the answers do not depend on how many."""
        self._check_fitted()

        def one(entry: tuple[str, Any]) -> T:
            instance, outputs = self._asked(entry)
            return answer(self._graph(instance), outputs)

        return self._executor.map(one, inputs_of(X))

    def _all_marginals(self, X: Any) -> list[tuple[Floats, Outputs]]:
        """Return ``mu_var (n_states,)`` and the shape of its variables for each input; small ones are joined."""
        self._check_fitted()

        def solve(instance: Instance) -> Floats:
            return self._marginals(self._graph(instance))

        joiner = Joiner.of(self.loss_) if self.loss_.predicts_jointly else None
        return all_marginals(solve, self._asked, inputs_of(X), joiner, self._executor)

    @property
    def n_features_in_(self) -> int:
        """Features of a variable, the constant included."""
        self._check_fitted()
        return self.kinds_[0].width

    @property
    def _n_constants(self) -> int:
        """How many features of a vertex are not those of the input: 1 where a constant is put before them."""
        return 0

    @property
    def _ridge(self) -> float:
        return self.l2

    @property
    def _method(self) -> Method:
        return method_of(self.inference)

    @property
    def _inference_spec(self) -> InferenceSpec:
        return InferenceSpec(self._method, self.n_sweeps, self.gradient, self.inference_tol)
