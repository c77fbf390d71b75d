"""Which methods there are, and what their words mean."""

from __future__ import annotations

from beliefs.driver import Status
from beliefs.inference.base import Bound, Task
from beliefs.inference.registry import methods
from beliefs.report.page import Markup, Section, code, paragraph, table

__all__ = ["methods_section"]

_QUESTIONS = {
    Task.INFER: "How likely is everything, and each part?",
    Task.MAXIMIZE: "What is the best joint state?",
    Task.MARGINAL_MAP: "What is the best state of these variables, averaging over the rest?",
    Task.SAMPLE: "Show me some states.",
}
_MEANING = {
    Bound.EXACT: "the number is the true value, up to floating-point rounding",
    Bound.UPPER: "the true value is not above the number",
    Bound.LOWER: "the true value is not below the number",
    Bound.ESTIMATE: "the number is near the true value, it is hoped; nothing is certified",
}


def methods_section() -> Section:
    """List the questions, the methods with their guarantees, the bounds and the statuses."""
    listed = methods()
    return Section(
        "Methods and what they promise",
        f"{len(listed)} methods answer {len(Task)} questions, each with a written guarantee; a bound is claimed only "
        "where it holds for the number returned, whether or not the run settled.",
        Markup(
            table(("question", "call"), [(_QUESTIONS[task], code(f"{task.value}(...)")) for task in Task])
            + table(
                ("method", "answers", "guarantee", "cost"),
                [(code(name), tasks, promise, cost) for name, tasks, promise, cost, _ in listed.cells()],
            )
            + paragraph(
                "The word beside a number, ",
                code("result.bound"),
                ", and its sign, which stands between truth and number:",
            )
            + table(("bound", "sign", "meaning"), [(str(b), b.sign, _MEANING[b]) for b in Bound])
            + paragraph("How a run ended, ", code("result.status"), ", and what to try:")
            + table(("status", "advice"), [(str(s), s.advice) for s in Status])
        ),
    )
