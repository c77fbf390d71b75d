"""Training risk against time: gradients by perturbation, at convergence and truncated (Figure 7 of [domke2013]).

    python experiments/timing_study.py [--quick | --full] [--only TEXT ...] [--data FOLDER] [--output FOLDER]

Grids on street scenes, 11 classes, univariate logistic loss through TRW. Inference is run to a threshold of 1e-2 to
1e-5, and differentiated by perturbation or back-propagation, or is cut off after 5 to 40 sweeps. Every fit begins at
the independent model and has the same processor time, on one thread. A curve is kept when it ends
(experiments/local); one that was stopped is measured anew, since a clock cannot go on.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from marginal_tables import Setting, Study
from matplotlib.figure import Figure
from paper import HERE, Claim, command_line, report, save, sized, tidy
from patches import ARCHIVE, CLASSES
from street_scenes import scenes

import beliefs as bl
from beliefs.learning.image_features import EdgeFeatures

THRESHOLDS = ("1e-2", "1e-3", "1e-4", "1e-5")
SWEEPS = (5, 10, 20, 40)
WAYS = ("perturbation", "back-propagation")
COMMON: dict[str, Any] = {"loss": "univariate_logistic", "inference": "trw", "l2": 1e-3, "n_jobs": 1,
    "n_states": len(CLASSES)}  # fmt: skip
BACK = 100  # iterations forward, and again backward, at most
COLOURS = ("#f2b134", "#e2783a", "#c0392b", "#7b1e3a")  # from loose to tight


@dataclass(frozen=True)
class Clocked(Setting):
    """How large the study is, and the processor seconds of a fit."""

    seconds: float = 600.0


QUICK = Clocked(4, 0, 24, 10_000, seconds=8.0)
DEFAULT = Clocked(20, 0, 64, 10_000, seconds=600.0)
FULL = Clocked(20, 0, 96, 10_000, seconds=7200.0)
DIFFERENCES = [
    "20 street scenes with 11 classes and a grid's longer side of 64 pixels (96 with --full; 4 scenes, 24 pixels with "
    "--quick), where the paper has 100 photographs with 8 classes.",
    "Processor seconds of one thread, where the paper has the clock of eight cores.",
    f"Inference to a threshold takes {BACK} iterations at most, forward and again backward. Thresholds and sweeps are "
    "ours: the paper's figure does not print them.",
]


def ways() -> dict[str, dict[str, Any]]:
    """Return the options of each curve by its name."""
    found: dict[str, dict[str, Any]] = {}
    for text in THRESHOLDS:
        to = {"inference_tol": float(text), "n_sweeps": None}
        found[f"perturbation {text}"] = {"gradient": f"perturbation(max_iters={BACK})", **to}
        found[f"back-propagation {text}"] = {"gradient": f"convergence(back_tol={text}, max_iters={BACK})", **to}
    return found | {f"truncated {n}": {"gradient": "truncated", "n_sweeps": n} for n in SWEEPS}


def curve(study: Study, setting: Clocked, options: dict[str, Any], start: np.ndarray) -> dict[str, Any]:
    """Fit for so many processor seconds; return seconds and risk of every iteration, and the risk at the end.

    The risk at the end is by TRW to 1e-5, whatever the fit went through: what a curve shows is its own inference's.
    """
    seconds, risk = [0.0], [float("inf")]
    began = time.process_time()

    def told(now: Any) -> bool:
        seconds.append(time.process_time() - began)
        risk.append(now.loss)
        return seconds[-1] > setting.seconds

    crf = bl.GridCRF(**COMMON, **options, init=start, max_iters=setting.max_iters, tol=1e-6, callback=told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(study.x, study.y)
    first = bl.GridCRF(**COMMON, **options, init=start, max_iters=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        risk[0] = first.fit(study.x, study.y).result_.loss
        end = bl.GridCRF(**COMMON, n_sweeps=None, inference_tol=1e-5, init=crf.weights_, max_iters=0,
                         gradient="convergence(back_tol=1e-2, max_iters=1000)").fit(study.x, study.y)  # fmt: skip
    return {"seconds": seconds, "risk": risk, "end": end.result_.loss, "status": crf.result_.status.name,
            "error": 1 - crf.score(study.x, study.y)}  # fmt: skip


def measured(study: Study, setting: Clocked) -> dict[str, Any]:
    """Return all curves that were asked for, or are kept."""
    asked = [n for n in ways() if not study.only or any(text in n for text in study.only)]
    left = [name for name in asked if name not in study.kept.found]
    if left:
        alone = bl.GridCRF(**COMMON | {"l2": 1e-4}, n_sweeps=0, max_iters=200)
        start = alone.fit(study.x, study.y).weights_
    for k, name in enumerate(left):
        print(f"  {name} ({len(left) - k - 1} left)", flush=True)
        tiny = bl.GridCRF(**COMMON, **ways()[name], init=start, max_iters=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tiny.fit(study.x[:1], study.y[:1])  # compiles
        study.kept.of(name, partial(curve, study, setting, ways()[name], start))
    return {name: study.kept.found[name] for name in ways() if name in study.kept.found}


def judged(found: dict[str, Any]) -> list[Claim]:
    """Return what the paper says beside what was run."""
    if len(found) < len(ways()):
        return []
    end, own = ({n: entry["end"] for n, entry in found.items()}, {n: min(e["risk"]) for n, e in found.items()})
    loose, tight = ([f"{way} {text}" for way in WAYS] for text in (THRESHOLDS[0], THRESHOLDS[-1]))
    truncated = [f"truncated {n}" for n in SWEEPS]
    steady = all(np.all(np.diff(found[name]["risk"]) <= 1e-9) for name in truncated)
    a_step = [found[name]["seconds"][-1] / (len(found[name]["risk"]) - 1) for name in truncated]
    level = max(own[name] for name in tight)
    reach = {name: reached(found[name], level) for name in (*truncated[:2], *tight)}
    return [
        Claim(
            "With a loose threshold perturbation and back-propagation stall at a poor risk.",
            f"At 1e-2 they end at {end[loose[0]]:.3f} and {end[loose[1]]:.3f} (by inference to 1e-5), "
            f"{' and '.join(found[n]['status'] for n in loose)}; at 1e-5 at {end[tight[0]]:.3f} and "
            f"{end[tight[1]]:.3f}.",
            min(end[name] for name in loose) > max(end[name] for name in tight),
        ),
        Claim("Truncated fitting always makes progress.", f"Its risk {'never ' * steady}rises.", steady),
        Claim(
            "More sweeps are slower.",
            f"Seconds an iteration: {', '.join(f'{n}: {s:.3f}' for n, s in zip(SWEEPS, a_step, strict=True))}.",
            a_step == sorted(a_step),
        ),
        Claim(
            "More sweeps have a better risk at the end.",
            f"By its own inference: {', '.join(f'{name[10:]}: {own[name]:.4f}' for name in truncated)}.",
            own[truncated[-1]] <= own[truncated[0]],
        ),
        Claim(
            "Truncated fitting is far cheaper for the same risk.",
            f"Seconds to a risk of {level:.3f}: {', '.join(f'{n} {t:.1f}' for n, t in reach.items())}.",
            max(reach[n] for n in truncated[:2]) < min(reach[n] for n in tight),
        ),
    ]


def reached(entry: dict[str, Any], level: float) -> float:
    """Return the seconds until the risk is at a level; inf where it never is."""
    for seconds, risk in zip(entry["seconds"], entry["risk"], strict=True):
        if risk <= level + 1e-12:
            return float(seconds)
    return float("inf")


def draw(found: dict[str, Any], setting: Clocked) -> Figure:
    """Draw risk against processor seconds, a panel for each way to the gradient."""
    figure = Figure(figsize=(10.2, 3.9), layout="constrained")
    panels = {"perturbation": THRESHOLDS, "back-propagation": THRESHOLDS, "truncated": tuple(map(str, SWEEPS))}
    lowest = min(min(entry["risk"]) for entry in found.values())
    highest = max(entry["risk"][0] for entry in found.values())
    for ax, (way, names) in zip(figure.subplots(1, 3, sharey=True), panels.items(), strict=True):
        for name, colour in zip(names, COLOURS, strict=True):
            entry = found.get(f"{way} {name}")
            if entry is not None:
                unit = "sweeps" if way == "truncated" else "threshold"
                ax.plot(entry["seconds"], entry["risk"], color=colour, lw=1.6, label=f"{unit} {name}")
                ax.plot(entry["seconds"][-1], entry["risk"][-1], ".", color=colour, ms=7)
        ax.set(title=way, xlabel="processor seconds", xlim=(0, 1.06 * setting.seconds),
               ylim=(lowest - 0.04 * (highest - lowest), highest + 0.06 * (highest - lowest)))  # fmt: skip
        ax.legend(frameon=False, fontsize=8)
        tidy(ax)
    figure.axes[0].set_ylabel("training risk, a labelled pixel")
    return figure


def main() -> int:
    options = command_line(__doc__, needs_data=True, needs=ARCHIVE, sizes=True)
    if options is None:
        return 0
    setting, size = sized(options, QUICK, DEFAULT, FULL)
    name = f"timing_study{size}"
    pictures = scenes(options.data / ARCHIVE)[: setting.n_train]
    study = Study(pictures, len(CLASSES), EdgeFeatures(), setting, HERE / "local", name, options.only)
    found = measured(study, setting)
    for way, entry in found.items():
        print(f"  {way:24s} {len(entry['risk']) - 1:4d} iterations, risk {entry['risk'][-1]:.4f} by its own inference, "
              f"{entry['end']:.4f} to 1e-5, error {entry['error']:.3f}, {entry['status']}")  # fmt: skip
    claims = judged(found)
    report("Figure 7: risk against time", claims, DIFFERENCES)
    figures = {name: draw(found, setting)} if found else {}
    save(options.output, name, figures, {"setting": asdict(setting), "trials": study.kept.found}, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
