"""Rows of a table as pictures: samples of a machine, and the weights of its hidden units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from beliefs.errors import ModelError
from beliefs.model.factor import numeric
from beliefs.model.machine import BoltzmannMachine
from beliefs.options import check_integer, check_option
from beliefs.plot.canvas import axes_or_new, difference_colours
from beliefs.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_filters", "plot_images"]

_INCHES = 0.5  # of a picture's side
_FRAME = "0.92"  # a light grey


def plot_images(
    rows: ArrayLike,
    shape: tuple[int, int],
    *,
    n_columns: int | None = None,
    signed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw each row as a picture, side by side.

    Parameters
    ----------
    rows : array_like (N, height * width)
        Pixels row by row: bits, probabilities, or any numbers with ``signed``.
    shape : (height, width)
    n_columns : int, optional
        Pictures beside each other; as many as make a square unless given.
    signed : bool
        Whether zero is white, with one colour below and another above, on one scale for all. Else 0 is white and the
        largest number black.
    """
    from matplotlib import colormaps

    table = numeric(rows, "rows")
    good = isinstance(shape, tuple) and len(shape) == 2
    check_option(good, "shape", "a pair (height, width)", shape)
    height, width = shape
    if table.ndim != 2 or not len(table) or table.shape[1] != height * width:
        wanted = f"(N, {height * width}) for pictures of {height} x {width}"
        raise ModelError(f"rows must have shape {wanted}, found {table.shape}")
    check_integer("n_columns", n_columns, 1, none=True)
    columns = n_columns or math.ceil(math.sqrt(len(table)))
    canvas = _tiled(table.reshape(-1, height, width), columns)
    ax = axes_or_new(ax, _INCHES * columns, _INCHES * height / width * -(-len(table) // columns))
    top = float(np.abs(table).max()) or 1.0
    colours = difference_colours() if signed else colormaps["Greys"]
    least = -top if signed else 0.0
    ax.imshow(canvas, cmap=colours.with_extremes(bad=_FRAME), vmin=least, vmax=top, interpolation="nearest")
    ax.set_axis_off()
    return ax


def plot_filters(
    machine: BoltzmannMachine,
    shape: tuple[int, int],
    *,
    units: ArrayLike | None = None,
    n_columns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the weights of hidden units as pictures, on one scale around zero; ``units`` are their numbers."""
    if not isinstance(machine, BoltzmannMachine):
        raise ModelError(f"plot_filters draws machines, found {type(machine).__name__}")
    chosen = np.arange(machine.n_hidden) if units is None else np.asarray(units)
    fine = chosen.dtype.kind in "iu" and chosen.ndim == 1 and ((chosen >= 0) & (chosen < machine.n_hidden)).all()
    check_option(bool(fine), "units", f"numbers of hidden units below {machine.n_hidden}", units)
    return plot_images(machine.weights.T[chosen], shape, n_columns=n_columns, signed=True, ax=ax)


def _tiled(pictures: Floats, columns: int) -> Floats:
    """Return the pictures on one canvas in frames of a pixel, which are nan; zero where there is no picture."""
    n, height, width = pictures.shape
    canvas = np.zeros((-(-n // columns) * (height + 1) + 1, columns * (width + 1) + 1))
    for k, picture in enumerate(pictures):
        r, c = divmod(k, columns)
        frame = canvas[r * (height + 1) :, c * (width + 1) :][: height + 2, : width + 2]
        frame[[0, -1]] = frame[:, [0, -1]] = np.nan
        frame[1:-1, 1:-1] = picture
    return canvas
