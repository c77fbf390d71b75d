r"""Conditional random fields on linear chains: sequences of tokens, each with a label ([lafferty2001]).

.. math:: p(y \mid x) \propto \exp \Bigl( \sum_t \sum_{a \in x_t} v_{ta} W_{a y_t} + \sum_t A_{y_t y_{t+1}} \Bigr)

Fitted by exact likelihood unless another loss is asked for, and through exact inference unless another is asked for.
Posteriors are then found by one pass forward and one backward over the union of all sequences; the best labelling
always by the algorithm of Viterbi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from beliefs.errors import ModelError
from beliefs.learning.chains.attributes import Vocabulary, are_attributes
from beliefs.learning.chains.likelihood import ChainLikelihood
from beliefs.learning.chains.scores import state_scores
from beliefs.learning.chains.table import chain_table
from beliefs.learning.chains.template import ChainTemplate, StatePairs, seen_pairs
from beliefs.learning.chains.tokens import DenseTokens, SparseTokens, Tokens, gathered, joined
from beliefs.learning.chains.union import ChainUnion, rows_for
from beliefs.learning.estimators.base import DataForm
from beliefs.learning.estimators.examples import Examples, Stream, inputs_of
from beliefs.learning.estimators.inputs import FactorSpec, ParsedInput, checked_features
from beliefs.learning.estimators.labels import Classes, label_array
from beliefs.learning.estimators.structured.crf import CRF
from beliefs.learning.estimators.structured.prediction import expected_states, likeliest_states
from beliefs.learning.estimators.structured.states import Outputs, WithConstants
from beliefs.learning.instances import HIDDEN, Instance
from beliefs.learning.losses.base import Loss
from beliefs.learning.losses.likelihood import Likelihood
from beliefs.learning.losses.registry import loss_named
from beliefs.model.features import Rows, Template
from beliefs.options import MANY, check_integer
from beliefs.typing import Bools, Floats, Ints

__all__ = ["ChainCRF"]

_KINDS = (
    FactorSpec("transitions", 2, 1, True), FactorSpec("first token", 1, 1, True), FactorSpec("last token", 1, 1, True),
)  # fmt: skip
_MOST_WIDTHS = 16  # of features, for which the types of factors are kept
_WINDOW = 100_000  # tokens answered for at a time
_LIKELIHOODS = ("likelihood", "surrogate_likelihood", "surrogate_em")  # one and the same where inference is exact
_FORMS = {"dense": "arrays (T, D)", "sparse": "scipy.sparse rows (T, D)", "names": "lists of attributes or dicts"}


@dataclass(kw_only=True, eq=False, repr=False)
class ChainCRF(CRF):
    """A conditional random field on sequences; for the other options see :class:`CRF`.

    An input is one of

    =================  ========================================================================================
    an array           ``(T, D)`` features of T tokens
    ``scipy.sparse``   ``(T, D)`` rows
    a list of tokens   each a list of words (attributes of value 1) or a dict: ``{"w": "dog"}`` is the attribute
                       ``w:dog``, ``{"length": 3}`` is ``length`` with value 3; see
                       :mod:`beliefs.learning.chains.attributes`
    =================  ========================================================================================

    all of the same kind. Labels are ``(T,)`` integers, -1 where hidden, or words, None where hidden.

    Parameters
    ----------
    all_pairs : bool
        Whether every attribute has a weight for every label, or only for labels it was seen with in training.
        Arrays that are not sparse always have all weights.
    all_transitions : bool
        Whether all pairs of labels have a weight, or only those that were seen.
    boundaries : bool
        Whether the labels of the first and the last token have weights of their own.
    intercept : bool
        Whether tokens of arrays have the constant 1 as a last feature; attributes by name are taken as they are.

    Attributes
    ----------
    attributes_ : list of str
        The attributes met in training, where they have names. Others are ignored in prediction.

    Examples
    --------
    >>> X = [[["w=the"], ["w=dog"], ["w=barks"]], [["w=a"], ["w=cat"]], [["w=dog"], ["w=barks"]]]
    >>> Y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"], ["NOUN", "VERB"]]
    >>> crf = ChainCRF(l2=0.01).fit(X, Y)
    >>> crf.predict([[["w=a"], ["w=dog"], ["w=runs"]]])[0].tolist()
    ['DET', 'NOUN', 'VERB']
    """

    loss: Any = "likelihood"
    inference: Any = "junction_tree"
    n_sweeps: int | None = None
    all_pairs: bool = False
    all_transitions: bool = True
    boundaries: bool = False
    intercept: bool = True

    data_form: ClassVar[DataForm] = DataForm("`(T, D)`", "`(T,)`", files="tokens")
    _switches: ClassVar[tuple[str, ...]] = ("all_pairs", "all_transitions", "boundaries", "intercept")
    _learned_names: ClassVar[tuple[str, ...]] = ("form_", "attributes_", "pair_ptr_", "pair_label_", "transitions_")

    @classmethod
    def tiny_data(cls) -> tuple[list[Any], list[Any]]:
        """Return sequences of four tokens and of one."""
        labels = np.arange(4) % 2
        return [labels[:, None] + 0.5, np.ones((1, 1))], [labels, labels[:1]]

    # -- reading --------------------------------------------------------------------------------------------------
    def _prepare(self, examples: Examples) -> None:
        first = next(iter(examples))
        self.form_ = _form(first.x)
        self.attributes_: list[str] = []
        self._vocabulary = Vocabulary()
        self.pair_ptr_, self.pair_label_ = np.zeros(1, np.int64), np.zeros(0, np.int64)  # known when all is read
        self.transitions_ = np.zeros(0, np.int64)

    @property
    def _n_constants(self) -> int:
        return int(self.intercept)

    def _read(self, x: Any, name: str) -> ParsedInput:
        form = _form(x)
        if isinstance(x, list | tuple) and not x:
            raise ModelError(f"{name} is an empty sequence; leave it out")
        if form != self.form_:
            raise ModelError(f"{name} is {_FORMS[form]}, the others are {_FORMS[self.form_]}; all must be alike")
        tokens, width = self._tokens(x, name)
        n = tokens.n_tokens
        if n == 0:
            raise ModelError(f"{name} is an empty sequence; leave it out")
        kinds = _kinds(width, self.boundaries)
        inputs: Any = tokens
        if self._as_rows:
            assert isinstance(tokens, DenseTokens)
            inputs = (Rows(n, tokens.rows(0, n)), Rows(n - 1), *([Rows(1), Rows(1)] if self.boundaries else []))
        return ParsedInput((n,), inputs, kinds, lambda: _scopes(n, self.boundaries), n)

    @property
    def _as_rows(self) -> bool:
        """Whether sequences are graphs like any others, which are joined: unions of chains know no substates."""
        return self.substates is not None and self.form_ == "dense" and self.all_transitions

    def _tokens(self, x: Any, name: str) -> tuple[Tokens, int]:
        """Return the tokens of one input, and how many features they may have (0: as many as have names)."""
        if self.form_ == "names":
            return self._names().encoded(x, name), 0
        if isinstance(x, str | list | tuple) and any(isinstance(token, str) for token in x):
            raise ModelError(f"{name}: a token is a list of attributes or a dict, found a word; write ['word'] for it")
        rows = checked_features(x, None, name, "features")
        if self.form_ == "dense":
            kept = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
            return DenseTokens(kept, self.intercept), int(rows.shape[1]) + self.intercept
        return _sparse(rows, self.intercept), int(rows.shape[1]) + self.intercept

    def _names(self) -> Vocabulary:
        if not hasattr(self, "_vocabulary"):  # read from a file
            self._vocabulary = Vocabulary.of(self.attributes_)
        return self._vocabulary

    # -- fitting --------------------------------------------------------------------------------------------------
    def _instances(self, examples: Examples) -> list[Instance] | Stream:
        instances = super()._instances(examples)
        self._vocabulary.close()
        self.attributes_ = self._vocabulary.names()
        if self.form_ != "dense":
            n = len(self.attributes_) if self.form_ == "names" else self.kinds_[0].width
            if self.all_pairs:
                pairs = StatePairs.every(n, self._spaces.n_scored)
            else:
                pairs = self._seen_pairs(instances, n)
            self.pair_ptr_, self.pair_label_ = pairs.ptr, pairs.label
        if not self.all_transitions:
            self.transitions_ = self._seen_transitions(instances)
        self.template_ = self._spaces.with_ties(self._template(self.kinds_))
        return instances

    def _seen_pairs(self, instances: Iterable[Instance], n: int) -> StatePairs:
        """Return the pairs of an attribute and a label that occur, with the substates of that label."""
        found = seen_pairs(((i.inputs, i.labels[: i.inputs.n_tokens]) for i in instances), n, self.n_states_)
        if self._spaces.substates is None:
            return found
        seen = np.zeros((n, self.n_states_), np.bool_)
        seen[np.repeat(np.arange(n), np.diff(found.ptr)), found.label] = True
        attribute, state = np.nonzero(seen[:, self._spaces.groups])
        return StatePairs(np.searchsorted(attribute, np.arange(n + 1)).astype(np.int64), state)

    def _seen_transitions(self, instances: Iterable[Instance]) -> Ints:
        """Return the pairs of neighbouring labels that occur, with their substates: entries of the table, ascending."""
        k, groups = self.n_states_, self._spaces.groups
        seen = np.zeros((k, k), np.bool_)
        for instance in instances:
            labels = instance.labels[: instance.inputs.n_tokens]
            known = (labels[:-1] >= 0) & (labels[1:] >= 0)
            seen[labels[:-1][known], labels[1:][known]] = True
        return np.flatnonzero(seen[np.ix_(groups, groups)])

    def _template(self, kinds: tuple[FactorSpec, ...]) -> Template:
        if self._as_rows:
            return super()._template(kinds)
        dense = self.form_ == "dense"
        return ChainTemplate(
            self._spaces.n_scored,
            kinds[0].width if dense else 0,
            None if dense else StatePairs(self.pair_ptr_, self.pair_label_),
            None if self.all_transitions else self.transitions_,
            self.boundaries,
        )

    def _loss(self) -> Loss:
        named = loss_named(self.loss)[0]
        return self._likelihood() if named is Likelihood and not self._spaces.latent else super()._loss()

    def _stage(self, text: str) -> Loss:
        return self._likelihood() if text in _LIKELIHOODS and not self._spaces.latent else super()._stage(text)

    def _likelihood(self) -> ChainLikelihood:
        return ChainLikelihood(template=self.template_, l2=self._ridge, threads=self._threads)

    # -- answers --------------------------------------------------------------------------------------------------
    def _decoded(self, X: Any, how: str) -> list[tuple[np.ndarray, Outputs]]:
        """Return the labels of each sequence; ``"map"`` by Viterbi, others from posteriors."""
        self._check_fitted()
        if self._spaces.latent or (how != "map" and not self._exact):
            return super()._decoded(X, how)
        found: list[np.ndarray] = []
        for union, rows, table in self._unions(X):
            if how == "map":
                states: np.ndarray = union.best(rows, table, self._executor)[0]
            else:
                by = likeliest_states if how == "mpm" else expected_states
                states = by(union.marginals(rows, table, self._executor)[1].reshape(-1, self.n_states_))
            found += _split(states, union)
        return [(states, Outputs(states.shape)) for states in found]

    def predict_marginals(self, X: Any) -> list[Floats]:
        """Return the posteriors of each sequence's labels, ``(T, n_states)``."""
        self._check_fitted()
        if self._spaces.latent or not self._exact:
            return super().predict_marginals(X)
        found: list[Floats] = []
        with self._list_of_inputs(X):
            for union, rows, table in self._unions(X):
                found += _split(union.marginals(rows, table, self._executor)[1].copy(), union)
        return found

    def sample(self, X: Any, n: int = 1, method: Any = "auto") -> list[np.ndarray]:
        """Draw ``n`` labellings of each sequence, ``(n, T)``, independent and exact."""
        self._check_fitted()
        if method != "auto" or self._spaces.latent:
            return super().sample(X, n, method)
        check_integer("n", n, 1, MANY)
        found: list[np.ndarray] = []
        for number, (union, rows, table) in enumerate(self._unions(X)):
            drawn = union.samples(rows, table, n, (self.seed or 0) + number * 2**32, self._executor)
            found += [part.T for part in _split(self._named(drawn.T), union)]
        return found

    def _truth(self, y: Any, shape: tuple[int, ...], name: str) -> tuple[np.ndarray, Bools]:
        """Return labels and which are known; a word that was no label in training is one that is missed."""
        truth = label_array(y, shape, name)
        if truth.dtype != object or self.classes_.dtype.kind == "i":
            truth = Classes(self.classes_).codes(truth, name)  # integers: in range, or an error
        return truth, np.array([label is not None and label != HIDDEN for label in truth.tolist()], np.bool_)

    def describe(self, feature_names: Sequence[str] | None = None, limit: int = 30) -> str:
        """Return the learned weights: transitions, then the attributes of largest weight for each label."""
        self._check_fitted()
        template = self.template_.base if isinstance(self.template_, WithConstants) else self.template_
        if not isinstance(template, ChainTemplate):
            return super().describe(feature_names, limit)
        check_integer("limit", limit, 1)
        by_name = self.form_ == "names"
        names = self.attributes_ if by_name and feature_names is None else self._feature_names(feature_names)
        states = self._spaces.axes(self.kinds_[:1], [str(k) for k in self.classes_])[0][0]
        return chain_table(template, self.weights_, states, names, limit)

    @property
    def _exact(self) -> bool:
        """Whether the inference of the fit is exact, so that unions of chains give its answers."""
        self._check_fitted()
        return self.loss_.is_exact(self._inference_spec)

    def _unions(self, X: Any) -> Iterator[tuple[ChainUnion, Floats, Floats]]:
        """Yield unions of sequences, their rows of unary potentials, and the table."""
        self._check_fitted()

        def read(entry: tuple[str, Any]) -> tuple[Tokens, int]:
            name, x = entry
            parsed = self._read(x, name)
            self._check_kinds(parsed, self.kinds_, name, "the fitted model")
            return parsed.inputs, parsed.shape[0]

        return map(self._scored, gathered(map(read, inputs_of(X)), _WINDOW))

    def _scored(self, sequences: list[Tokens]) -> tuple[ChainUnion, Floats, Floats]:
        template, k = self.template_, self.n_states_
        assert isinstance(template, ChainTemplate)
        starts = np.concatenate([[0], np.cumsum([tokens.n_tokens for tokens in sequences])]).astype(np.int64)
        union, rows, cut = ChainUnion(starts, k), rows_for(int(starts[-1]), k), template.cut(self.weights_)
        scores = state_scores(template, joined(sequences), rows.shape[1])
        scores.add(scores.prepare(cut.state), 0, union.n_tokens, rows)
        rows[starts[:-1], :k] += cut.first
        rows[starts[1:] - 1, :k] += cut.last
        return union, rows, cut.table


def _form(x: Any) -> str:
    if hasattr(x, "tocsr"):
        return "sparse"
    return "names" if are_attributes(x) else "dense"


@lru_cache(_MOST_WIDTHS)  # made for every input, compared with those of the fit
def _kinds(width: int, boundaries: bool) -> tuple[FactorSpec, ...]:
    return FactorSpec("tokens", 1, width), *_KINDS[: 3 if boundaries else 1]


def _scopes(n: int, boundaries: bool) -> list[Ints]:
    """Return the variables of the factors, type after type."""
    at = np.arange(n)[:, None]
    return [at, np.concatenate([at[:-1], at[1:]], axis=1), *([at[:1], at[-1:]] if boundaries else [])]


def _sparse(rows: Any, intercept: bool) -> SparseTokens:
    """Return CSR rows as attributes, a last one of 1 if asked for; explicit zeros are left out."""
    n, width = rows.shape
    token = np.repeat(np.arange(n), np.diff(rows.indptr))
    value, attribute = np.asarray(rows.data, np.float64), np.asarray(rows.indices, np.int64)
    kept = value != 0.0
    token, value, attribute = token[kept], value[kept], attribute[kept]
    if intercept:
        token = np.concatenate([token, np.arange(n)])
        value, attribute = np.concatenate([value, np.ones(n)]), np.concatenate([attribute, np.full(n, width)])
        order = np.argsort(token, kind="stable")
        token, value, attribute = token[order], value[order], attribute[order]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(token, minlength=n))]).astype(np.int64)
    return SparseTokens(ptr, attribute, np.zeros(0) if (value == 1.0).all() else value)


def _split(values: np.ndarray, union: ChainUnion) -> list[np.ndarray]:
    """Return the tokens' values sequence by sequence."""
    return [values[begin:end] for begin, end in pairwise(union.starts.tolist())]
