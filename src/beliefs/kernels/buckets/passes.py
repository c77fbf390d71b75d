r"""Passes over a mini-bucket tree: forward, with matching or without, backward, and reading off an assignment.

Clusters come children first, the replicas of a variable together; ``weight (n_clusters,)`` is the weight of each
replica. ``tables`` holds the slots of factors, of cost shifts (one vector a replica of a split variable) and of
messages; ``back`` is laid out alike and holds backward messages at the messages' slots. Formulas are those of
:mod:`beliefs.inference.buckets.wmb`.
"""

from __future__ import annotations

import math

import numpy as np

from beliefs.kernels._jit import kernel
from beliefs.kernels.buckets.weighted import BucketScratch, eliminate_bucket, measure_bucket
from beliefs.kernels.primitives.elementary import fast_exp, fast_log
from beliefs.kernels.trees.blocks import (
    RUN,
    SCALAR,
    TILED,
    Tree,
    add_block,
    advance,
    cluster_view,
    rewind,
    sum_block,
)
from beliefs.kernels.trees.log import add_operands
from beliefs.kernels.trees.replicas import end_of_replicas
from beliefs.typing import BlockMaps, Floats, Ints

__all__ = ["backward_pass", "decode_buckets", "forward_pass"]

_LEAST_WEIGHT = 1e-6  # share of its variable's temperature that a replica keeps
_MOST_WEIGHT = 100.0  # of a negative one, relative to the temperature; more only up to the span of the potentials
_MOST_SHIFT = 8.0  # relative to that span
_SMOOTH = 0.1  # temperature at which sums receive the max-marginal of a parent


@kernel
def _shift(
    moment: Floats, share: Floats, n: int, k: int, step: float, far: float, most: float, at: Ints, tables: Floats
) -> None:
    """Move the replicas' log marginals towards their mean of weights ``share``: ``tables[at[r]] += ...``, sum zero.

    For sums ``share`` is the weights and the increments are ``w_r (mean - log q_r)``; for maxima (all shares 0) plain
    averages of max-marginals. A state that some replica excludes is left alone. Log marginals further than ``far``
    from the mean count as that far. ``moment`` is overwritten with the increments. They are cut where a shift would
    grow beyond ``most``: digits that large shifts take away from the potentials do not come back.
    """
    total = 0.0
    for r in range(n):
        total += share[r]
    for x in range(k):
        mean, possible = 0.0, True
        for r in range(n):
            possible &= moment[r * k + x] > -math.inf
            mean += (share[r] / total if total != 0.0 else 1.0 / n) * moment[r * k + x]
        if not possible:
            continue
        near, within = 0.0, 1.0
        for r in range(n):
            moment[r * k + x] = mean + min(max(moment[r * k + x] - mean, -far), far)
            near += (share[r] / total if total != 0.0 else 1.0 / n) * moment[r * k + x]
        for r in range(n):
            scale = share[r] if total != 0.0 else 1.0
            moment[r * k + x] = step * scale * (near - moment[r * k + x])
            old = abs(tables[at[r] + x])
            if abs(tables[at[r] + x] + moment[r * k + x]) > max(most, old):
                within = min(within, max(most - old, 0.0) / abs(moment[r * k + x]))
        for r in range(n):
            tables[at[r] + x] += within * moment[r * k + x]


@kernel
def _move_weights(weight: Floats, entropy: Floats, step: float, span: float) -> None:
    """Exponentiated gradient on the weights of one variable; their sum stays.

    Positive weights: ``w_r *= exp(-step * w_r * (H_r - mean H))``, normalised. With negative ones (the first is the one
    positive): ascent on the logarithms of the others, ``w_r *= exp(step * w_r * (H_r - H_0))``, and the first takes up
    the difference. Beyond the ``span`` of the potentials a weight changes nothing but the rounding.
    """
    n = weight.size
    total, mean, lower = 0.0, 0.0, False
    for r in range(n):
        total += weight[r]
        mean += weight[r] * entropy[r]
        lower |= weight[r] < 0.0
    if lower:
        weight[0] = total
        for r in range(1, n):
            change = step * weight[r] * (entropy[r] - entropy[0])
            weight[r] *= math.exp(min(max(change, -1.0), 1.0))
            weight[r] = max(weight[r], -max(_MOST_WEIGHT * total, span))
            weight[0] -= weight[r]
        return
    mean /= total
    scale = 0.0
    for r in range(n):
        change = -step * weight[r] * (entropy[r] - mean)
        weight[r] = max(weight[r] * math.exp(min(max(change, -1.0), 1.0)), _LEAST_WEIGHT * total)
        scale += weight[r]
    for r in range(n):
        weight[r] *= total / scale


@kernel
def forward_pass(
    tree: Tree,
    shift_at: Ints,
    step: float,
    far: float,
    weight_step: float,
    span: float,
    weight: Floats,
    tables: Floats,
    back: Floats,
    scratch: BucketScratch,
) -> float:
    """Send all messages to the roots, matching the replicas of each variable on the way; return the roots' sum.

    With ``step`` and ``weight_step`` 0 nothing is matched. ``-inf`` as soon as a message is ``-inf`` throughout (for a
    negative weight: anywhere). Equivalent, bucket by bucket, to ``w * logsumexp(sum(operands) / w, axis=0)``.
    ``shift_at (n_clusters,)`` is where a replica's cost shift begins in ``tables``, -1 for a variable of one replica;
    ``far`` is how much a log marginal may differ from the others' and be believed; ``span`` is the sum of the ranges of
    all potentials, beyond which neither shifts nor weights have any business. Ended by ``tree.stop`` it returns nan and
    leaves shifts and weights half moved.
    Cost: of variables that are matched, three ``exp`` a cell; of the others, one.
    """
    total, c = 0.0, 0
    moment, entropy = scratch.moment, scratch.entropy
    while c < tree.block.size:
        if tree.stop[0] != 0:
            return math.nan
        end, k = end_of_replicas(tree, c), tree.axes_card[tree.axes_ptr[c]]
        n = end - c
        if n > 1 and (step > 0.0 or weight_step > 0.0):
            for r in range(n):
                own = moment[r * k : (r + 1) * k]
                entropy[r] = measure_bucket(tree, c + r, weight[c + r], tables, back, scratch, own)
            _shift(moment, weight[c:end], n, k, step, far, _MOST_SHIFT * span, shift_at[c:end], tables)
            if weight_step > 0.0 and weight[c] != 0.0:
                _move_weights(weight[c:end], entropy[:n], weight_step, span)
        for r in range(c, end):
            extreme = eliminate_bucket(tree, r, weight[r], tables, scratch)
            if extreme == -math.inf:
                return -math.inf
            if tree.axes_ptr[r + 1] - tree.axes_ptr[r] == 1:  # nothing is left: a root
                total += tables[tree.slot_ptr[tree.op_slot[tree.op_ptr[r + 1] - 1]]]
        c = end
    return total


@kernel
def max_block(mode: int, cells: BlockMaps, inner: int, block: Floats, at: int, target: Floats) -> None:
    """Raise an operand's slot at offset ``at`` to the maximum over a block.

    Equivalent to ``np.maximum.at(target, at + map, block)``; the arguments are those of ``add_block``.
    """
    size = block.size
    if mode == SCALAR:
        top = target[at]
        for i in range(size):
            top = max(top, block[i])
        target[at] = top
    elif mode == RUN or mode == TILED:
        run = target[at : at + min(inner, size)]
        for t in range(0, size, run.size):
            part = block[t : t + run.size]
            for i in range(run.size):
                run[i] = max(run[i], part[i])
    else:
        run = target[at : at + inner]
        for start in range(0, size, inner):
            row = cells[start : start + inner]
            for j in range(inner):
                run[j] = max(run[j], block[row[j]])


@kernel
def _send_back(
    own: Floats, message: Floats, weight: float, parent_weight: float, ratio: float, root: bool, back: Floats
) -> None:
    """Send a parent's belief of a separator, or (weight 0) its max-marginal, to the child as the backward message.

    ``own`` becomes the belief of the separator where ``weight`` is not 0; ``ratio`` is that of the weights where both
    are 0.
    """
    if root:
        back[:] = 0.0
        own[:] = 1.0
        return
    if parent_weight == 0.0:
        top = -math.inf
        for s in range(own.size):
            top = max(top, own[s])
        if weight == 0.0:
            for s in range(own.size):
                back[s] = ratio * own[s] - message[s] if message[s] > -math.inf and own[s] > -math.inf else 0.0
            return
        total = 0.0
        for s in range(own.size):
            own[s] = fast_exp((own[s] - top) / _SMOOTH) if top > -math.inf else 1.0
            total += own[s]
        for s in range(own.size):
            own[s] /= total
    for s in range(own.size):
        back[s] = weight * fast_log(max(own[s], 1e-300)) - message[s] if message[s] > -math.inf else 0.0


@kernel
def backward_pass(
    tree: Tree,
    first_message: int,
    parent: Ints,
    replicas: Ints,
    weight: Floats,
    tables: Floats,
    back: Floats,
    held: Floats,
    scratch: BucketScratch,
) -> None:
    """Send beliefs from the roots to the leaves, as backward messages at the slots of messages.

    ``first_message`` is the first slot that is not a factor's or a shift's; ``parent (n_clusters,)``; ``replicas
    (n_clusters,)`` how many its variable has, for weights of 0 count as equal ones that go to 0. ``held``,
    zeros and as long as all messages, is for linear beliefs, or max-marginals below a cluster of weight 0. Cost: one
    ``exp`` a cell of the clusters that have children.
    """
    offset, digit, maps, slot_ptr = scratch.offset, scratch.digit, tree.maps, tree.slot_ptr
    start = slot_ptr[first_message]
    for c in range(tree.block.size - 1, -1, -1):
        if tree.stop[0] != 0:
            return
        slots, modes, starts, inner, extents, strides, n_fast = cluster_view(tree, c)
        n_ops, size, n_outer, w = slots.size - 1, tree.block[c], tree.n_outer[c], weight[c]
        base, end = slot_ptr[slots[n_ops]], slot_ptr[slots[n_ops] + 1]
        message, own = tables[base:end], held[base - start : end - start]
        above, ratio = 1.0, 1.0
        if parent[c] >= 0:
            above, ratio = weight[parent[c]], replicas[parent[c]] / replicas[c]
        _send_back(own, message, w, above, ratio, parent[c] < 0, back[base:end])
        n_children = 0
        for k in range(n_ops):
            if slots[k] >= first_message:
                n_children += 1
                if w == 0.0:
                    held[slot_ptr[slots[k]] - start : slot_ptr[slots[k] + 1] - start] = -math.inf
        if n_children == 0:
            continue
        rewind(slots, slot_ptr, n_outer, offset, digit)
        block = scratch.base[:size]
        inverse = 0.0 if w == 0.0 else 1.0 / w
        for _ in range(tree.cell_ptr[c], tree.cell_ptr[c + 1], size):
            add_operands(modes, starts, maps, n_ops, offset, tables, block)
            at = offset[n_ops] - base
            here, belief, behind = message[at : at + size], own[at : at + size], back[base + at : base + at + size]
            if w == 0.0:
                for i in range(size):
                    block[i] += behind[i]
            else:
                for i in range(size):
                    top = here[i] if here[i] > -math.inf else 0.0
                    block[i] = belief[i] * fast_exp((block[i] - top) * inverse)
            total = 0.0 if w == 0.0 else sum_block(block)
            for k in range(n_ops):
                if slots[k] >= first_message:
                    cells = maps[starts[k] + size : starts[k] + 2 * size]
                    if w == 0.0:
                        max_block(modes[k], cells, inner[k], block, offset[k] - start, held)
                    else:
                        add_block(modes[k], cells, inner[k], block, total, offset[k] - start, held)
            advance(extents, n_fast, n_outer, strides, n_ops + 1, offset, digit)


@kernel
def decode_buckets(tree: Tree, weight: Floats, tables: Floats, states: Ints) -> None:
    """Choose states of the variables of weight 0, last eliminated first: the maximiser of the sum over its replicas.

    ``states (n_vars,)`` is read at later variables and written; ties go to the smallest index. Cost: operands times
    states.
    """
    most = 1
    for c in range(tree.block.size):
        most = max(most, tree.axes_card[tree.axes_ptr[c]])
    score = np.zeros(most)
    for c in range(tree.block.size - 1, -1, -1):
        first, last = tree.axes_ptr[c], tree.axes_ptr[c + 1]
        width, k, v = last - first, tree.axes_card[first], tree.axes_var[first]
        if weight[c] != 0.0:
            continue
        for o in range(tree.op_ptr[c], tree.op_ptr[c + 1] - 1):
            at = tree.slot_ptr[tree.op_slot[o]]
            for a in range(1, width):
                at += states[tree.axes_var[first + a]] * tree.op_stride[tree.stride_ptr[o] + a]
            for x in range(k):
                score[x] += tables[at + x * tree.op_stride[tree.stride_ptr[o]]]
        if c == 0 or tree.axes_var[tree.axes_ptr[c - 1]] != v:
            best = 0
            for x in range(1, k):
                if score[x] > score[best]:
                    best = x
            states[v] = best
            score[:] = 0.0
