"""What ``method="auto"`` means: exact where the predicted cost fits the budget, else the best approximation."""

from __future__ import annotations

from beliefs.errors import BudgetError
from beliefs.inference.base import Method, Problem, Task
from beliefs.inference.budget import readable_bytes
from beliefs.inference.exact.junction_tree import JunctionTree
from beliefs.inference.messages.bp import BP

__all__ = ["choose"]


def choose(problem: Problem) -> tuple[Method, str]:
    """Return the method to run and the sentence why."""
    exact = JunctionTree()
    order = exact.planned(problem)
    needed = exact.n_bytes(problem)
    cost = f"{order.total_cells:.3g} cells, width {order.width}"
    if needed <= problem.max_bytes:
        return exact, f"exact inference fits: {cost}"
    if problem.task is Task.INFER:
        return BP(), f"exact inference needs {readable_bytes(needed)} ({cost}), over the budget: an estimate instead"
    raise BudgetError(
        f"{problem.task.value} needs {readable_bytes(needed)} ({cost}); the limit is "
        f"{readable_bytes(problem.max_bytes)}. Raise max_bytes or observe more variables"
    )
