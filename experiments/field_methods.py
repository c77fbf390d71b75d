"""Markov random fields from rows, by every method: who agrees, who is biased, and what labels say of it.

    python experiments/field_methods.py [--quick] [--data FOLDER] [--output FOLDER]

1. The table of alternatives of the lecture (Table 19.1 of [murphy2012]) as an agreement matrix: how far each method's
   distribution is from that of maximum likelihood, on a chordal field, a loopy one and one with a hidden variable.
2. The divergence from the truth against the number of rows, on one small field: slopes, and who is biased.
3. Label tables of multi-label data: held-out log-likelihood of independent labels, the Chow-Liu tree and Ising models.
Trials are kept in experiments/local/field_methods.trials.json as they end.
"""

from __future__ import annotations

import tarfile
import warnings
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from paper import Claim, command_line, legend_below, report, save, tidy
from trials import Kept

import beliefs as bl
from beliefs.errors import ConvergenceWarning, ModelError

SIZES, TRIALS = (300, 1000, 3000, 10_000, 30_000, 100_000), 3
LABELS = ("emotions", "flags", "scene", "yeast")
RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)]
CHORDAL = [(0, 1, 2), (1, 2, 3), (3, 4), (4, 5)]
STAR = [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (0, 1)]  # variable 5 is hidden
ALTERNATIVES: dict[str, dict[str, Any]] = {
    "closed form": {"method": "closed_form"},
    "IPF": {"method": "ipf", "tol": 1e-9},
    "gradient": {"method": "likelihood", "tol": 1e-8, "max_iters": 5000},
    "EM": {"method": "em", "tol": 1e-5, "max_iters": 3000},
    "pseudo-likelihood": {"method": "pseudo_likelihood", "tol": 1e-8},
    "composite likelihood": {"method": "composite_likelihood", "tol": 1e-8},
    "stochastic likelihood": {"method": "stochastic_likelihood", "chains": 400, "max_iters": 2000},
    "contrastive divergence": {"method": "contrastive_divergence", "chains": 400, "max_iters": 2000},
    "probability flow": {"method": "minimum_probability_flow", "tol": 1e-8},
    "BP surrogate": {"method": "likelihood", "inference": "bp"},
    "TRW surrogate": {"method": "likelihood", "inference": "trw"},
}
COMPARED = [name for name in ALTERNATIVES if name not in ("closed form", "IPF", "EM")]
COLOURS = dict(zip(COMPARED, ("#222222", "#174a6e", "#4fa3d8", "#2e8b57", "#9a7b1f", "#6b4fa0", "#c4541c", "#c0392b"),
                   strict=True))  # fmt: skip
DIFFERENCES = [
    "The lecture names the methods and prints no numbers; fields and rows are ours. Max-margin training has no joint "
    "model, so its row is empty.",
    "Sampled gradients: 400 chains, 2000 updates of Adam with decreasing steps, averaged; 5 sweeps an update for "
    "stochastic likelihood, 1 for contrastive divergence.",
    "A ridge of 0.01 / n keeps minima finite where a cell does not occur in n rows; with labels it is 0.1 / n.",
]


# -- fields -----------------------------------------------------------------------------------------------------------
def field(scopes: list[tuple[int, ...]], strength: float, seed: int) -> bl.FactorGraph:
    """Return a field of six bits with random tables, and one for each variable."""
    rng = np.random.default_rng(seed)
    alone = [((v,), 0.4 * rng.normal(size=2)) for v in range(6)]
    return bl.FactorGraph.from_tables(
        [2] * 6, alone + [(s, strength * rng.normal(size=(2,) * len(s))) for s in scopes], log=True
    )


def law(graph: bl.FactorGraph, n_seen: int = 6) -> np.ndarray:
    """Return the distribution of the first variables."""
    states = np.array(list(product((0, 1), repeat=graph.n_vars)))
    logs = graph.log_scores(states)
    p = np.exp(logs - np.logaddexp.reduce(logs))
    return p.reshape(2**n_seen, -1).sum(axis=1)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Return KL(p, q)."""
    return float(p @ (np.log(p) - np.log(q)))


def drawn(p: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return rows with this law."""
    bits = int(np.log2(p.size))
    numbers = np.random.default_rng(seed).choice(p.size, p=p, size=n)
    return (numbers[:, None] >> np.arange(bits)[::-1]) & 1


def learned(name: str, graph: Any, rows: Any, **options: Any) -> bl.MRFLearner:
    """Return a fitted learner; those that stop at rounding say so, and are taken as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return bl.MRFLearner(graph, seed=1, **ALTERNATIVES[name] | options).fit(rows)


# -- the three studies ------------------------------------------------------------------------------------------------
def agreement(kept: Kept, n: int) -> dict[str, dict[str, Any]]:
    """Return the divergence of maximum likelihood from each method, or why there is none."""
    found: dict[str, dict[str, Any]] = {}
    for kind, scopes, n_seen in (("chordal", CHORDAL, 6), ("loopy", RING, 6), ("hidden", STAR, 5)):
        graph = field(scopes, 0.8, 3)
        rows = drawn(law(graph, n_seen), n, 5)
        extra: dict[str, Any] = {}
        if n_seen < 6:
            rows = np.concatenate([rows, np.full((n, 1), -1)], axis=1)
            extra = {"n_restarts": 3}

        def one(name: str, graph: Any = graph, rows: Any = rows, seen: int = n_seen, extra: Any = extra) -> Any:
            try:
                options = {} if "likelihood" in name and "stoch" in name or "contrastive" in name else extra
                return law(learned(name, graph, rows, **options).model_, seen).tolist()
            except ModelError as error:
                return str(error)

        answers = {name: kept.of(f"{kind}, {n}, {name}", lambda name=name: one(name)) for name in ALTERNATIVES}
        best = np.array(answers["gradient"])
        found[kind] = {name: q if isinstance(q, str) else divergence(best, np.array(q)) for name, q in answers.items()}
    return found


def errors(kept: Kept, sizes: tuple[int, ...], trials: int) -> dict[str, list[float]]:
    """Return of each method the mean divergence from the truth at each number of rows."""
    graph = field(RING, 1.0, 3)
    p = law(graph)

    def one(name: str, n: int, seed: int) -> float:
        return divergence(p, law(learned(name, graph, drawn(p, n, seed), l2=0.01 / n).model_))

    return {
        name: [
            float(np.mean([kept.of(f"{name}, {n}, {s}", lambda a=(name, n, s): one(*a)) for s in range(trials)]))
            for n in sizes
        ]
        for name in COMPARED
    }


def label_tables(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of the training and of the test file."""
    with tarfile.open(folder / "multilabel" / f"{name}.tar.xz") as archive:

        def text(member: str) -> str:
            stream = archive.extractfile(member)
            assert stream is not None
            return stream.read().decode()

        n_labels = text(f"{name}.xml").count("<label ")
        tables = []
        for part in ("train", "test"):
            lines = text(f"{name}-{part}.arff").splitlines()
            begin = next(k for k, line in enumerate(lines) if line.strip().lower() == "@data")
            rows = [line.split(",")[-n_labels:] for line in lines[begin + 1 :] if line.strip()]
            tables.append(np.array(rows).astype(int))
    return tables[0], tables[1]


def labels(kept: Kept, folder: Path, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return held-out log-likelihoods of a row."""
    found = {}
    for name in names:
        train, test = label_tables(folder, name)
        n = train.shape[1]
        pairs, ridge = list(combinations(range(n), 2)), 0.1 / len(train)

        def one(
            what: str, train: Any = train, test: Any = test, n: int = n, pairs: Any = pairs, l2: float = ridge
        ) -> float:
            if what == "independent":
                return bl.MRFLearner([(v,) for v in range(n)], ess=1.0).fit(train).score(test)
            if what == "Chow-Liu":
                return bl.MRFLearner("chow_liu", ess=1.0).fit(train).score(test)
            return learned(what, pairs, train, l2=l2, form="identifiable", tol=1e-6, max_iters=1000).score(test)

        found[name] = {
            what: kept.of(f"labels, {name}, {what}", lambda what=what: one(what))
            for what in ("independent", "Chow-Liu", *COMPARED)
        }
    return found


# -- what is shown ----------------------------------------------------------------------------------------------------
def slope(sizes: tuple[int, ...], values: list[float]) -> float:
    """Return the exponent of the error in the rows, over the last four sizes."""
    return float(np.polyfit(np.log(sizes[-4:]), np.log(values[-4:]), 1)[0])


def picture(sizes: tuple[int, ...], curves: dict[str, list[float]], tables: dict[str, dict[str, float]]) -> Figure:
    """Return errors against rows, and held-out log-likelihoods."""
    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, values in curves.items():
        left.plot(sizes, values, marker="o", ms=3.5, lw=1.5, color=COLOURS[name], label=name)
    left.set(xscale="log", yscale="log", xlabel="rows", ylabel="divergence from the truth, nats")
    left.set_title("Six bits, two loops")
    whats = [what for what in next(iter(tables.values()), {}) if what != "independent"]
    for k, what in enumerate(whats):
        gains = [table[what] - table["independent"] for table in tables.values()]
        where = np.arange(len(tables)) + 0.8 * (k + 0.5) / len(whats) - 0.4
        right.bar(where, gains, 0.75 / len(whats), color=COLOURS.get(what, "#bbbbbb"), label=what)
    right.set_xticks(range(len(tables)), list(tables))
    right.set(ylabel="held-out gain, nats a row", title="Labels: gain over independent ones")
    for ax in (left, right):
        tidy(ax)
    legend_below(figure, right if tables else left, 5)
    return figure


def claims_of(matrix: Any, sizes: tuple[int, ...], curves: Any, tables: Any) -> list[Claim]:
    """Return what the lecture's table and the theory say, beside what is seen."""
    exact = [matrix["chordal"]["closed form"], *(matrix[kind]["IPF"] for kind in ("chordal", "loopy"))]
    slopes = {name: slope(sizes, values) for name, values in curves.items()}
    consistent = ("gradient", "pseudo-likelihood", "composite likelihood", "probability flow")
    ratio = {name: curves[name][-1] / curves["gradient"][-1] for name in curves}
    refused = [name for name, value in matrix["hidden"].items() if isinstance(value, str)]
    claims = [
        Claim("closed form, IPF and gradient are exact maximum likelihood",
              f"divergences {', '.join(f'{value:.0e}' for value in exact)}", max(exact) < 1e-8),
        Claim("pseudo-likelihood is not defined with hidden variables; stochastic likelihood, contrastive divergence "
              "and flow are", f"refused: {', '.join(refused)}",
              "pseudo-likelihood" in refused and not {"stochastic likelihood", "probability flow"} & set(refused)),
        Claim("likelihood, pseudo-likelihood, composite likelihood and flow are consistent: errors fall as 1 / n",
              ", ".join(f"{name} {slopes[name]:.2f}" for name in consistent),
              all(abs(slopes[name] + 1) < 0.25 for name in consistent)),
        Claim("surrogates are biased: their errors stay",
              ", ".join(f"{name} {slopes[name]:.2f}, {ratio[name]:.0f} times that of the likelihood at the end"
                        for name in curves if "surrogate" in name),
              all(ratio[name] > 3 for name in curves if "surrogate" in name)),
        Claim("contrastive divergence is approximate, stochastic likelihood exact but for noise",
              ", ".join(f"{name} {ratio[name]:.1f} times the error of the likelihood at the end"
                        for name in ("contrastive divergence", "stochastic likelihood")),
              ratio["contrastive divergence"] > 1.0),
    ]  # fmt: skip
    if tables:
        best = {name: max(table, key=table.get) for name, table in tables.items()}
        claims.append(
            Claim(
                "(ours) Ising models of labels are better than trees, and trees than independence",
                "; ".join(
                    f"{name}: {t['independent']:.3f}, {t['Chow-Liu']:.3f}, {t['gradient']:.3f} (best: {best[name]})"
                    for name, t in tables.items()
                ),
                all(t["gradient"] > t["Chow-Liu"] > t["independent"] for t in tables.values()),
            )
        )
    return claims


def shown(matrix: dict[str, dict[str, Any]]) -> None:
    """Print the agreement matrix."""
    print(f"\n{'':24}" + "".join(f"{kind:>14}" for kind in matrix))
    for name in ALTERNATIVES:
        cells = [matrix[kind][name] for kind in matrix]
        print(f"{name:24}" + "".join(f"{'-' if isinstance(c, str) else f'{c:.1e}':>14}" for c in cells))


def main() -> None:
    """Run the three studies."""
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    kept = Kept.of_study("field_methods", options)
    sizes, trials = ((300, 3000), 1) if options.quick else (SIZES, TRIALS)
    matrix = agreement(kept, 500 if options.quick else 2000)
    shown(matrix)
    curves = errors(kept, sizes, trials)
    from beliefs.datasets import data_home

    folder = data_home(options.data, missing_ok=True)
    known = folder is not None and (folder / "multilabel").is_dir()
    tables = labels(kept, Path(folder), LABELS[1:2] if options.quick else LABELS) if known else {}
    if not known:
        print("Without labels: the data folder is not there; name it with --data or the variable BELIEFS_DATA.")
    claims = claims_of(matrix, sizes, curves, tables)
    report("Fields from rows, by every method", claims, DIFFERENCES)
    numbers = {"agreement": matrix, "rows": list(sizes), "errors": curves, "labels": tables,
               "slopes": {name: slope(sizes, values) for name, values in curves.items()}}  # fmt: skip
    save(options.output, "field_methods", {"field_methods": picture(sizes, curves, tables)}, numbers, claims)


if __name__ == "__main__":
    main()
