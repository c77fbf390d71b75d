"""Structured support vector machines on linear chains, with the inputs of :class:`ChainCRF` ([taskar2003])."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from beliefs.learning.chains.margin import ChainMargin
from beliefs.learning.estimators.structured.chain import ChainCRF
from beliefs.learning.estimators.structured.states import Outputs
from beliefs.learning.estimators.structured.svm import SVM
from beliefs.learning.losses.max_margin import MaxMargin
from beliefs.model.features import Template

__all__ = ["ChainSVM"]


@dataclass(kw_only=True, eq=False, repr=False)
class ChainSVM(SVM, ChainCRF):
    """A max-margin model of sequences; inputs and the options of chains are those of :class:`ChainCRF`.

    Inference is exact unless another is asked for: the algorithm of Viterbi where nothing is hidden. With ``substates``
    sums over hidden states inside maxima (``eps_y=0, eps_h=1``) are exact on short sequences only; take ``eps_h=0``, or
    ``inference="bp"``.

    Examples
    --------
    >>> X = [[["w=the"], ["w=dog"], ["w=barks"]], [["w=a"], ["w=cat"]], [["w=dog"], ["w=barks"]]]
    >>> Y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"], ["NOUN", "VERB"]]
    >>> svm = ChainSVM(C=1.0).fit(X, Y)
    >>> svm.predict([[["w=a"], ["w=dog"], ["w=runs"]]])[0].tolist()
    ['DET', 'NOUN', 'VERB']
    >>> svm.gap_ <= 1e-3 * svm.objective_
    True
    """

    inference: Any = None

    _learned_names: ClassVar[tuple[str, ...]] = (*ChainCRF._learned_names, *SVM._of_the_fit)

    def _margin_loss(self, template: Template, l2: float, exact: bool = False) -> MaxMargin:
        found = super()._margin_loss(template, l2, exact)
        return ChainMargin(**{f.name: getattr(found, f.name) for f in fields(found) if f.init})

    def _decoded(self, X: Any, how: str) -> list[tuple[np.ndarray, Outputs]]:
        self._check_fitted()
        if how == "auto" and self._exact and not self._spaces.latent:  # over unions of sequences
            how = "map" if self.eps_y == 0 else "mpm"
        return super()._decoded(X, how)

    @property
    def _exact(self) -> bool:
        """Whether unions of chains, at temperature 0 or 1, give the answers of the fit."""
        return super()._exact and self.eps_y in (0, 1)
