"""How good answers are: errors and losses (:mod:`.answers`), F1 of labels (:mod:`.labels`) and of chunks
(:mod:`.chunks`), and all of them as scorers for scikit-learn (:mod:`.scorers`)."""

from typing import NoReturn

from beliefs.elsewhere import METRICS, meant
from beliefs.metrics.answers import (
    accuracy,
    brier_score,
    confusion,
    error_rate,
    log_loss,
    log_z_error,
    marginal_error,
    mean_error,
    quadratic_loss,
    squared_error,
)
from beliefs.metrics.chunks import chunk_f1, chunk_report, chunks
from beliefs.metrics.labels import classification_report, flat_f1
from beliefs.metrics.scorers import SCORERS, scorer

__all__ = [
    "SCORERS",
    "accuracy",
    "brier_score",
    "chunk_f1",
    "chunk_report",
    "chunks",
    "classification_report",
    "confusion",
    "error_rate",
    "flat_f1",
    "log_loss",
    "log_z_error",
    "marginal_error",
    "mean_error",
    "quadratic_loss",
    "scorer",
    "squared_error",
]


def __getattr__(name: str) -> NoReturn:
    """Refuse a name that is not here, with the one that was meant."""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant(name, METRICS, __all__)}")
