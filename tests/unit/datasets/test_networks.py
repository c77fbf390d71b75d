"""Networks by name: what is bundled, what is found elsewhere, and what is said when something is missing."""

from __future__ import annotations

import gzip
import itertools
import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from beliefs import datasets as ds
from beliefs.errors import ModelError
from beliefs.model import BayesianNetwork

# variables and arcs as the repository of the networks lists them
SIZES = {
    "alarm": (37, 46),
    "andes": (223, 338),
    "asia": (8, 8),
    "cancer": (5, 4),
    "child": (20, 25),
    "earthquake": (5, 4),
    "hailfinder": (56, 66),
    "insurance": (27, 52),
    "pigs": (441, 592),
    "sachs": (11, 17),
    "survey": (6, 6),
    "water": (32, 66),
    "win95pts": (76, 112),
}
# numbers of free parameters, listed there as well; an independent check that no state was lost
PARAMETERS = {
    "alarm": 509, "andes": 1157, "asia": 18, "cancer": 10, "child": 230, "earthquake": 10, "hailfinder": 2656,
    "insurance": 1008, "pigs": 5618, "sachs": 178, "survey": 21, "water": 10083, "win95pts": 574,
}  # fmt: skip


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELIEFS_DATA", raising=False)


@pytest.mark.usefixtures("no_data")
def test_the_bundle_is_complete_and_attributed() -> None:
    assert ds.bn_names() == sorted(SIZES) == sorted(PARAMETERS)
    folder = resources.files("beliefs.datasets") / "data"
    text = (folder / "ATTRIBUTION.md").read_text()
    assert all(name in text for name in SIZES)
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 1_000_000


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("name", sorted(SIZES))
def test_bundled_networks_have_their_published_size(name: str) -> None:
    bn = ds.load_bn(name)
    assert (bn.n_vars, len(bn.edges)) == SIZES[name]
    free = sum(bn.cpt(v).size // bn.variables[v].card * (bn.variables[v].card - 1) for v in range(bn.n_vars))
    assert free == PARAMETERS[name]


@pytest.mark.usefixtures("no_data")
def test_asia_by_hand() -> None:
    """P(either) is a certain function of its parents; P(tub | asia) is 5% and 1%."""
    bn = ds.load_bn("asia")
    assert bn.parents("dysp") == ("bronc", "either")
    assert bn.variables[bn.index("tub")].states == ("yes", "no")
    assert bn.cpt("tub").tolist() == [[0.05, 0.95], [0.01, 0.99]]
    states = np.array(list(itertools.product((0, 1), repeat=8)))
    assert np.exp(bn.graph.log_scores(states)).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.usefixtures("no_data")
def test_a_misspelt_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="no network 'alram'; did you mean 'alarm'.; known are alarm, andes, asia"):
        ds.load_bn("alram")


@pytest.mark.usefixtures("no_data")
def test_a_large_network_says_where_it_should_be() -> None:
    with pytest.raises(FileNotFoundError, match=r"'link' does not come .* BELIEFS_DATA .* bn/link.bif.gz"):
        ds.load_bn("link")


def test_networks_in_the_data_folder_are_found_after_the_bundled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bn").mkdir()
    with resources.as_file(resources.files("beliefs.datasets") / "data" / "cancer.bif.gz") as cancer:
        shutil.copy(cancer, tmp_path / "bn" / "link.bif.gz")
    (tmp_path / "bn" / "asia.bif.gz").write_bytes(gzip.compress(b"not a network"))
    monkeypatch.setenv("BELIEFS_DATA", str(tmp_path))
    assert "link" in ds.bn_names()
    assert ds.load_bn("link").n_vars == 5
    assert ds.load_bn("asia").n_vars == 8


def test_data_home_names_the_folder_or_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFS_DATA", str(tmp_path))
    assert ds.data_home() == tmp_path
    inner = tmp_path / "inner"
    with pytest.raises(FileNotFoundError, match="inner does not exist"):
        ds.data_home(inner)
    assert ds.data_home(inner, missing_ok=True) is None
    monkeypatch.setenv("BELIEFS_DATA", "")
    with pytest.raises(FileNotFoundError, match="set the environment variable BELIEFS_DATA"):
        ds.data_home()
    assert ds.data_home(tmp_path) == tmp_path


def test_traffic_factors_as_its_figure() -> None:
    bn = ds.make_traffic()
    assert isinstance(bn, BayesianNetwork)
    assert {v.name: bn.parents(v.name) for v in bn.variables} == {
        "rush_hour": (),
        "rain": (),
        "crash": ("rain",),
        "traffic": ("rush_hour", "rain", "crash"),
    }
    row = {"rush_hour": "yes", "rain": "no", "crash": "yes", "traffic": "yes"}
    assert np.exp(bn.log_score(row)) == pytest.approx(0.25 * 0.8 * 0.02 * 0.9)
