"""Hidden layers that grow by Frank-Wolfe, beside contrastive divergence (figures 5.1 and 5.2 of [ping2016]).

    python experiments/growing_machines.py [--quick | --full] [--only TEXT ...] [--data FOLDER] [--output FOLDER]

Three curves over the number of hidden units, on digits and on silhouettes: CD-10 from random weights (the best start
by validation), Frank-Wolfe, and CD-10 that starts from what Frank-Wolfe has grown. Every fit and every judgement is a
job that is kept when it ends (experiments/local), goes on from its checkpoint after an hour or an interrupt, and is
left blank until it is done; ``--only`` runs those whose name contains one of some texts.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import numpy as np
from image_bits import SHAPE, Bits, caltech, mnist
from machine_jobs import EVERY, Jobs, Setting
from matplotlib.figure import Figure
from paper import HERE, Claim, command_line, legend_below, report, save, tidy
from trials import Kept

from beliefs.plot import plot_filters, plot_images

SIZES = (20, 50, 100, 200, 300, 400, 500, 600, 700)
RATES, BATCHES = (0.05, 0.02, 0.01, 0.005), (10, 20, 50, 100, 200)
PENALTIES = (1.0, 0.5, 0.1, 0.05, 0.01)
STANDARD = "chains=500, schedule=standard"
SHORT = "chains=100, temperatures=5000"
DEFAULT = {  # twenty epochs of 4,100 silhouettes are too few to tell rates apart: the hottest is ahead, and falls back
    "MNIST": Setting(SIZES, RATES, BATCHES, PENALTIES, (0.2,), 100, 2, (200, 20), STANDARD, SHORT),
    "Caltech": Setting(SIZES, RATES, BATCHES, PENALTIES, (0.2,), 100, 2, (200, 100), STANDARD, SHORT),
}
LIGHT = "chains=100, temperatures=2000"
QUICK = Setting((20, 50, 100), (0.05,), (20,), (0.1, 0.05), (0.2,), 10, 1, (20, 5), LIGHT, LIGHT)
FULL = {
    "MNIST": Setting(SIZES, RATES, BATCHES, PENALTIES, RATES, 200, 5, (200, 200), STANDARD, STANDARD),
    "Caltech": Setting(SIZES, RATES, BATCHES, PENALTIES, RATES, 400, 5, (200, 400), STANDARD, STANDARD),
}
COLOURS = {"CD": "#c4541c", "FW": "#174a6e", "CD from FW": "#2e8b57"}
PRINTED = {"MNIST": 460, "Caltech": 550}


def study(jobs: Jobs) -> dict[str, Any]:
    """Run what is wanted of one set of rows, and return the curves; None where a point was not run."""
    setting = jobs.setting
    rate, batch = chosen(jobs, [(r, b) for r in setting.rates for b in setting.batches], cd_trial)
    l2, bias_rate = chosen(jobs, [(p, r) for p in setting.penalties for r in setting.bias_rates], growth_trial)
    judged = tuple(sorted({*setting.sizes, *range(EVERY, max(setting.sizes) + 1, EVERY)}))
    growth = jobs.grown("fw", max(setting.sizes), l2, bias_rate, judged)
    found: dict[str, Any] = {"rate": rate, "batch": batch, "l2": l2, "growth": growth, "curves": {}}
    points = {(curve, size): point(jobs, curve, size, rate, batch) for size in setting.sizes for curve in COLOURS}
    if setting is not QUICK:  # the sizes between those of the other curves come last
        points |= {("FW", size): point(jobs, "FW", size, rate, batch) for size in judged}
    for curve in COLOURS:
        sizes = sorted(size for c, size in points if c == curve)
        found["curves"][curve] = {"sizes": sizes} | {
            key: [points[curve, size][key] for size in sizes]
            for key in ("name", "likelihood", "bar", "error", "seconds")
        }
    found["early stopping"] = early_stop(jobs, judged)
    known = [(p["likelihood"], p["name"]) for p in points.values() if p["likelihood"] is not None]
    best = max(known, default=None)
    if best is not None:
        found["best"] = {"name": best[1], **(jobs.interval(best[1], setting.annealing) or {})}
    return found


def point(jobs: Jobs, curve: str, size: int, rate: float, batch: int) -> dict[str, Any]:
    """Return a point of a curve: log-likelihood, bar, error and seconds, of the best start by validation."""
    setting, fits = jobs.setting, {}
    if curve == "FW":
        fits[f"fw/{size}"] = None
    elif curve == "CD":
        for start in range(setting.n_starts):
            fits[f"cd/{size}/{start}"] = jobs.cd(f"cd/{size}/{start}", size, rate, batch, setting.epochs, start)
    elif jobs.is_made(f"fw/{size}"):
        name = f"cd-from-fw/{size}"
        fits[name] = jobs.cd(name, size, rate, batch, setting.epochs, 0, f"fw/{size}")
    names = list(fits)
    if len(names) > 1:
        scores = {name: jobs.likelihood(name, "validation") for name in names}
        names = sorted((n for n in names if scores[n] is not None), key=lambda n: -scores[n][0])
    name = names[0] if names else ""
    likelihood = jobs.likelihood(name) if name else None
    seconds = fits[name]["seconds"] if name and fits[name] else None
    return {
        "name": name,
        "likelihood": likelihood[0] if likelihood else None,
        "bar": likelihood[1] if likelihood else None,
        "error": jobs.error(name) if name else None,
        "seconds": seconds,
    }


def chosen(jobs: Jobs, settings: list[tuple[float, Any]], trial: Any) -> tuple[float, Any]:
    """Return the setting with the best validation log-likelihood, or the first where there is no choice."""
    if len(settings) == 1:
        return settings[0]
    scores = [trial(jobs, *setting) for setting in settings]
    known = [(score[0], setting) for score, setting in zip(scores, settings, strict=True) if score is not None]
    return max(known)[1] if known else settings[0]


def cd_trial(jobs: Jobs, rate: float, batch: int) -> Any:
    units, epochs = jobs.setting.chosen_at
    jobs.cd(f"choice/{rate}/{batch}", units, rate, batch, epochs)
    return jobs.likelihood(f"choice/{rate}/{batch}", "validation")


def growth_trial(jobs: Jobs, l2: float, bias_rate: float) -> Any:
    units = min(jobs.setting.chosen_at[0], 100)
    jobs.grown(f"choice/{l2}/{bias_rate}", units, l2, bias_rate, (units,))
    return jobs.likelihood(f"choice/{l2}/{bias_rate}/{units}", "validation")


def early_stop(jobs: Jobs, judged: tuple[int, ...]) -> Any:
    """Return the last number of units at which the free-energy gap has not grown markedly; None if none was grown."""
    past: list[float] = []
    last = None
    for size in judged:
        found = jobs.gap(f"fw/{size}")
        if found is None:
            continue
        gap, chance = found
        if past and gap > min(past) + chance:
            return last
        past.append(gap)
        last = size
    return last


# -- claims -----------------------------------------------------------------------------------------------------------
def judged(name: str, found: dict[str, Any], setting: Setting) -> list[Claim]:
    """Compare one set of rows with what the thesis says of it."""
    cd = found["curves"]["CD"]
    at = {c: dict(zip(curve["sizes"], curve["likelihood"], strict=True)) for c, curve in found["curves"].items()}
    claims = []
    pairs = [(s, at["CD from FW"].get(s), at["CD"].get(s)) for s in setting.sizes]
    pairs = [p for p in pairs if None not in p]
    if pairs:
        above = [s for s, one, other in pairs if one > other]
        shown = ", ".join(f"{one - other:+.1f} at {s}" for s, one, other in pairs)
        claims.append(Claim(f"{name}: CD from Frank-Wolfe is above CD at every size", shown, len(above) == len(pairs)))
    if at["FW"].get(max(setting.sizes)) is not None and max(setting.sizes) >= PRINTED[name]:  # else it is not tried
        said = f"{found['early stopping']} of {max(setting.sizes)}"
        near = abs((found["early stopping"] or 0) - PRINTED[name]) <= 50
        claims.append(Claim(f"{name}: early stopping picks {PRINTED[name]} units", said, near))
    errors = {c: dict(zip(curve["sizes"], curve["error"], strict=True)) for c, curve in found["curves"].items()}
    for one, other, says in (("FW", "CD", "behind CD for few units, ahead from about 450"),
                             ("CD from FW", "CD", "ahead of CD")):  # fmt: skip
        both_known = [(s, errors[one].get(s), errors[other].get(s)) for s in setting.sizes]
        both_known = [p for p in both_known if None not in p]
        if both_known:
            shown = ", ".join(f"{a:.3f} / {b:.3f} at {s}" for s, a, b in both_known)
            expected = [a > b if one == "FW" and s < 450 else a < b for s, a, b in both_known]
            claims.append(Claim(f"{name}, error: {one} is {says}", f"{one} / {other}: {shown}", all(expected)))
    if found["growth"] and cd["seconds"][-1]:
        size = cd["sizes"][-1]
        growth = np.interp(size, found["growth"]["n_units"], found["growth"]["seconds"])
        cd_200 = cd["seconds"][-1] * 200 / setting.epochs
        said = f"{growth:.0f} s to {size} units; CD {cd_200:.0f} s, {setting.epochs} epochs scaled to 200"
        claims.append(Claim(f"{name}: Frank-Wolfe takes at most twice the time of CD", said, growth <= 2 * cd_200))
    return claims


def is_begun(found: dict[str, Any]) -> bool:
    """Whether any point of any curve was run."""
    return any(value is not None for curve in found["curves"].values() for value in curve["likelihood"])


# -- pictures ---------------------------------------------------------------------------------------------------------
def curves(results: dict[str, dict[str, Any]]) -> Figure:
    """Draw log-likelihood and error against units; points and rows that were not run are left out."""
    results = {name: found for name, found in results.items() if is_begun(found)} or results
    figure = Figure(figsize=(4.2 * len(results), 6.4), layout="constrained")
    axes = figure.subplots(2, len(results), squeeze=False)
    for column, (name, found) in enumerate(results.items()):
        for curve, colour in COLOURS.items():
            points = found["curves"][curve]
            look: dict[str, Any] = {"color": colour, "marker": "o", "ms": 3.5, "lw": 1.6, "label": curve}
            known = [p for p in zip(points["sizes"], points["likelihood"], points["bar"], strict=True) if p[1]]
            axes[0, column].errorbar(*np.array(known, float).reshape(-1, 3).T, capsize=2, **look)
            errors = [(size, 100 * e) for size, e in zip(points["sizes"], points["error"], strict=True) if e]
            axes[1, column].plot(*np.array(errors, float).reshape(-1, 2).T, **look)
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel("hidden units")
    axes[0, 0].set_ylabel("test log-likelihood (nats)")
    axes[1, 0].set_ylabel("test error on hidden units (%)")
    for ax in axes.ravel():
        tidy(ax)
    legend_below(figure, axes[0, 0], 3)
    return figure


def pictures(jobs: dict[str, Jobs], results: dict[str, dict[str, Any]]) -> Figure:
    """Draw the first filters of a grown machine, those of CD, rows, and samples of the best machine."""
    results = {name: found for name, found in results.items() if is_begun(found)} or results
    figure = Figure(figsize=(11, 2.9 * len(results)), layout="constrained")
    axes = figure.subplots(len(results), 4, squeeze=False)
    for row, (name, found) in zip(axes, results.items(), strict=True):
        job, size = jobs[name], None
        for ax in row:
            ax.set_axis_off()
        for size in reversed(job.setting.sizes):
            if job._path(f"fw/{size}").is_file() and job._path(f"cd/{size}/0").is_file():
                break
        else:
            continue
        plot_filters(job.machine(f"fw/{size}"), SHAPE, units=np.arange(min(size, 36)), ax=row[0])
        plot_filters(job.machine(f"cd/{size}/0"), SHAPE, units=np.arange(min(size, 36)), ax=row[1])
        plot_images(job.bits.test[:36], SHAPE, ax=row[2])
        row[0].set_title(f"{name}: first units of FW", fontsize=9)
        row[1].set_title(f"36 of {size} units of CD", fontsize=9)
        row[2].set_title("rows", fontsize=9)
        best = found.get("best")
        if best and job._path(best["name"]).is_file():
            plot_images(samples(job, best["name"]), SHAPE, ax=row[3])
            row[3].set_title(f"samples of {best['name']}", fontsize=9)
    return figure


def samples(job: Jobs, name: str) -> np.ndarray:
    """Return visible rows of a machine, after a thousand tempered sweeps."""
    import beliefs as bl

    machine = job.machine(name)
    drawn = bl.sample(machine, 36, "gibbs(chains=36, temperatures=10, burn_in=1000)", seed=0).samples
    return drawn[:, : machine.n_visible]


DIFFERENCES = [
    "The bias follows each unit by 20 steps with a rate of 0.2 (--full: the thesis's rates) from a start that balances "
    "the new unit's mean effect; 1,500 persistent chains, 10 sweeps a unit, two starts of L-BFGS.",
    "CD starts from weights of N(0, 0.01^2) and the bias of the rows' rates (from a bias of 0 all units of silhouettes "
    "saturate). Each CD machine is fitted for a fixed number of epochs, without early stopping; the best start is that "
    "with the best validation log-likelihood by annealing.",
    "The base of annealing is that of the training rows' rates. Error bars are three standard errors of log Z.",
    "The classifier is scikit-learn's logistic regression, a hundred iterations, its default ridge.",
    "Early stopping is read off the grown machines: the last whose free-energy gap is within two standard errors of "
    "its smallest so far.",
]  # fmt: skip


def main() -> int:
    options = command_line(__doc__, needs_data=True, needs="images/caltech101_silhouettes_28.mat", sizes=True)
    if options is None:
        return 0
    mode = "quick" if options.quick else "full" if options.full else "default"
    home = HERE / "local" / f"machines-{mode}"
    settings = {name: QUICK if options.quick else FULL[name] if options.full else DEFAULT[name] for name in PRINTED}
    name = "growing_machines" + ("" if mode == "default" else f"_{mode}")
    setting = {name: asdict(setting) for name, setting in settings.items()}
    kept = Kept(HERE / "local" / f"growing_machines_{mode}.trials.json", HERE / "results" / f"{name}.json", setting)

    def wanted(name: str) -> bool:
        return not options.only or any(text in name for text in options.only)

    everything: list[Bits] = [caltech(options.data)]
    everything.append(mnist(options.data, 10_000, 2_000) if options.quick else mnist(options.data))
    jobs, results, claims = {}, {}, []
    for bits in everything:
        jobs[bits.name] = Jobs(bits, settings[bits.name], home, kept, wanted)
        results[bits.name] = study(jobs[bits.name])
        claims += judged(bits.name, results[bits.name], settings[bits.name])
    differences = [*DIFFERENCES]
    if options.quick:
        differences.insert(
            0, f"A quick run: {QUICK}; of MNIST 10,000 rows to learn from, 2,000 to choose by and to test."
        )
    report("Figures 5.1 and 5.2: hidden layers that grow", claims, differences)
    figures = {name: curves(results), f"{name}_pictures": pictures(jobs, results)}
    save(options.output, name, figures, {"setting": setting, "rows": results, "trials": kept.found}, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
