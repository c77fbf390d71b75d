r"""Binary denoising: black and white pictures seen through noise, the first learning study of [domke2013].

.. math:: y_i = x_i (1 - t_i^n) + (1 - x_i) t_i^n, \qquad t_i \sim U[0, 1]

The lower n, the more noise. Thresholding y at one half errs with probability :math:`1 - 2^{-1/n}`: 0.4257, 0.3700 and
0.1294 for n = 1.25, 1.5 and 5, which no model without edges can improve on where black and white are equally frequent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from beliefs.datasets.arguments import check_count, check_scale, generator
from beliefs.errors import ModelError
from beliefs.typing import Floats, Ints

__all__ = ["black_and_white", "load_pictures", "make_noisy"]


def make_noisy(labels: ArrayLike, *, exponent: float = 1.25, seed: int | np.random.Generator = 0) -> Floats:
    """Return a noisy version, in [0, 1], of labels 0 and 1 of any shape.

    Examples
    --------
    >>> noisy = make_noisy(np.ones((200, 300), int), exponent=5)
    >>> bool(abs((noisy < 0.5).mean() - (1 - 2 ** (-1 / 5))) < 0.01)
    True
    """
    x = np.asarray(labels)
    if x.size and (x.dtype.kind not in "biu" or x.min() < 0 or x.max() > 1):
        raise ModelError("labels must be 0 and 1")
    if not check_scale("exponent", exponent) > 0:
        raise ModelError(f"exponent must be positive, found {exponent}")
    noise = generator(seed).uniform(size=x.shape) ** exponent
    return np.asarray(np.where(x == 1, 1.0 - noise, noise), np.float64)


def black_and_white(picture: ArrayLike, *, reduce: int = 1, level: str = "mean") -> Ints:
    """Return 1 where a picture, ``(H, W)`` or ``(H, W, channels)``, is brighter than its mean (or median), else 0.

    ``reduce`` averages blocks of that side first and drops what is left over at the right and at the bottom.
    """
    values = np.asarray(picture, np.float64)
    if values.ndim not in (2, 3) or not values.size:
        raise ModelError(f"a picture has shape (H, W) or (H, W, channels), found {values.shape}")
    grey = values.mean(axis=2) if values.ndim == 3 else values
    side = check_count("reduce", reduce)
    rows, columns = grey.shape[0] // side, grey.shape[1] // side
    blocks = grey[: rows * side, : columns * side].reshape(rows, side, columns, side).mean(axis=(1, 3))
    if level not in ("mean", "median"):
        raise ModelError(f"level must be 'mean' or 'median', found {level!r}")
    middle = float(blocks.mean() if level == "mean" else np.median(blocks))
    white: Ints = (blocks > middle).astype(np.int64)
    return white


def load_pictures(*, reduce: int = 4, level: str = "mean") -> dict[str, Ints]:
    """Return the two photographs that come with scikit-learn (a temple and a flower) in black and white.

    They are 427 x 640; ``reduce=4`` makes them 106 x 160. Reading them needs Pillow, part of ``beliefs[plot]``.
    """
    from sklearn.datasets import load_sample_images  # kept out of the import of the package

    found = load_sample_images()
    names = [str(name).rsplit("/", 1)[-1].split(".")[0] for name in found.filenames]
    return {name: black_and_white(p, reduce=reduce, level=level) for name, p in zip(names, found.images, strict=True)}
