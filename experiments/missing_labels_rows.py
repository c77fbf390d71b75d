"""The rows of noisy images as chains: what learners do with missing labels where inference is exact.

    python experiments/missing_labels_rows.py [--quick]

The images, the noise and the hidden labels of ``missing_labels.py``, each row a chain of its own, so that all inference
is exact; with no label hidden the fit also has a certified gap. It tells what is the messages' doing there from what is
the learners'. Prints accuracies on fresh images, means over trials with standard errors; nothing is stored.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from missing_labels import CORNERS, IMAGES, LABELS, TRIALS, VARIANCE, truth
from paper import command_line
from trials import mean_and_error

import beliefs as bl

SHARES = (0.0, 0.1, 0.5, 0.9)


def one(shape: tuple[int, int], images: int, share: float, seed: int, name: str) -> float:
    """Return a learner's accuracy on fresh images, in per cent."""
    rng = np.random.default_rng([seed, 45])
    label = truth(*shape)
    seen = [label + 1.0 + rng.normal(scale=np.sqrt(VARIANCE), size=shape) for _ in range(2 * images)]
    given = [np.where(rng.random(shape) < share, -1, label) for _ in range(images)]
    rows = [row[:, None] for image in seen for row in image]
    labels = [row for image in given for row in image]
    some = [k for k, row in enumerate(labels) if (row >= 0).any()]
    svm = bl.ChainSVM(C=1.0, n_states=LABELS, init="independent", **CORNERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that never occur in a small run
        svm.fit([rows[k] for k in some], [labels[k] for k in some])
    fresh = np.array(svm.predict(rows[images * shape[0] :])).reshape(images, *shape)
    return float(100 * (fresh == label).mean())


def main() -> int:
    options = command_line(__doc__, needs_data=False)
    assert options is not None
    shape, images, trials = ((6, 10), 1, 2) if options.quick else ((20, 40), IMAGES, TRIALS)
    for share in SHARES[:2] if options.quick else SHARES:
        for name in CORNERS:
            mean, error = mean_and_error(np.array([one(shape, images, share, seed, name) for seed in range(trials)]))
            print(f"{share:.0%} hidden: {name} {mean:.1f} +- {error:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
