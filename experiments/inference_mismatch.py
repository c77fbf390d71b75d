"""Machines learned through one inference and asked through another, on scikit-learn's digits ([ping2016] section 6.6).

    python experiments/inference_mismatch.py [--quick] [--output FOLDER]

Conditional machines with 32 hidden units complete digits of which 3 x 3 pixels are covered. They are learned through 30
sweeps of belief propagation in every pass, and predict with the same, with 50 damped sweeps, and with 30 of mean field.
Then plain machines with 16 hidden units, whose log-likelihood is exact, learned by contrastive divergence and through
belief propagation without and with damping. Rates are chosen by validation rows for each start; test rows are looked at
once. Every fit is kept when it ends (experiments/local).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from paper import HERE, Claim, command_line, report, save
from sklearn.datasets import load_digits
from trials import Kept, mean_and_error, paired, shown

import beliefs as bl

RATES, SEEDS, QUICK_SEEDS = (0.2, 0.1, 0.05), 2, 1
ASKED = {
    "BP 30": ("bp", 30),
    "BP 50, damped": ("bp(damping=0.5)", 50),
    "mean field 30": ("mean_field", 30),
}
PLAIN = {
    "CD-1": {"loss": "contrastive_divergence"},
    "CD-10": {"loss": "contrastive_divergence(sweeps=10)"},
    "MLE-BP": {"loss": "surrogate_likelihood", "inference": "bp"},
    "MLE-BP, damped": {"loss": "surrogate_likelihood", "inference": "bp(damping=0.5)"},
}


def digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bits to learn from, to choose by and to be tried on."""
    bits = (load_digits().data > 7).astype(np.uint8)
    order = np.random.default_rng(seed).permutation(len(bits))
    return bits[order[:1000]], bits[order[1000:1400]], bits[order[1400:]]


def conditional(seed: int, rate: float, epochs: int) -> dict[str, Any]:
    """Fit through 30 sweeps of belief propagation; return errors in % of all pixels by what is asked."""
    covered = [bl.datasets.occlude(part, (8, 8), 3, 0, 10 * seed + k) for k, part in enumerate(digits(seed))]
    train, held, test = digits(seed)
    crbm = bl.ConditionalRBM(
        32, n_sweeps=30, sweep_growth=0, n_iter=epochs, learning_rate=rate, random_state=seed,
        validation=(covered[1], held), patience=epochs,
    ).fit(covered[0], train)  # fmt: skip
    batch = crbm.model_.given(covered[2])
    found = {}
    for name, (method, sweeps) in ASKED.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that not all machines have converged is the point
            beliefs = bl.infer(batch, method, max_iters=sweeps, tol=1e-3)
        found[name] = 100.0 * bl.metrics.error_rate(test, (beliefs.visible > 0.5).astype(np.uint8))
    return {"validation": crbm.result_.validation, "test": found, "converged": float(crbm.converged_[-1])}


def plain(learner: str, seed: int, rate: float, epochs: int) -> dict[str, Any]:
    """Fit a machine; return exact mean log-likelihoods."""
    train, held, test = digits(seed)
    rbm = bl.BernoulliRBM(16, learning_rate=rate, batch_size=20, n_iter=epochs, random_state=seed, **PLAIN[learner])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rbm.fit(train)
    held_mean, test_mean = (bl.log_likelihood(rbm.model_, rows).mean for rows in (held, test))
    return {"validation": -held_mean, "test": test_mean, "status": rbm.result_.status.name}


def chosen(kept: Kept, name: str, fit: Callable[[float], dict[str, Any]], rates: tuple[float, ...]) -> dict[str, Any]:
    """Return the fit with the best rate by validation."""
    found = []
    for rate in rates:
        trial = kept.of(f"{name}/{rate:g}", lambda rate=rate: fit(rate))  # type: ignore[misc]
        if np.isfinite(trial["validation"]):
            found.append((trial["validation"], rate, trial))
    best = min(found, key=lambda one: one[:2])
    print(f"  {name}: rate {best[1]:g}, {best[2]['test']}", flush=True)
    return {"rate": best[1], **best[2]}


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    seeds = range(QUICK_SEEDS if options.quick else SEEDS)
    rates, epochs = ((0.1,), 4) if options.quick else (RATES, 40)
    kept = Kept(HERE / "local" / f"inference_mismatch{'_quick' if options.quick else ''}.trials.json")
    asked = [chosen(kept, f"asked/{s}", lambda r, s=s: conditional(s, r, epochs), rates) for s in seeds]  # type: ignore[misc]
    learned = {
        name: [chosen(kept, f"{name}/{s}", lambda r, s=s, name=name: plain(name, s, r, epochs), rates) for s in seeds]  # type: ignore[misc]
        for name in PLAIN
    }
    errors = {name: [one["test"][name] for one in asked] for name in ASKED}
    scores = {name: [one["test"] for one in trials] for name, trials in learned.items()}
    for name, values in (*errors.items(), *scores.items()):
        mean, error = mean_and_error(values)
        print(f"{name:16s} {mean:8.3f} +- {error:.3f}")
    same, longer, other = (errors[name] for name in ASKED)
    cd = max((scores[name] for name in ("CD-1", "CD-10")), key=np.mean)
    claims = [
        Claim(
            "asked as it was learned, a machine errs least, and by mean field most",
            f"damped, longer {shown(paired(longer, same), 3)}, mean field {shown(paired(other, same), 3)} % of pixels",
            bool(np.mean(same) < np.mean(longer) < np.mean(other)),
        ),
        Claim(
            "on plain machines CD is ahead of belief propagation with damping",
            f"log-likelihood {shown(paired(cd, scores['MLE-BP, damped']), 2)} nats",
            bool(np.mean(cd) > np.mean(scores["MLE-BP, damped"])),
        ),
        Claim(
            "and belief propagation needs damping there",
            f"damping is worth {shown(paired(scores['MLE-BP, damped'], scores['MLE-BP']), 2)} nats",
            bool(np.mean(scores["MLE-BP, damped"]) > np.mean(scores["MLE-BP"])),
        ),
    ]
    report(
        "Learned through one inference, asked through another", claims, ["digits of 8 x 8 pixels, 1,000 to learn from"]
    )
    save(options.output, "inference_mismatch", {}, {"trials": kept.found, "errors": errors, "scores": scores}, claims)
    return 0


if __name__ == "__main__":
    sys.exit(main())
