"""Models to try things on: random generators (``make_*``), networks by name (``load_bn``), data that lies elsewhere."""

from beliefs.datasets.corruption import flip_pixels, occlude
from beliefs.datasets.denoising import black_and_white, load_pictures, make_noisy
from beliefs.datasets.edges import chain_edges, complete_edges, delaunay_edges, grid_edges
from beliefs.datasets.grids import make_distance_grid, make_grid, make_ising_grid, make_potts_grid
from beliefs.datasets.home import data_home
from beliefs.datasets.k_trees import k_tree_edges, make_k_tree, make_partial_k_tree, partial_k_tree_edges
from beliefs.datasets.learning import make_hidden_chain, make_hidden_grid, make_ladder
from beliefs.datasets.networks import bn_names, load_bn, make_traffic
from beliefs.datasets.pairwise import make_pairwise
from beliefs.datasets.random_graphs import make_complete, make_delaunay, make_random_factor_graph
from beliefs.datasets.rbm import make_rbm
from beliefs.datasets.trees import make_chain, make_star, make_tree, tree_edges
from beliefs.datasets.uai import UaiInstance, load_uai, uai_instances

__all__ = [
    "UaiInstance",
    "black_and_white",
    "bn_names",
    "chain_edges",
    "complete_edges",
    "data_home",
    "delaunay_edges",
    "flip_pixels",
    "grid_edges",
    "k_tree_edges",
    "load_bn",
    "load_pictures",
    "load_uai",
    "make_chain",
    "make_complete",
    "make_delaunay",
    "make_distance_grid",
    "make_grid",
    "make_hidden_chain",
    "make_hidden_grid",
    "make_ising_grid",
    "make_k_tree",
    "make_ladder",
    "make_noisy",
    "make_pairwise",
    "make_partial_k_tree",
    "make_potts_grid",
    "make_random_factor_graph",
    "make_rbm",
    "make_star",
    "make_traffic",
    "make_tree",
    "occlude",
    "partial_k_tree_edges",
    "tree_edges",
    "uai_instances",
]
