"""Which form of a method answers a question about a machine.

A method means the same whatever the model. About a machine some have a form of their own, made of matrix products over
the two layers, that gives what the general one gives on the machine's factor graph (samplers: the same law). A form is
a class below the method it stands for, with the same options, and a row in ``FORMS``. Methods without one are asked
about the factor graph. The other way round, options that only machines have (``needs_machine``) turn a factor graph
into one first.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from beliefs.errors import UnsupportedError
from beliefs.inference.base import Method, Problem
from beliefs.inference.boltzmann.ais import AIS
from beliefs.inference.boltzmann.bp import LayerBP
from beliefs.inference.boltzmann.enumeration import LayerEnumeration
from beliefs.inference.boltzmann.free_units import FreeUnits
from beliefs.inference.boltzmann.gibbs import BlockGibbs
from beliefs.inference.boltzmann.machines import Form, machine_of
from beliefs.inference.boltzmann.mean_field import LayerMeanField
from beliefs.inference.boltzmann.tap import TAP
from beliefs.model.clamped_rbm import ClampedRBM
from beliefs.model.fractional_rbm import FractionalRBM
from beliefs.model.machine import BoltzmannMachine

__all__ = ["FORMS", "is_native", "native"]

FORMS = (LayerEnumeration, LayerMeanField, TAP, LayerBP, BlockGibbs, AIS)
"""Every form, each of the methods above it; the first that answers the question is taken."""


def native(method: Method, problem: Problem) -> tuple[Method, Problem]:
    """Return the form of a method for a problem's model, and the problem with the model that it takes.

    That is the method itself and the problem as it is unless the model is a machine, or must be one. Of a machine with
    observed units the others make the machine that is asked about.
    """
    model = problem.model
    if isinstance(model, ClampedRBM):
        return _clamped(method, problem, model)
    if not isinstance(model, BoltzmannMachine):
        if not method.needs_machine:
            return method, problem
        model = machine_of(model, str(method))
        problem = replace(problem, model=model)
    for form in FORMS:
        if isinstance(method, form.stands_for) and form.takes(problem) and form.serves(method, model):
            if isinstance(method, form):
                return method, problem
            return form(**{f.name: getattr(method, f.name) for f in fields(method)}), problem
    if isinstance(model, FractionalRBM):
        names = sorted({form.name for form in FORMS if problem.task in form.answers and form.takes_fractions})
        instead = "ask to_rbm() instead" if model.is_whole else f"use {' or '.join(names)}"
        raise UnsupportedError(f"{method} does not answer {problem.task.value} about a fractional machine; {instead}")
    return method, problem


def is_native(form: Method) -> bool:
    """Whether a method is a form for machines, which asks for no factor graph."""
    return isinstance(form, Form | FreeUnits)


def _clamped(method: Method, problem: Problem, machine: ClampedRBM) -> tuple[Method, Problem]:
    """Return the form for the units that are not observed, if there are some, and the question about them."""
    if machine.free is not None:
        left = replace(problem, model=machine.free, query=np.searchsorted(machine.free_units, problem.query))
        form, asked = native(method, left)
        if isinstance(form, Form):
            visible = machine.evidence_states[: machine.machine.n_visible] < 0
            return FreeUnits(form=form.about(visible), machine=machine, task=problem.task), asked
    elif method.needs_machine:
        raise UnsupportedError(f"every unit is observed, which leaves {method} nothing to do; use enumeration")
    return method, problem
