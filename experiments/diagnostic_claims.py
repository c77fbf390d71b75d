"""What the paper says about Figures 3.3 and 3.4, held against our curves."""

from __future__ import annotations

from statistics import mean

from curves import Curve
from paper import Claim
from verdicts import best_step, decoding, diverged, free_weights, is_monotone, non_iterative, steps_of, wins

__all__ = ["BUDGET", "Shares", "Study", "of_convergence", "of_decodings", "of_shares"]

BUDGET = 20  # iterations that the paper's claims are about

Study = dict[str, dict[str, Curve]]  # network, then method
Shares = dict[str, dict[str, list[float]]]  # network, then method: the best bound for each share of max nodes


def of_convergence(half: Study) -> list[Claim]:
    """Judge how bounds fall with half of the nodes maximised."""
    return [_gdd_is_monotone(half), _needs_damping(half), _gdd_is_faster(half), _beats_one_pass(half)]


def _gdd_is_monotone(half: Study) -> Claim:
    found = {n: f"{c['GDD'].bound[0]:.1f}, {_after(c['GDD'], 5)}, {_after(c['GDD'], BUDGET)}" for n, c in half.items()}
    rising = [name for name, curves in half.items() if not is_monotone(curves["GDD"])]
    return Claim(
        "GDD converges quickly and monotonically on both networks.",
        f"At the start, after 5 and after {BUDGET} iterations: {_told(found)}. It rises on {_listed(rising)}.",
        not rising,
    )


def _needs_damping(half: Study) -> Claim:
    largest = steps_of(next(iter(half.values())))[-1]
    wild = [name for name, curves in half.items() if diverged(curves[largest])]
    uneven = [name for name, curves in half.items() if not is_monotone(curves[largest])]
    return Claim(
        "WMB does not converge without proper damping.",
        f"{largest} ends above its start on {_listed(wild)} and rises at times on {_listed(uneven)}.",
        bool(wild),
    )


def _gdd_is_faster(half: Study) -> Claim:
    best = {name: best_step(curves, BUDGET) for name, curves in half.items()}
    found = {n: f"{_after(c['GDD'], BUDGET)} and {_after(c[best[n]], BUDGET)} ({best[n]})" for n, c in half.items()}
    free = {name: _after(curves[free_weights(curves)], BUDGET) for name, curves in half.items()}
    return Claim(
        "WMB is slower than GDD even with the best damping ratio found.",
        f"After {BUDGET} iterations, GDD and the best ratio: {_told(found)}. WMB-0.1 with undamped "
        f"weights: {_told(free)}.",
        all(wins(c["GDD"].best_after(BUDGET), c[best[n]].best_after(BUDGET)) for n, c in half.items()),
    )


def _beats_one_pass(half: Study) -> Claim:
    best = {name: best_step(curves, BUDGET) for name, curves in half.items()}
    found = {
        n: f"{_after(c['GDD'], BUDGET)}, {_after(c[best[n]], BUDGET)} and {non_iterative(c):.1f}"
        for n, c in half.items()
    }
    return Claim(
        "WMB and GDD are much tighter than MBE and elimination reordering.",
        f"GDD, WMB with the best ratio, and the better bound of one pass: {_told(found)}.",
        all(c[k].best_after(BUDGET) < non_iterative(c) for n, c in half.items() for k in ("GDD", best[n])),
    )


def of_decodings(half: Study) -> list[Claim]:
    """Judge the values of decodings: the median of the later half of the run."""
    ratio = {name: best_step(curves, BUDGET) for name, curves in half.items()}
    found = {n: f"{decoding(c['GDD']):.1f} and {decoding(c[ratio[n]]):.1f} ({ratio[n]})" for n, c in half.items()}
    better = [decoding(c["GDD"]) >= decoding(c[ratio[n]]) - 1e-6 for n, c in half.items()]
    return [
        Claim(
            "GDD's decodings have a higher value Q; early ones may be impossible because of zeros.",
            f"Median of the later iterations, GDD and WMB with the best ratio: {_told(found)}.",
            all(better),
        )
    ]


def of_shares(shares: list[float], bounds: Shares) -> list[Claim]:
    """Judge the best bounds within the budget as the share of max nodes grows."""
    ratios = steps_of(next(iter(bounds.values())))
    cases = [(name, k) for name in bounds for k in range(len(shares))]
    tightest = {(n, k): min(bounds[n][label][k] for label in ratios) for n, k in cases}
    lost = {
        (n, k): bounds[n]["GDD"][k] - tightest[n, k] for n, k in cases if not wins(bounds[n]["GDD"][k], tightest[n, k])
    }
    pure = [(n, k) for n, k in cases if shares[k] in (0.0, 1.0)]
    mixed = [case for case in cases if case not in pure]

    def behind(label: str, chosen: list[tuple[str, int]]) -> float:
        return mean(bounds[n][label][k] - min(tightest[n, k], bounds[n]["GDD"][k]) for n, k in chosen)

    gaps = {label: behind(label, mixed) for label in ratios}
    return [
        Claim(
            "In all cases GDD's results are as good as WMB's or better (Figure 3.4).",
            f"In {len(cases) - len(lost)} of {len(cases)} cases (network and share), against the best of all ratios. "
            "It is behind on "
            + _listed([f"{n} at {shares[k]:.0%} (by {gap:.1f} nats)" for (n, k), gap in lost.items()])
            + ".",
            not lost,
        ),
        Claim(
            "WMB-0.5 works well for sums (0 %) and MAP (100 %), and very poorly in between.",
            f"Behind the best of GDD and all ratios, {ratios[-1]} is {behind(ratios[-1], pure):.1f} nats at the ends "
            f"and {gaps[ratios[-1]]:.1f} between, on average over networks and shares.",
            behind(ratios[-1], pure) < 1.0 < gaps[ratios[-1]],
        ),
        Claim(
            "Far more heavily damped WMB works better on average, but converges slowly.",
            "Between the ends, nats behind on average: " + ", ".join(f"{k} {v:.1f}" for k, v in gaps.items()) + ".",
            min(gaps.values()) < gaps[ratios[-1]] and min(gaps.values()) > 0,
        ),
    ]


def _after(curve: Curve, iterations: int) -> str:
    return f"{curve.best_after(iterations):.1f}"


def _told(found: dict[str, str]) -> str:
    return "; ".join(f"{name} {text}" for name, text in found.items())


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
