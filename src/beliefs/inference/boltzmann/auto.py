"""What ``method="auto"`` means for a machine: a layer enumerated where it is small, else weights or chains."""

from __future__ import annotations

from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.boltzmann.ais import AIS
from beliefs.inference.boltzmann.enumeration import AUTOMATIC, enumerated_units
from beliefs.inference.exact.enumeration import Enumeration
from beliefs.inference.sampling.gibbs import Gibbs
from beliefs.inference.variational.mean_field import MeanField
from beliefs.model.clamped_rbm import ClampedRBM
from beliefs.model.machine import BoltzmannMachine
from beliefs.model.rbm import RBM

__all__ = ["at_any_time", "choose_for_machine"]


def choose_for_machine(problem: Problem) -> tuple[Method, str]:
    """Return the method to run and the sentence why."""
    machine = problem.model.free if isinstance(problem.model, ClampedRBM) else problem.model
    if machine is None:
        return Enumeration(), "every unit is observed"
    assert isinstance(machine, BoltzmannMachine)
    layer = "smaller" if isinstance(machine, RBM) else "visible"
    k = enumerated_units(machine)
    if k <= AUTOMATIC:
        return Enumeration(), f"exact inference fits: the {layer} layer has {k} units"
    reason = f"the {layer} layer has {k} units, and {AUTOMATIC} can be enumerated"
    if problem.task is Task.SAMPLE:
        return Gibbs(), f"{reason}: a Markov chain instead"
    return AIS(), f"{reason}: annealed importance sampling instead"


def at_any_time(problem: Problem) -> Method:
    """Return what has an answer whenever the time is over."""
    return MeanField() if isinstance(problem.model, RBM | ClampedRBM) and problem.task is Task.INFER else Gibbs()
