"""A network for the unary potentials of a grid, trained through the inference of the grid, on the Weizmann horses.

Four models on the same small pictures: a convolutional network alone, the linear CRF (``GridCRF``, pixels and position
as features), a CRF on the network's frozen scores, and network and CRF trained together by the logistic loss of
truncated TRW marginals, through ``beliefs.torch``. All are measured by pixel error on horses none has seen.
"""

from __future__ import annotations

import copy
import tarfile
import time
from pathlib import Path

import numpy as np
import torch
from archives import image_of
from paper import Claim, command_line, report, save
from PIL import Image

import beliefs as bl
from beliefs.torch import marginals

ODD, EVEN = "images/weizmann_horses_gray_mask_odd.tar", "images/weizmann_horses_gray_mask_even.tar"
SWEEPS = 5


def pictures(archive: Path, size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures ``(n, size, size)`` with mean 0 and deviation 1 each, and masks of horses."""
    grey, masks = [], []
    with tarfile.open(archive) as tar:
        names = sorted(name for name in tar.getnames() if "figure_ground" in name and name.endswith(".jpg"))[:most]
        for name in names:
            picture, mask = (
                image_of(tar, found).convert("L").resize((size, size), Image.Resampling.BOX)
                for found in (name.replace("figure_ground", "gray"), name)
            )
            values = np.asarray(picture, float)
            grey.append((values - values.mean()) / (values.std() + 1e-6))
            masks.append(np.asarray(mask) > 127)
    return np.array(grey), np.array(masks).astype(np.int64)


def features(grey: np.ndarray) -> list[np.ndarray]:
    """Grey value, its square and the position, polynomially: what the linear CRF sees."""
    size = grey.shape[1]
    r, c = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size), indexing="ij")
    place = [r, c, r * r, c * c, r * c]
    return [np.stack([g, g * g, *place], axis=-1) for g in grey]


class Network(torch.nn.Module):
    """Scores of both labels at every pixel, from the picture and the position."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for k, dilation in enumerate((1, 2, 4, 8, 1)):
            layers += [
                torch.nn.Conv2d(3 if k == 0 else width, width, 3, padding=dilation, dilation=dilation),
                torch.nn.ReLU(),
            ]
        self.body = torch.nn.Sequential(*layers, torch.nn.Conv2d(width, 2, 1))

    def forward(self, grey: torch.Tensor) -> torch.Tensor:
        n, size = grey.shape[:2]
        at = torch.linspace(-1, 1, size)
        place = torch.stack(torch.meshgrid(at, at, indexing="ij")).expand(n, 2, size, size)
        found: torch.Tensor = self.body(torch.cat([grey[:, None], place], 1))
        return found.permute(0, 2, 3, 1)  # (n, size, size, 2)


class Field(torch.nn.Module):
    """A grid over the network's scores: edges have a table each direction, and one that fades with the contrast."""

    def __init__(self, size: int) -> None:
        super().__init__()
        index = np.arange(size * size).reshape(size, size)
        across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], 1)
        down = np.stack([index[:-1].ravel(), index[1:].ravel()], 1)
        self.edges = torch.from_numpy(np.concatenate([across, down]))
        self.kind = torch.tensor([0] * len(across) + [1] * len(down))
        tables = np.zeros((len(self.edges), 2, 2))
        self.graph = bl.FactorGraph.pairwise(np.zeros((size * size, 2)), self.edges.numpy(), tables)
        self.tables = torch.nn.Parameter(torch.tensor([[[0.3, -0.3], [-0.3, 0.3]]] * 4))

    def theta(self, scores: torch.Tensor, grey: torch.Tensor) -> torch.Tensor:
        flat = grey.reshape(len(grey), -1)
        contrast = torch.exp(-((flat[:, self.edges[:, 0]] - flat[:, self.edges[:, 1]]) ** 2))
        pairs = self.tables[self.kind] + contrast[..., None, None] * self.tables[2 + self.kind]
        return torch.cat([scores.reshape(len(grey), -1), pairs.reshape(len(grey), -1)], 1)

    def forward(self, scores: torch.Tensor, grey: torch.Tensor) -> torch.Tensor:
        found = marginals(self.theta(scores, grey), self.graph, "trw(schedule=color_or_tree)", n_sweeps=SWEEPS)
        return found.mu_var.reshape(scores.shape).clamp_min(1e-6)


def train(parameters: list, log_probabilities, data: tuple, passes: int, step: float, batch: int = 8) -> None:
    """Minimise the mean negative log-probability of the labels by Adam, with random mirror images."""
    grey, masks = data
    optimizer = torch.optim.Adam(parameters, lr=step)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, step, total_steps=passes * -(-len(grey) // batch))
    draw = torch.Generator().manual_seed(0)
    for _ in range(passes):
        for some in torch.randperm(len(grey), generator=draw).split(batch):
            x, y = grey[some], masks[some]
            if torch.rand((), generator=draw) < 0.5:
                x, y = x.flip(2), y.flip(2)
            loss = -log_probabilities(x).gather(3, y[..., None]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def main() -> None:
    options = command_line(__doc__, needs_data=True, needs=ODD)
    if options is None:
        return
    size, most, passes = (24, 20, 4) if options.quick else (40, 164, 24)
    torch.manual_seed(0)
    (x, y), (u, v) = (pictures(options.data / name, size, most) for name in (ODD, EVEN))
    grey, masks, unseen = torch.tensor(x).float(), torch.tensor(y), torch.tensor(u).float()
    shown: dict[str, np.ndarray] = {}
    seconds: dict[str, float] = {}

    def done(name: str, began: float, labels: np.ndarray) -> None:
        shown[name], seconds[name] = labels, time.perf_counter() - began
        print(f"{name:26s} {100 * np.mean(labels != v):6.2f} % wrong, {seconds[name]:5.0f} s", flush=True)

    done("all background", time.perf_counter(), np.zeros_like(v))
    began = time.perf_counter()
    linear = bl.GridCRF(loss="clique_logistic", inference="trw", n_sweeps=SWEEPS, max_iters=10 if options.quick else 60)
    linear.fit(features(x), list(y))
    done("linear CRF", began, np.array(linear.predict(features(u))))

    network, field = Network(), Field(size)
    began = time.perf_counter()
    train(list(network.parameters()), lambda g: network(g).log_softmax(3), (grey, masks), passes, 3e-3)
    alone = copy.deepcopy(network)  # has as many passes as the network in the field
    train(list(alone.parameters()), lambda g: alone(g).log_softmax(3), (grey, masks), passes // 2, 2e-3)
    with torch.no_grad():
        done("network alone", began, alone(unseen).argmax(3).numpy())
    began = time.perf_counter()
    train(list(field.parameters()), lambda g: field(network(g).detach(), g).log(), (grey, masks), passes // 8 + 1, 3e-2)
    with torch.no_grad():
        done("CRF on the frozen network", began, field(network(unseen), unseen).argmax(3).numpy())
    began = time.perf_counter()
    both = [*network.parameters(), *field.parameters()]
    train(both, lambda g: field(network(g), g).log(), (grey, masks), passes // 2, 2e-3)
    with torch.no_grad():
        done("network and CRF together", began, field(network(unseen), unseen).argmax(3).numpy())

    errors = {name: float(np.mean(labels != v)) for name, labels in shown.items()}
    together = errors["network and CRF together"]
    claims = []
    for name in ("network alone", "linear CRF", "CRF on the frozen network"):
        ours = f"{100 * together:.2f} % against {100 * errors[name]:.2f} %"
        claims.append(Claim(f"trained together they beat the {name}", ours, together < errors[name]))
    report("Horses: what a network gains from a CRF", claims, [f"pictures of {size} x {size} pixels, grey"])
    numbers = {"size": size, "train": len(x), "test": len(u), "sweeps": SWEEPS, "passes": passes, "seconds": seconds}
    save(options.output, "horses_network", {"horses_network": draw(u, v, shown)}, numbers | {"errors": errors}, claims)


def draw(u: np.ndarray, v: np.ndarray, shown: dict[str, np.ndarray]):
    from matplotlib.figure import Figure

    chosen = np.linspace(0, len(u) - 1, 6).astype(int)
    columns = {"picture": u, "truth": v} | {name: labels for name, labels in shown.items() if name != "all background"}
    figure = Figure(figsize=(1.7 * len(columns), 1.75 * len(chosen)), layout="constrained")
    for ax, (k, name) in zip(
        figure.subplots(len(chosen), len(columns)).ravel(), [(k, n) for k in chosen for n in columns]
    ):
        ax.imshow(columns[name][k], cmap="gray", interpolation="nearest")
        ax.set_axis_off()
        if k == chosen[0]:
            ax.set_title(name.replace(" on the", "\non the").replace(" and CRF", "\nand CRF"), fontsize=9)
    return figure


if __name__ == "__main__":
    main()
