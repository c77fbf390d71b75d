"""What other libraries call things, and what the same is called here, for errors about a name that is not here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

__all__ = [
    "ESTIMATORS",
    "FIELDS",
    "MACHINES",
    "METRICS",
    "MODELS",
    "NEEDED",
    "NETWORKS",
    "OPTIONS",
    "PACKAGE",
    "RESULTS",
    "WORDS",
    "Hinting",
    "meant",
    "meant_option",
    "meant_word",
    "suggestion",
]

PACKAGE = {
    "BayesNet": "BayesianNetwork",
    "BeliefPropagation": "infer(model, 'bp')",
    "CRF": "ChainCRF, GridCRF or GraphCRF",
    "DiscreteBayesianNetwork": "BayesianNetwork",
    "DiscreteFactor": "Factor",
    "DiscreteMarkovNetwork": "FactorGraph",
    "EdgeFeatureGraphCRF": "GraphCRF",
    "FrankWolfeSSVM": "ChainSVM, GridSVM or GraphSVM, with optimizer='bcfw'",
    "HillClimbSearch": "BNLearner('chow_liu'), of trees alone",
    "JTree": "infer(model, 'junction_tree')",
    "LazyPropagation": "infer",
    "LatentSSVM": "ChainSVM, GridSVM or GraphSVM, with optimizer='cccp'",
    "MarkovNetwork": "FactorGraph",
    "MarkovRandomField": "FactorGraph",
    "NSlackSSVM": "ChainSVM, GridSVM or GraphSVM, with optimizer='n_slack'",
    "OneSlackSSVM": "ChainSVM, GridSVM or GraphSVM, with optimizer='one_slack'",
    "TabularCPD": "BayesianNetwork.from_cpts",
    "VariableElimination": "infer",
    "fastBN": "BayesianNetwork.from_cpts",
    "load": "read",
    "loadBN": "read",
    "load_bn": "datasets.load_bn",
    "logz": "infer(model).log_z",
    "map": "maximize",
    "map_query": "marginal_map",
    "plot_network": "plot.plot_network",
    "query": "infer",
    "read_uai": "read",
    "save": "write",
}

MODELS = {
    "add_evidence": "condition(evidence), or infer(model, evidence=evidence)",
    "add_factor": "with_factors([(variables, log_table)]), a new model",
    "add_factors": "with_factors([(variables, log_table)]), a new model",
    "check_model": "done whenever a model is made",
    "clamp": "condition(evidence)",
    "draw": "plot.plot_network(model)",
    "get_factors": "factors",
    "get_partition_function": "infer(model).log_z, a logarithm",
    "infer": "infer(model, evidence=evidence)",
    "map_query": "marginal_map(model, variables, evidence=evidence)",
    "marginal": "infer(model).marginal(variable)",
    "maximize": "maximize(model, evidence=evidence)",
    "nodes": "names",
    "plot": "plot.plot_network(model)",
    "posterior": "infer(model, evidence=evidence).marginal(variable)",
    "predict": "maximize_many(model, rows), or infer_many(model, rows) for marginals",
    "predict_probability": "infer_many(model, rows).marginal(variable)",
    "query": "infer(model, evidence=evidence).marginal(variable)",
    "save": "write(model, path)",
    "setEvidence": "condition(evidence), or infer(model, evidence=evidence)",
    "simulate": "sample(model, n, evidence=evidence)",
    "to_frame": "infer(model).to_frame() for marginals, sample(model, n).to_frame() for rows",
    "write": "write(model, path)",
}

_TABLES = "BayesianNetwork.from_cpts(variables, {child: (parents, table)}), a new model"
NETWORKS = MODELS | {
    "add_arc": _TABLES,
    "add_cpds": _TABLES,
    "add_edge": _TABLES,
    "add_edges_from": _TABLES,
    "arcs": "edges",
    "cpds": "cpt(variable)",
    "factors": "to_factor_graph().factors",
    "fit": "BNLearner(model).fit(rows).model_",
    "get_children": "children(variable)",
    "get_cpds": "cpt(variable)",
    "get_parents": "parents(variable)",
    "with_factors": "to_factor_graph().with_factors([(variables, log_table)])",
}

_OF_THE_GRAPH = (
    "factors",
    "index",
    "layout",
    "log_score",
    "names",
    "states",
    "theta",
    "with_factors",
    "with_likelihood",
)
MACHINES = MODELS | {name: f"to_factor_graph().{name}" for name in _OF_THE_GRAPH}
MACHINES |= {"get_factors": MACHINES["factors"], "nodes": MACHINES["names"]}
MACHINES |= {name: f"to_factor_graph().{MODELS[name]}" for name in ("add_factor", "add_factors")}

RESULTS = {
    "Z": "log_z, a logarithm",
    "belief": "marginal(variable)",
    "joint": "marginal([variables])",
    "log_likelihood": "log_z",
    "logZ": "log_z",
    "logz": "log_z",
    "map": "maximize(model)",
    "partition_function": "log_z, a logarithm",
    "posterior": "marginal(variable)",
    "plot": "plot.plot_marginals(result)",
    "posteriors": "marginals()",
    "probability": "log_z, a logarithm, of the evidence; marginal(variable) of states",
    "query": "marginal(variable)",
    "score": "log_score",
    "to_csv": "to_frame().to_csv(path)",
    "values": "marginals()",
}

ESTIMATORS = {"bayesian_network": "model_"}

FIELDS = {
    "coef_": "weights_",
    "model_": "model(x), the factor graph of one input",
    "predict_marginals_single": "predict_marginals([x])[0]",
    "predict_single": "predict([x])[0]",
    "state_features_": "describe(); the numbers are in weights_",
    "transition_features_": "describe(); the numbers are in weights_",
}

METRICS = {
    "flat_accuracy_score": "accuracy",
    "flat_classification_report": "classification_report",
    "flat_f1_score": "flat_f1",
}

WORDS = {
    "brute_force": "enumeration",
    "elim": "elimination",
    "frank_wolfe": "bcfw",
    "gibbs_sampling": "gibbs",
    "hinge": "max_margin",
    "jt": "junction_tree",
    "jtree": "junction_tree",
    "l2sgd": "sgd",
    "lazy_propagation": "junction_tree",
    "lbp": "bp",
    "loopy_bp": "bp",
    "lw": "likelihood_weighting",
    "mbe": "mini_bucket",
    "mcmc": "gibbs",
    "mf": "mean_field",
    "nll": "likelihood",
    "subgradient": "sgd",
    "sum_product": "bp",
    "trwbp": "trw",
    "trws": "trw",
    "variable_elimination": "elimination",
    "ve": "elimination",
    "vi": "mean_field",
}

NEEDED = {
    "structure": ": a model, pairs or sets of variables, or the name of a search, such as 'chow_liu'",
}

OPTIONS = {
    "algorithm": ("optimizer", ""),
    "all_possible_states": ("all_pairs", ""),
    "all_possible_transitions": ("all_transitions", ""),
    "c1": ("l1", ", of one token: c1 divided by their number"),
    "c2": ("l2", ", of one token: c2 divided by their number"),
    "epsilon": ("tol", ""),
    "inference_method": ("inference", ""),
    "learner": ("optimizer", ""),
    "lr": ("step", ""),
    "epochs": ("n_iter", ""),
    "max_iterations": ("max_iters", ""),
    "max_iters": ("n_iter", ""),
    "n_hidden": ("n_components", ""),
    "n_iter": ("max_iters", ""),
    "random_state": ("seed", ""),
    "seed": ("random_state", ""),
    "timeout": ("time_limit", ", in seconds"),
    "tolerance": ("tol", ""),
    "verbose": ("progress", ""),
}


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a hint ``; did you mean 'Rain'?`` for a misspelt name, or the empty string."""
    names = list(known)
    small = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(word, names, n=1)
    close = close or [small[name] for name in difflib.get_close_matches(word.lower(), small, n=1)]
    return f"; did you mean {close[0]!r}?" if close else ""


def meant(name: str, elsewhere: Mapping[str, str], known: Iterable[str]) -> str:
    """Return a hint at the name that was meant, if there is one.

    Examples
    --------
    >>> meant("get_cpds", NETWORKS, []), meant("marginal", {}, ["marginals"]), meant("zebra", {}, ["marginals"])
    ('; here it is cpt(variable)', "; did you mean 'marginals'?", '')
    """
    if name.startswith("_"):
        return ""
    if name in elsewhere:
        return f"; here it is {elsewhere[name]}"
    return suggestion(name, known)


def meant_word(word: str, known: Iterable[str]) -> str:
    """Return a hint at the method, loss, optimiser or search that was meant, if there is one.

    Examples
    --------
    >>> meant_word("loopy_BP", ["bp"]), meant_word("jt", ["bp"]), meant_word("BP", ["bp"])
    ('; here it is bp', '', "; did you mean 'bp'?")
    """
    names = list(known)
    here = WORDS.get(word.lower().replace("-", "_"))
    return f"; here it is {here}" if here in names else suggestion(word, names)


def meant_option(name: str, known: Iterable[str]) -> str:
    """Return a hint at the option that was meant, if there is one.

    Examples
    --------
    >>> meant_option("lr", ["step"]), meant_option("stap", ["step"]), meant_option("lr", ["damping"])
    ('; here it is step', "; did you mean 'step'?", '')
    """
    names = list(known)
    here, more = OPTIONS.get(name, ("", ""))
    return f"; here it is {here}{more}" if here in names else suggestion(name, names)


class Hinting:
    """An object that answers a name it does not have by the one that was meant."""

    __slots__ = ()
    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # or any name would pass as an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse a name that is not here."""
            known: Any = () if name.startswith("_") else (word for word in dir(type(self)) if word[0] != "_")
            hint = meant(name, self._elsewhere, known)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")
