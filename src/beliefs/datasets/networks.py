"""Bayesian networks by name: those that come with the package, those beside other data, and one built here."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from beliefs.datasets.home import data_home
from beliefs.errors import ModelError
from beliefs.io import read
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.variable import Variable, suggestion

__all__ = ["bn_names", "load_bn", "make_traffic"]

_SUFFIX = ".bif.gz"
_LARGE = ("diabetes", "link", "mildew", "munin", "munin1")  # known, but too large to come with the package


def load_bn(name: str) -> BayesianNetwork:
    """Return a Bayesian network by name, as in the repository of the R package bnlearn [scutari2010].

    It is looked for among the networks that come with the package, then in the folder ``bn`` of :func:`data_home`
    when the environment variable ``BELIEFS_DATA`` is set. A name that is nowhere is a ModelError; a network that is
    known but not here is a FileNotFoundError that says where it should be.

    Examples
    --------
    >>> load_bn("asia")
    BayesianNetwork(8 variables, 8 arcs, 36 cells)
    """
    if name in _bundled():
        with resources.as_file(_bundled()[name]) as path:
            return _read(path)
    outside = _outside()
    if name in outside:
        return _read(outside[name])
    if name in _LARGE:
        raise FileNotFoundError(
            f"the network {name!r} does not come with the package; "
            f"set BELIEFS_DATA to a folder that holds bn/{name}{_SUFFIX}"
        )
    known = bn_names()
    raise ModelError(f"no network {name!r}{suggestion(str(name), known)}; known are {', '.join(known)}")


def bn_names() -> list[str]:
    """Return the names that :func:`load_bn` can load here, sorted.

    Examples
    --------
    >>> bn_names()[:3]
    ['alarm', 'andes', 'asia']
    """
    return sorted({*_bundled(), *_outside()})


def _bundled() -> dict[str, Traversable]:
    folder = resources.files("beliefs.datasets").joinpath("data")
    return {f.name.removesuffix(_SUFFIX): f for f in folder.iterdir() if f.name.endswith(_SUFFIX)}


def _outside() -> dict[str, Path]:
    home = data_home(missing_ok=True)
    if home is None:
        return {}
    return {f.name.removesuffix(_SUFFIX): f for f in (home / "bn").glob(f"*{_SUFFIX}")}


def _read(path: Path) -> BayesianNetwork:
    model = read(path)
    assert isinstance(model, BayesianNetwork)
    return model


def make_traffic() -> BayesianNetwork:
    """Return the network of four binary variables that opens [gelfand2014]: rush hour, rain, crash, traffic.

    The structure is Figure 1.1's, ``p(rush_hour) p(rain) p(crash | rain) p(traffic | rush_hour, rain, crash)``; the
    source prints no numbers, these are ours.

    Examples
    --------
    >>> make_traffic().parents("traffic")
    ('rush_hour', 'rain', 'crash')
    """
    names = ("rush_hour", "rain", "crash", "traffic")
    jam = np.array([0.05, 0.85, 0.3, 0.9, 0.6, 0.9, 0.8, 0.95]).reshape(2, 2, 2)  # given rush hour, rain, crash
    return BayesianNetwork.from_cpts(
        [Variable(name, ["no", "yes"]) for name in names],
        {
            "rush_hour": ([], [0.75, 0.25]),
            "rain": ([], [0.8, 0.2]),
            "crash": (["rain"], [[0.98, 0.02], [0.9, 0.1]]),
            "traffic": (["rush_hour", "rain", "crash"], np.stack([1 - jam, jam], axis=-1)),
        },
    )
