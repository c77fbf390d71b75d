"""Tables of errors by loss, inference and sweeps on labelled pictures, as [domke2013] makes them (its Tables 2 and 3).

Features are made of pictures at full size and averaged down to the model's; edges have features of the small
picture. Marginals of pixels are interpolated to full size, where errors are counted. Every cell is a job that is kept
when it ends and goes on from its checkpoint after an hour or an interrupt.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from paper import HERE
from PIL import Image
from trials import Kept

import beliefs as bl
from beliefs.learning.image_features import EdgeFeatures, sinusoidal_hog_features

__all__ = ["Cell", "Picture", "Setting", "Study", "draw_pictures", "furthest", "print_table", "resized"]

_PALETTE = np.array([
    [0.35, 0.6, 0.85], [0.65, 0.35, 0.3], [0.9, 0.85, 0.5], [0.45, 0.45, 0.5], [0.85, 0.6, 0.75], [0.3, 0.55, 0.3],
    [0.95, 0.75, 0.2], [0.6, 0.5, 0.35], [0.45, 0.3, 0.6], [0.85, 0.35, 0.3], [0.25, 0.65, 0.65],
])  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A fit: what the table calls its row and column, the estimator's options, and what the paper prints."""

    row: str
    column: str
    options: dict[str, Any]
    train: float | None = None
    test: float | None = None

    @property
    def name(self) -> str:
        """The name of the job."""
        return f"{self.row}/{self.column}"


@dataclass(frozen=True)
class Setting:
    """How large the study is."""

    n_train: int
    n_test: int
    longer: int  # side of the model's grid
    max_iters: int
    minutes: float = 60.0


@dataclass(frozen=True, eq=False)
class Picture:
    """A colour picture ``(H, W, 3)`` in [0, 1] and its labels ``(H, W)``, -1 where there is none."""

    image: np.ndarray
    labels: np.ndarray

    def small_shape(self, longer: int) -> tuple[int, int]:
        """Return the shape of the model's grid."""
        scale = longer / max(self.labels.shape)
        return max(2, round(scale * self.labels.shape[0])), max(2, round(scale * self.labels.shape[1]))

    def small_labels(self, shape: tuple[int, int], n_classes: int) -> np.ndarray:
        """Return the most frequent label around each pixel of the grid; -1 where most has none."""
        shares = np.stack([self.labels == k for k in range(-1, n_classes)], axis=-1)
        return resized(shares.astype(np.float32), shape, Image.Resampling.BOX).argmax(axis=-1) - 1


def resized(values: np.ndarray, shape: tuple[int, int], how: Image.Resampling) -> np.ndarray:
    """Return ``values (H, W, D)`` at another size, plane by plane."""
    planes = [Image.fromarray(np.ascontiguousarray(v, np.float32)) for v in np.moveaxis(values, -1, 0)]
    return np.stack([np.asarray(p.resize(shape[::-1], how)) for p in planes], axis=-1)


class Study:
    """Fits as resumable jobs on one set of pictures."""

    def __init__(self, pictures: Sequence[Picture], classes: int, edges: EdgeFeatures, setting: Setting,
                 folder: Path, name: str, only: list[str] | None) -> None:  # fmt: skip
        self.pictures = pictures[: setting.n_train + setting.n_test]
        self.setting, self.folder, self.name, self.only = setting, folder, name, only
        stored = None if name.endswith("_quick") else HERE / "results" / f"{name}.json"
        self.kept = Kept(folder / f"{name}.trials.json", stored, asdict(setting))
        shapes = [p.small_shape(setting.longer) for p in self.pictures]
        small = [resized(p.image, s, Image.Resampling.BOX) for p, s in zip(self.pictures, shapes, strict=True)]
        directions = ("horizontal", "vertical")
        cuts = edges.thresholds(small[: setting.n_train], directions)
        self.x = [
            (resized(sinusoidal_hog_features(p.image), s, Image.Resampling.BOX), *edges.make(i, directions, cuts))
            for p, s, i in zip(self.pictures, shapes, small, strict=True)
        ]
        self.y = [p.small_labels(s, classes) for p, s in zip(self.pictures, shapes, strict=True)]

    def run(self, cell: Cell) -> dict[str, Any] | None:
        """Return what a cell found; None where it was not asked for, or is not finished."""
        if cell.name in self.kept.found or (self.only and not any(text in cell.name for text in self.only)):
            found: dict[str, Any] | None = self.kept.found.get(cell.name)
            return found
        path = self.folder / f"{self.name}-{cell.name.replace('/', '-').replace(' ', '')}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint, end = path.with_suffix(".checkpoint.npz"), time.perf_counter() + 60 * self.setting.minutes
        crf = bl.GridCRF(**cell.options, max_iters=self.setting.max_iters, n_jobs=-1, checkpoint=checkpoint,
                         callback=lambda now: time.perf_counter() > end)  # fmt: skip
        n = self.setting.n_train
        crf.fit(self.x[:n], self.y[:n])
        if crf.result_.status is bl.Status.STOPPED:
            print(f"  {cell.name}: not finished after {crf.result_.n_iters} iterations; run again to go on", flush=True)
            return None
        crf.save(path)
        checkpoint.unlink(missing_ok=True)
        result = {"train": self.error(crf, slice(0, n)), "test": self.error(crf, slice(n, None)), "path": path.name,
                  "seconds": crf.result_.seconds, "iterations": crf.result_.n_iters, "status": crf.result_.status.name,
                  }  # fmt: skip
        print(f"  {cell.name}: {result['train']:.3f} / {result['test']:.3f} in {result['seconds']:.0f} s", flush=True)
        self.kept.of(cell.name, lambda: result)
        return result

    def marginals(self, crf: Any, part: slice) -> list[np.ndarray]:
        """Return marginals at full size ``(H, W, K)``."""
        small = crf.predict_marginals(self.x[part])
        return [resized(m, p.labels.shape, Image.Resampling.BILINEAR)
                for m, p in zip(small, self.pictures[part], strict=True)]  # fmt: skip

    def error(self, crf: Any, part: slice) -> float:
        """Return the share of labelled pixels that are wrong at full size."""
        truth = [p.labels for p in self.pictures[part]]
        guess = [m.argmax(axis=-1) for m in self.marginals(crf, part)]
        return float(bl.metrics.error_rate(truth, guess))


def print_table(title: str, cells: Sequence[Cell], found: dict[str, Any]) -> None:
    """Print train and test errors, ours beside (the paper's)."""
    print(f"\n{title}: train / test error, ours beside (the paper's)\n")
    for cell in cells:
        ours = found.get(cell.name)
        shown = "" if ours is None else f"{ours['train']:.3f} / {ours['test']:.3f}"
        printed = "" if cell.test is None else f"({cell.train:.3f} / {cell.test:.3f})"
        print(f"  {cell.row:26s} {cell.column:10s} {shown:16s} {printed}")


def furthest(cells: Sequence[Cell], found: dict[str, Any]) -> list[Cell]:
    """Return of each row the last cell that was run."""
    return list({cell.row: cell for cell in cells if found.get(cell.name) is not None}.values())


def draw_pictures(study: Study, cells: Sequence[Cell], found: dict[str, Any], n_rows: int = 3) -> Figure | None:
    """Draw some pictures that were not used, their truth, and what each model makes of them; None without models."""
    shown = [cell for cell in cells if found.get(cell.name) is not None]
    if not shown or not all((study.folder / found[cell.name]["path"]).is_file() for cell in shown):
        return None
    n = study.setting.n_train
    part = slice(n, n + n_rows)
    fields = {cell.name: study.marginals(bl.GridCRF.load(study.folder / found[cell.name]["path"]), part)
              for cell in shown}  # fmt: skip
    figure = Figure(figsize=(1.9 * (2 + len(shown)), 1.7 * n_rows), layout="constrained")
    for r, axes in enumerate(figure.subplots(n_rows, 2 + len(shown), squeeze=False)):
        picture = study.pictures[n + r]
        panels = [picture.image, _coloured(picture.labels)]
        panels += [_coloured(fields[cell.name][r]) for cell in shown]
        titles = ["picture", "truth", *(f"{cell.row}\n{cell.column}" for cell in shown)]
        for axis, panel, title in zip(axes, panels, titles, strict=True):
            axis.imshow(panel, cmap="gray", vmin=0, vmax=1)
            axis.set_axis_off()
            if r == 0:
                axis.set_title(title, size=8)
    return figure


def _coloured(values: np.ndarray) -> np.ndarray:
    """Return labels ``(H, W)`` or marginals ``(H, W, K)`` as a picture; of two classes in grey, none is mid-grey."""
    if values.ndim == 3 and values.shape[2] == 2:
        return values[..., 1]
    if values.ndim == 2 and values.max(initial=0) <= 1:
        return np.where(values < 0, 0.5, values)
    labels = values if values.ndim == 2 else values.argmax(axis=-1)
    return np.where((labels < 0)[..., None], 0.9, _PALETTE[labels % len(_PALETTE)])
