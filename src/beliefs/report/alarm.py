"""A monitored patient: the network ``alarm`` with and without evidence, asked all that can be asked."""

from __future__ import annotations

import math

import numpy as np

from beliefs.datasets import load_bn
from beliefs.inference.doors import infer, marginal_map, maximize
from beliefs.inference.result import InferenceResult
from beliefs.inference.states_result import MapResult, MarginalMapResult
from beliefs.model.bayes_net import BayesianNetwork
from beliefs.model.graph import FactorGraph
from beliefs.plot import marginal_change, plot_marginals, plot_network
from beliefs.report.page import (
    Markup,
    Section,
    beside,
    code,
    number,
    paragraph,
    picture,
    seconds,
    significant,
    table,
)

__all__ = ["DIAGNOSES", "EVIDENCE", "alarm_section"]

EVIDENCE = {"HRBP": "HIGH", "BP": "LOW", "CVP": "HIGH", "MINVOL": "LOW", "SAO2": "LOW"}
"""Fast pulse, low blood pressure, high venous pressure, little air moved, little oxygen."""

DIAGNOSES = (
    "HYPOVOLEMIA",
    "LVFAILURE",
    "ANAPHYLAXIS",
    "INSUFFANESTH",
    "INTUBATION",
    "KINKEDTUBE",
    "DISCONNECT",
    "PULMEMBOLUS",
)
"""The faults that the network was built to tell apart."""


def alarm_section() -> Section:
    """Draw the network, its marginals before and after the evidence, and the best explanations."""
    network = load_bn("alarm")
    seen = network.condition(EVIDENCE)
    before, after = infer(network), infer(seen)
    best, diagnosis = maximize(seen), marginal_map(seen, DIAGNOSES)
    step = [np.abs(after.marginal(name) - before.marginal(name)) for name in DIAGNOSES]
    name = DIAGNOSES[int(np.argmax([s.max() for s in step]))]
    rise = after.marginal(name) - before.marginal(name)
    state = int(rise.argmax())
    return Section(
        "A patient in trouble",
        f"{len(EVIDENCE)} observations, together 1 case in {significant(math.exp(-after.log_z), 3)} by the network, "
        f"point to {name} = {network.graph.naming.states(network.index(name))[state]} above all: its probability goes "
        f"from {number(before.marginal(name)[state], 3)} to {number(after.marginal(name)[state], 3)}. "
        "All numbers are exact.",
        Markup(
            _opening(network)
            + _network_pictures(network, before, after)
            + _answers(seen, after)
            + _diagnoses(before, after)
            + _explanations(after, best, diagnosis)
        ),
    )


def _opening(network: BayesianNetwork) -> str:
    observed = ", ".join(f"{name} = {state}" for name, state in EVIDENCE.items())
    return paragraph(
        f"ALARM watches over an anaesthetised patient: {network.n_vars} variables, {len(network.edges)} arcs, "
        f"{network.graph.layout.n_cells} table entries. The monitors now show {observed}. "
        "Evidence enters by one call, and every question is one more:"
    ) + code(
        "seen = network.condition({'HRBP': 'HIGH', 'BP': 'LOW', ...})\n"
        "infer(seen)                 # log P(evidence) and all marginals\n"
        "maximize(seen)              # the most probable state of everything\n"
        "marginal_map(seen, faults)  # the most probable faults, the rest summed out"
    )


def _network_pictures(network: BayesianNetwork, before: InferenceResult, after: InferenceResult) -> str:
    change = marginal_change(before, after)
    still = sum(change[v] < 0.01 for v in range(network.n_vars) if v not in after.graph.evidence)
    prior, posterior = plot_network(network, before), plot_network(network, after, prior=before)
    return picture(
        prior,
        "The alarm network as a layered graph, coloured by entropy",
        "Before any observation. Arcs point from cause to effect; the bluer a variable, the less certain its state.",
        pixels=860,
    ) + picture(
        posterior,
        "The alarm network with five observed variables, coloured by change",
        "After the observations (dark, with the observed state). The more orange a variable, the more its marginal "
        f"has moved; {still} of the {network.n_vars - len(EVIDENCE)} unobserved ones moved by less than 0.01.",
        pixels=860,
    )


def _answers(seen: FactorGraph, after: InferenceResult) -> str:
    again = infer(seen, "elimination")
    apart = abs(after.log_z - again.log_z)
    agreement = f"agrees within {significant(apart)}" if apart else "agrees to the last digit"
    rows = [
        ("log P(evidence)", f"{after.bound.sign} {number(after.log_z, 6)}", f"{after.bound}"),
        ("P(evidence)", f"{after.bound.sign} {significant(math.exp(after.log_z), 4)}", f"{after.bound}"),
        ("the same by elimination", f"{again.bound.sign} {number(again.log_z, 6)}", f"{again.bound}; {agreement}"),
        ("method", code(str(after.method)), after.reason),
        ("time", seconds(after.seconds), "planning, log P(evidence) and all marginals"),
    ]
    return "<h3>How likely is this?</h3>\n" + table(("", "", ""), rows)


def _diagnoses(before: InferenceResult, after: InferenceResult) -> str:
    naming = after.graph.naming
    rows: list[tuple[str, ...]] = []
    marked: list[int] = []
    for name in DIAGNOSES:
        for x, label in enumerate(naming.states(after.graph.index(name))):
            p, q = float(before.marginal(name)[x]), float(after.marginal(name)[x])
            if label in ("FALSE", "NORMAL"):
                continue
            marked += [len(rows)] if abs(q - p) > 0.1 else []
            rows.append((name, label, number(p, 4), number(q, 4), f"{'+' if q > p else ''}{number(q - p, 4)}"))
    bars = plot_marginals(after, ["HYPOVOLEMIA", "LVFAILURE", "INTUBATION", "VENTALV", "CO"], prior=before)
    return (
        "<h3>Which fault?</h3>\n"
        + paragraph("Probabilities of the eight faults; those that moved by more than 0.1 are marked.")
        + beside(
            table(("fault", "state", "before", "after", "change"), rows, numeric=(2, 3, 4), marked=marked),
            picture(
                bars,
                "Bars: marginals before and after the evidence",
                "Marginals before and after; the number is the probability after.",
                pixels=460,
            ),
        )
    )


def _explanations(after: InferenceResult, best: MapResult, diagnosis: MarginalMapResult) -> str:
    naming = after.graph.naming
    likeliest = after.mpm()
    each = {name: naming.label(v, int(likeliest[v])) for v, name in ((after.graph.index(n), n) for n in DIAGNOSES)}
    joint, rest_summed = best.states(), diagnosis.states()
    rows = [(name, each[name], joint[name], rest_summed[name]) for name in DIAGNOSES]
    differ = [k for k, row in enumerate(rows) if len(set(row[1:])) > 1]
    values = (
        "log value",
        "",
        f"= {number(best.log_score, 4)} (gap {best.gap:g})",
        f"{diagnosis.value_bound.sign} {number(diagnosis.log_value, 4)} (gap {diagnosis.gap:g})",
    )
    said = (
        "The questions differ, and so do the answers where marked: the single best joint state of all variables need "
        "not hold the best diagnosis, because many joint states share a diagnosis and their probabilities add up."
        if differ
        else "Here the three questions have one answer; in general they need not."
    )
    head = ("fault", "each by itself", "best state of everything", "best diagnosis, the rest summed out")
    calls = (code("infer(seen).mpm()"), ", ", code("maximize(seen)"), " and ", code("marginal_map(seen, faults)"))
    return (
        "<h3>The best explanation</h3>\n"
        + paragraph(said, " The columns are ", *calls, "; a gap of 0 is a proof that nothing is better.")
        + table(head, [*rows, values], marked=differ)
    )
