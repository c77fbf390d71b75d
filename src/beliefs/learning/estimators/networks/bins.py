"""Continuous columns as states: cut points by scikit-learn, kept for later rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from beliefs.errors import ModelError
from beliefs.model.rows.columns import CodedColumn, are_chunks, named_columns
from beliefs.options import MANY, check_integer, shown
from beliefs.typing import Floats

__all__ = ["binned", "learned_bins"]


def learned_bins(data: Any, bins: Any, names: list[str] | None) -> dict[str, Floats]:
    """Return the inner cut points of each column to be binned: those named, or all with fractions."""
    if bins is None:
        return {}
    if isinstance(data, str) or hasattr(data, "__fspath__") or are_chunks(data):
        raise ModelError("bins= looks at all rows of a column first; give the rows in memory")
    columns = named_columns(data, names, ())
    wanted = dict(bins) if isinstance(bins, Mapping) else {
        name: bins for name, values in columns.items() if _is_continuous(values)
    }  # fmt: skip
    found = {}
    for name, n_bins in wanted.items():
        check_integer(f"bins of {name!r}", n_bins, 2, MANY)
        if name not in columns:
            raise ModelError(f"bins names a column {name!r} that is not there")
        found[name] = _cuts(_floats(columns[name], name), int(n_bins), name)
    return found


def binned(data: Any, cuts: Mapping[str, Floats], names: list[str] | None) -> Any:
    """Return the data with these columns cut into states."""
    if not cuts:
        return data
    columns = dict(named_columns(data, names, ()))
    for name, inner in cuts.items():
        if name in columns:
            values = _floats(columns[name], name)
            codes = np.where(np.isnan(values), -1, np.searchsorted(inner, values, side="right"))
            columns[name] = CodedColumn(codes, _labels(inner), -1)
    return columns


def _cuts(values: Floats, n_bins: int, name: str) -> Floats:
    from sklearn.preprocessing import KBinsDiscretizer

    seen = values[~np.isnan(values)]
    if not np.isfinite(seen).all():
        raise ModelError(f"column {name!r} has infinite values, which are in no bin")
    if np.unique(seen).size < 2:
        raise ModelError(f"column {name!r} has fewer than two distinct values; there is nothing to bin")
    options = {"quantile_method": "linear"} if "quantile_method" in KBinsDiscretizer().get_params() else {}
    made = KBinsDiscretizer(n_bins=n_bins, encode="ordinal", strategy="quantile", subsample=None, **options)
    return np.asarray(made.fit(seen[:, None]).bin_edges_[0][1:-1], np.float64)


def _labels(cuts: Floats) -> tuple[str, ...]:
    """Return intervals as labels, in as many digits as tell them apart."""
    for digits in range(4, 18):
        texts = [f"{cut:.{digits}g}" for cut in cuts]
        if len(set(texts)) == len(texts):
            break
    ends = ["-inf", *texts, "inf"]
    return tuple(f"[{low}, {high})" for low, high in zip(ends[:-1], ends[1:], strict=True))


def _floats(values: Any, name: str) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"column {name!r} holds no numbers, found {shown(values)}; only numbers are binned") from None


def _is_continuous(values: Any) -> bool:
    if getattr(getattr(values, "dtype", None), "kind", "O") != "f":
        return False
    numbers = np.asarray(values, np.float64)
    seen = numbers[~np.isnan(numbers)]
    return bool((seen != np.rint(seen)).any())
