"""What people from other libraries type is answered by what it is called here."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beliefs as bl
from beliefs.elsewhere import ESTIMATORS, FIELDS, MACHINES, METRICS, MODELS, NETWORKS, OPTIONS, PACKAGE, RESULTS, WORDS
from beliefs.learning.losses.registry import LOSSES
from beliefs.learning.optimizers import OPTIMIZERS

SQUARE = bl.FactorGraph.from_tables([2, 2], [((0, 1), [[1, 2], [3, 4]])])
MACHINE = bl.RBM([[1.0], [-1.0]])
COIN = bl.BayesianNetwork.from_cpts([bl.Variable("Coin", ["head", "tail"])], {"Coin": ([], [0.5, 0.5])})


@pytest.mark.parametrize(
    ("thing", "name", "text"),
    [
        (COIN, "get_cpds", "'BayesianNetwork' object has no attribute 'get_cpds'; here it is cpt(variable)"),
        (COIN, "fit", "; here it is BNLearner(model).fit(rows).model_"),
        (COIN, "parnets", "; did you mean 'parents'?"),
        (COIN, "zebra", "'BayesianNetwork' object has no attribute 'zebra'"),
        (SQUARE, "clamp", "; here it is condition(evidence)"),
        (SQUARE, "get_cpds", "'FactorGraph' object has no attribute 'get_cpds'"),
        (MACHINE, "clamp", "'RBM' object has no attribute 'clamp'; here it is condition(evidence)"),
        (MACHINE, "log_score", "; here it is to_factor_graph().log_score"),
        (MACHINE.condition({"v0": 1}), "with_likelihood", "; here it is to_factor_graph().with_likelihood"),
        (bl.infer(SQUARE), "logz", "; here it is log_z"),
        (bl.infer(SQUARE), "_zebra", "'InferenceResult' object has no attribute '_zebra'"),
        (bl.maximize(SQUARE), "score", "; here it is log_score"),
        (bl.ChainCRF(), "predict_single", "; here it is predict([x])[0]"),
        (bl.ChainCRF(), "model_", "; here it is model(x), the factor graph of one input"),
        (bl.BNClassifier(), "bayesian_network", "; here it is model_"),
        (bl.BernoulliRBM(), "predict_single", "'BernoulliRBM' object has no attribute 'predict_single'"),
        (bl, "JTree", "; here it is infer(model, 'junction_tree')"),
        (bl, "load_bn", "; here it is datasets.load_bn"),
        (bl.io, "load", "module 'beliefs.io' has no attribute 'load'; here it is read"),
        (bl.inference, "inferr", "; did you mean 'infer'?"),
    ],
)
def test_a_name_of_another_library_is_answered_by_ours(thing: Any, name: str, text: str) -> None:
    assert not hasattr(thing, name)
    with pytest.raises(AttributeError) as caught:
        getattr(thing, name)
    assert str(caught.value).endswith(text)


@pytest.mark.parametrize(
    ("words", "owner"),
    [
        (PACKAGE, bl),
        (MODELS, SQUARE),
        (MACHINES, MACHINE),
        (MACHINES, MACHINE.condition({"v0": 1})),
        (NETWORKS, COIN),
        (RESULTS, bl.infer(SQUARE)),
        (FIELDS, bl.ChainCRF()),
        (ESTIMATORS, bl.BNClassifier()),
    ],
)
def test_no_hint_stands_for_a_name_that_exists(words: dict[str, str], owner: Any) -> None:
    assert [name for name in words if hasattr(owner, name)] == []


def test_hints_name_what_there_is() -> None:
    public = {
        name for thing in (bl, COIN, SQUARE, MACHINE, bl.infer(SQUARE), bl.maximize(SQUARE)) for name in dir(thing)
    }
    fitted = {"weights_", "model_", "describe()", "predict([x])[0]", "predict_marginals([x])[0]", "done", "a"}
    for words in (PACKAGE, MODELS, NETWORKS, MACHINES, RESULTS):
        for name, here in words.items():
            first = here.partition("(")[0].partition(".")[0].partition(",")[0].split()[0]
            assert first in public | fitted, (name, here)


@pytest.mark.parametrize("package", [bl, bl.io, bl.inference])
def test_names_that_are_not_loaded_yet_are_completed_and_have_help(package: Any) -> None:
    code = (
        f"import pydoc, {package.__name__} as package; assert set(package.__all__) <= set(dir(package)); "
        "print(pydoc.render_doc(package, renderer=pydoc.plaintext))"
    )
    asked = [sys.executable, "-W", "error", "-c", code]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    for function in {"read", "infer"} & set(package.__all__):
        assert f"    {function}(" in told


def test_models_with_hints_are_copied_and_pickled() -> None:
    for model in (COIN, SQUARE, MACHINE, MACHINE.condition({"h0": 1})):
        assert copy.deepcopy(model) == model == pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize(
    ("cls", "option", "text"),
    [
        (bl.ChainCRF, "c2", "ChainCRF has no option 'c2'; here it is l2, of one token: c2 divided by their number"),
        (bl.ChainCRF, "max_iterations", "; here it is max_iters"),
        (bl.BernoulliRBM, "n_hidden", "; here it is n_components"),
        (bl.BernoulliRBM, "max_iters", "; here it is n_iter"),
        (bl.ConditionalRBM, "seed", "; here it is random_state"),
        (bl.GridSVM, "c2", "; did you mean 'C'?"),
    ],
)
def test_an_option_of_another_library_is_answered_by_ours(cls: Any, option: str, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        cls(**{option: 1})
    assert text in str(caught.value)
    for name, (here, _) in OPTIONS.items():  # one or the other is an option, never both
        assert not {name, here} <= {*cls._get_param_names()} - {
            "verbose"
        }  # which BernoulliRBM has for scikit-learn's sake


def test_all_unknown_options_are_named_at_once_and_one_that_is_needed() -> None:
    untyped: Any = bl
    with pytest.raises(TypeError) as caught:
        untyped.ChainCRF(algorithm="lbfgs", c1=0.1, zebra=1)
    assert str(caught.value) == (
        "ChainCRF has no option 'algorithm' (here it is optimizer), "
        "nor 'c1' (here it is l1, of one token: c1 divided by their number), nor 'zebra'"
    )
    for learner in (untyped.BNLearner, untyped.MRFLearner):
        with pytest.raises(TypeError, match=rf"^{learner.__name__} needs 'structure': a model, .* such as 'chow_liu'$"):
            learner(seed=1)


@pytest.mark.parametrize(("word", "here"), [("jt", "junction_tree"), ("Loopy-BP", "bp"), ("vi", "mean_field")])
def test_methods_by_the_names_of_others(word: str, here: str) -> None:
    with pytest.raises(bl.ModelError, match=f"; here it is {here}\\b"):
        bl.infer(SQUARE, f"{word}()" if word == "jt" else word)
    assert set(WORDS.values()) <= {
        *(method.name for method in bl.inference.METHODS),
        *(loss.name for loss in LOSSES),
        *(optimizer.name for optimizer in OPTIMIZERS),
    }


def test_questions_and_metrics_by_the_names_of_others() -> None:
    untyped: Any = bl
    with pytest.raises(TypeError, match="no keyword 'timeout'; here it is time_limit, in seconds; options of a method"):
        untyped.infer(SQUARE, timeout=1)
    with pytest.raises(bl.ModelError, match=r"found list; marginals of some variables alone: targets=\[\.\.\.\]"):
        untyped.infer(SQUARE, ["x0"])
    with pytest.raises(AttributeError, match="'beliefs.metrics' has no attribute 'flat_f1_score'; here it is flat_f1$"):
        untyped.metrics.flat_f1_score  # noqa: B018
    with pytest.raises(bl.ModelError, match=r"found ChainCRF; scoring= takes metrics\.scorer\(name\)"):
        bl.metrics.flat_f1(bl.ChainCRF(), [])
    assert all(hasattr(bl.metrics, here) and not hasattr(bl.metrics, name) for name, here in METRICS.items())


def test_an_estimator_is_no_model(tmp_path: Path) -> None:
    untyped: Any = bl
    with pytest.raises(bl.ModelError, match=r"found ChainCRF; an estimator is written by its save\(path\)"):
        untyped.write(bl.ChainCRF(), tmp_path / "m.npz")


def test_options_in_text_are_answered_too() -> None:
    with pytest.raises(bl.ModelError, match=r"adam has no option 'lr'; here it is step$"):
        bl.ChainCRF(optimizer="adam(lr=0.1)").fit([np.eye(2)], [np.array([0, 1])])


def test_a_file_of_an_estimator_says_what_it_holds(tmp_path: Path) -> None:
    bl.ChainCRF(max_iters=1).fit([np.eye(2)], [np.array([0, 1])]).save(tmp_path / "m.npz")
    with pytest.raises(bl.FormatError, match=r"m\.npz: the file holds a fitted ChainCRF, which ChainCRF\.load\(path\)"):
        bl.read(tmp_path / "m.npz")


def test_whatever_is_read_may_be_asked(tmp_path: Path) -> None:
    """For mypy, too: this function has no exception from it."""
    machine = bl.CRBM([[1.0]], visible_input=[[2.0]], hidden_input=[[0.0]])
    for model in (COIN, bl.RBM([[1.0]]), machine):
        bl.write(model, tmp_path / "model.npz")
        read = bl.read(tmp_path / "model.npz")
        if isinstance(read, bl.CRBM):
            with pytest.raises(bl.ModelError, match=r"found CRBM; ask the machine given\(x\)"):
                bl.infer(bl.read(tmp_path / "model.npz"))
        else:
            assert bl.infer(read).log_z <= 2.0


def test_answers_are_no_models_and_marginals_come_in_order(tmp_path: Path) -> None:
    answer = bl.infer(SQUARE)
    untyped: Any = bl
    with pytest.raises(bl.ModelError, match=r"found InferenceResult; its model was asked, and io\.uai\.write_solution"):
        untyped.write(answer, tmp_path / "x.uai")
    with pytest.raises(bl.ModelError, match=r"in the order of the variables: \[result\.marginal\(v\) for v in model\]"):
        bl.io.uai.write_solution(tmp_path / "x.MAR", "MAR", answer.marginals())
    for task, part in (("MAR", r"\[result\.marginal\(v\) for v in model\]"), ("PR", r"result\.log_z")):
        with pytest.raises(bl.ModelError, match=f"{task} is made of arrays, found InferenceResult; give {part}$"):
            bl.io.uai.write_solution(tmp_path / "x.MAR", task, answer)
    bl.io.uai.write_solution(tmp_path / "x.MAR", "MAR", [answer.marginal(v) for v in SQUARE])
    assert (tmp_path / "x.MAR").read_text().startswith("MAR\n2 2 ")


def test_one_input_in_place_of_a_list_is_named_by_fit() -> None:
    for wrong in (
        lambda: bl.ChainCRF().fit(np.eye(3), [0, 1, 0]),
        lambda: bl.GridCRF().fit(np.eye(3), np.eye(3, dtype=int)),
    ):
        with pytest.raises(bl.ModelError, match=r"^X is a single input; pass a list of inputs, \[X\]$"):
            wrong()
    with pytest.raises(bl.ModelError, match="instance 0: labels must have shape"):  # a list of one image is a list
        bl.GridCRF().fit([np.eye(3)], [np.zeros((3, 2), int)])


def test_traces_and_fits_are_short_in_print() -> None:
    fit = bl.BNLearner(COIN).fit([[0], [1], [-1]])
    assert str(bl.infer(SQUARE).trace) == "Trace(1 rows of iteration, seconds, residual, log_z, lower, upper)"
    assert str(fit.result_.trace).startswith("FitTrace(") and "array" not in repr(fit.result_)
    assert repr(fit.result_).startswith("JointFit\n  log-likelihood ")
