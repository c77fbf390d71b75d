r"""What the kernels of generalised dual decomposition read and write, by name.

A junction graph is two sets of tables, those of clusters and those of separators (:class:`Axes`), and the links between
them (:class:`Links`). The iterate is a :class:`Decomposition`, a run's choices are :class:`BlockOptions`, and each
thread has one :class:`Workspace`. Kernels for pairs of variables take the same graph, iterate and options; their links
are records of integers. Kernels that Python calls turn structures to addresses, by
:func:`beliefs.kernels.primitives.memory.addresses`,
before they hand them to their parts.
"""

from __future__ import annotations

from typing import NamedTuple

from beliefs.typing import Bools, Floats, Ints

__all__ = [
    "Axes", "BlockOptions", "Chain", "ChainSteps", "Decomposition", "Links", "Pair", "PairLinks", "PairMemory",
    "PairWorkspace", "Pool", "Workspace",
]  # fmt: skip

# -- numbers ----------------------------------------------------------------------------------------------------------
LOWEST = -1e308  # stands in for the maximum of a column of -inf, so that inf - inf does not arise
TINY = 1e-300  # what a sum or a marginal counts at least, in quotients and logs

# -- steps on shifts --------------------------------------------------------------------------------------------------
LOG_RANGE, SHIFT_RANGE = 30.0, 4.0  # nats: what a marginal near 0 counts at most, in logs or as a shift (the larger)
ARMIJO = 1e-4  # share of the decrease that the slope promises
HALVINGS = 10
FLAT = 1e-13  # relative slope at which a block is solved
ROUNDING = 1e-15  # relative: what a step that only hands tables on may seem to lose
SCALE_CHANGE = 4.0  # factor by which a step scale changes at most, up or down
LEAST_SPREAD = 1e-12  # relative variance of a direction below which no curvature is learnt from it

# -- steps on weights -------------------------------------------------------------------------------------------------
SLOWEST, FASTEST = 1e-3, 1e3  # rates of the exponentiated gradient
FASTER, SLOWER = 2.0, 0.25  # factors of the rate after a step that was accepted, and one that was not
TRIES = 4
SNAP = 1e-7  # share of a weight that becomes 0 where no floor keeps it
LEAST_FREE = 1e-9  # weight above the floors that is worth moving
LARGEST_MOVE = 3.0  # nats: change of one weight in one step

# -- pairs: a link is RECORD integers, in these columns ----------------------------------------------------------------
TABLE, KIND, OWN_SHIFT, OTHER_SHIFT, COLUMNS, OWN_WEIGHT, OTHER_WEIGHT, CLUSTER = 0, 1, 2, 3, 4, 5, 6, 7
RECORD = 8
LATER, POOLED, COUPLED = 0, 1, 2  # kinds: the variable comes later in its cluster; earlier, pooled; earlier, coupled


class Axes(NamedTuple):
    """Tables of several axes each, first eliminated first: those of clusters, or those of separators."""

    ptr: Ints  # (n_tables+1,) axes of each table
    var: Ints  # (n_axes,) variable of each axis
    card: Ints  # (n_axes,) its cardinality
    cell: Ints  # (n_tables+1,) where each table begins


class Links(NamedTuple):
    """The clusters that contain each separator, and how its table lies in theirs."""

    ptr: Ints  # (n_separators+1,) links of each separator
    cluster: Ints  # (n_links,)
    first: Ints  # (n_links,) the cluster's first axis that is in the separator
    size: Ints  # (n_links,) cells of the cluster's table from that axis on
    step: Ints  # (n_links,) ``stride[step + a]`` belongs to axis ``a`` of the cluster
    stride: Ints  # strides in the separator's table, 0 for axes outside; writable, as the strides of factors are


class Chain(NamedTuple):
    """Room for the steps of one power sum; see :func:`beliefs.kernels.dual.tables.power_chain`."""

    z: Floats  # tables, earlier axes eliminated; twice the largest table
    p: Floats  # conditionals, later joint marginals; the same size
    total: Floats  # sums over one axis


class ChainSteps(NamedTuple):
    """Where the steps of all clusters' power sums lie side by side, and the axes of each variable."""

    begin: Ints  # (n_axes+1,) the cells over each axis and the later ones of its cluster
    cluster: Ints  # (n_axes,) the cluster of each axis
    var_ptr: Ints  # (n_vars+1,)
    var_axes: Ints  # (n_axes,)


class Decomposition(NamedTuple):
    """The iterate, and what the updates of each separator leave behind."""

    tables: Floats  # of clusters, with four cells to spare
    weight: Floats  # (n_axes of clusters,)
    sep_tables: Floats
    sep_weight: Floats  # (n_axes of separators,)
    pool_weight: Floats  # (n_axes of separators,) sum over the pooled terms, made in each update
    group_weight: Floats  # (n_axes of separators,) scratch: weights of a group of terms
    step_scale: Floats  # (n_links,) :math:`v_c`, the inverse curvature met in earlier steps
    rate: Floats  # (n_separators,) of the exponentiated gradient
    decrease: Floats  # (n_separators,) of the bound, by the last update
    scores: Floats  # as sep_tables: the pooled table at the last update, whose maximiser is the rounding


class BlockOptions(NamedTuple):
    """What block updates of one sweep are to do."""

    coupled: Bools  # (n_links,) whether the cluster cannot be pooled with the separator
    revisited: Bools  # (n_links,) whether the sweep meets the cluster again
    least: Floats  # (n_axes of separators,) least weight of the variable in any term
    small: Floats  # (n_axes of separators,) weight of a pool that is hardly any
    local_steps: int  # on the shifts of coupled clusters
    moves_weights: bool


class Workspace(NamedTuple):
    """One thread's scratch. Rows are link by link of one separator, heads term by term (its own first) and axis."""

    cell_map: Ints  # cells of each link's cluster -> cells of the separator
    axes: Ints  # places of the separator's variables in each link's cluster
    h: Floats  # clusters' tables, early axes eliminated
    chain: Chain
    belief: Floats  # of the pool
    pooled: Floats  # :math:`B`
    trial_pooled: Floats
    separator_term: Floats  # the pool's change along the direction; in the end the separator's new table
    shift: Floats  # rows
    trial: Floats  # rows: trial shifts
    direction: Floats  # rows
    mu: Floats  # rows: marginals of coupled clusters, :math:`g` of pooled ones
    fresh: Floats  # rows: marginals at the trial shifts; in the end the pooled terms
    entropy: Floats  # heads
    held: Floats  # heads: weights before a step
    proposed: Floats  # heads


class Pair(NamedTuple):
    """A cluster of two variables as a matrix, seen from the variable of its rows."""

    at: int  # where its table begins
    rows: int
    columns: int
    own: int  # where the shifts of the rows begin
    other: int  # where those of the columns begin
    weight: float
    other_weight: float


class PairLinks(NamedTuple):
    """What updates of pairs read and move, as addresses."""

    record: Ints  # RECORD integers a link
    theta: Floats
    shift: Floats  # of all links, variable after variable
    weight: Floats
    step_scale: Floats


class Pool(NamedTuple):
    """The pooled terms of one variable."""

    own_weight: float  # the separator's
    weight: float  # of all
    n_terms: int
    n_revisited: int


class PairWorkspace(NamedTuple):
    """One thread's scratch for pairs, as addresses; all of it has four entries to spare."""

    pooled: Floats
    g: Floats  # rows: what pooled clusters say
    total: Floats
    e: Floats  # exponentials of the coupled clusters of a variable, one after the other; in the second half for trials
    tops: Floats  # maxima of their columns, likewise
    scale: Floats  # factors of rows
    z: Floats
    sums: Floats
    q: Floats
    belief: Floats
    separator_term: Floats
    trial_pooled: Floats
    direction: Floats  # rows
    mu: Floats  # rows
    fresh: Floats  # rows
    entropy: Floats  # term by term
    held: Floats
    proposed: Floats
    trial_e: int  # where trials begin in e
    trial_top: int  # and in tops


class PairMemory(NamedTuple):
    """The memory of one thread's scratch for pairs, as one array: a call with twenty arrays takes longer than some."""

    memory: Floats
    begin: Ints  # where the arrays of a PairWorkspace begin, and where the last one ends
