"""What estimators that are fitted to rows of an array share: options of a run, and the seed.

They are the machines: their losses are means over rows, and rows are never objects of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from beliefs.inference.budget import default_budget
from beliefs.learning.estimators.storage import StoredEstimator
from beliefs.learning.parallel import Executor, executor_of, threads_of
from beliefs.options import check_integer, check_option, is_number, is_word

__all__ = ["RowEstimator"]


@dataclass(kw_only=True, eq=False, repr=False)
class RowEstimator(StoredEstimator):
    """Base of the estimators that learn from rows; the options are explained where they are used."""

    dtype: str = "float32"
    validation: Any = None
    patience: int = 5
    checkpoint: Any = None
    max_bytes: int | None = None
    n_jobs: int | None = None
    callback: Callable[..., Any] | None = None
    progress: bool = False

    if TYPE_CHECKING:
        random_state: Any = None  # of every subclass, in a place of its own

    option_names: ClassVar[dict[str, str]] = {"seed": "random_state"}
    _tiny: ClassVar[Mapping[str, Any]] = {}  # parameters of a fit that takes no time
    _learned_names: ClassVar[tuple[str, ...]] = ()  # fitted attributes that belong into a file
    _unsaved: ClassVar[tuple[str, ...]] = ("validation", "max_bytes", "init")  # parameters of one run

    def _check_options(self) -> None:
        """Raise for options out of range, before any work."""
        check_option(is_word(self.dtype, ("float32", "float64")), "dtype", "'float32' or 'float64'", self.dtype)
        if is_number(self.validation):
            check_option(0 < self.validation < 1, "validation", "rows, or a share between 0 and 1", self.validation)
        check_integer("patience", self.patience, 1)
        path = self.checkpoint
        check_option(path is None or isinstance(path, str | os.PathLike), "checkpoint", "the path of a file", path)
        check_integer("max_bytes", self.max_bytes, 1, none=True)
        check_option(isinstance(self.progress, bool | np.bool_), "progress", "True or False", self.progress)
        check_option(self.callback is None or callable(self.callback), "callback", "a function", self.callback)
        threads_of(self.n_jobs)
        self._seed()

    def _seed(self) -> int:
        """Return the seed that ``random_state`` means: None is 0, and generators are asked for a number."""
        state = self.random_state
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**31))
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        check_integer("random_state", state, 0, none=True)
        return int(state or 0)

    @property
    def _budget(self) -> int:
        return default_budget() if self.max_bytes is None else self.max_bytes

    @property
    def _executor(self) -> Executor:
        return executor_of(threads_of(self.n_jobs))

    @classmethod
    def input_of(cls, x: np.ndarray, further: Sequence[np.ndarray | None]) -> Any:
        """Return a row of a file."""
        return x

    def _check_fitted(self) -> None:
        check_is_fitted(self, "model_")
