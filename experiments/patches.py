"""Street scenes cut in overlapping patches, with texture and colour, as [ping2016] section 4.7.3 cuts photographs.

A picture of 240 x 320 has patches of 20 x 20 pixels every 10 pixels, 23 x 31 of them. Texture is a histogram of
oriented gradients (4 x 4 cells of 5 x 5 pixels, 8 orientations: 128 numbers, as SIFT has), quantised to the words of a
codebook by k-means; colour is a histogram of 16 values for red, green and blue each. The label is that of most pixels
in the patch's middle.
"""

from __future__ import annotations

import itertools
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from archives import image_of
from PIL import Image

from beliefs.learning.instances import HIDDEN

__all__ = ["ARCHIVE", "CLASSES", "Scene", "encoded", "scenes", "shots"]

ARCHIVE = "images/camvid_subset.tar"
CLASSES = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "cyclist")
SIZE, STEP, CELL, ORIENTATIONS, BINS = (240, 320), 10, 5, 8, 16
SHOT = 150  # pictures; five seconds
_N_LABELS = len(CLASSES) + 1  # and void


@dataclass(frozen=True)
class Scene:
    """A picture by patches: descriptors ``(R, C, 128)``, histograms ``(R, C, 48)`` and classes ``(R, C)``.

    ``frame`` is the drive, and the picture's number in it, 30 a second.
    """

    picture: np.ndarray
    texture: np.ndarray
    colour: np.ndarray
    classes: np.ndarray
    frame: tuple[str, int]

    def labels(self, kept: list[int]) -> np.ndarray:
        """Return labels 0, 1, ... of the classes kept; all else is hidden."""
        table = np.full(_N_LABELS, HIDDEN)
        table[kept] = np.arange(len(kept))
        return table[self.classes]


def scenes(archive: Path, limit: int | None = None) -> list[Scene]:
    """Return the scenes of the archive, all parts together, in the order of their names."""
    with tarfile.open(archive) as tar:
        names = sorted(n for n in tar.getnames() if n.endswith(".png") and "annot" not in n)[:limit]
        return [_scene(image_of(tar, name), image_of(tar, _annotation(name)), _frame(name)) for name in names]


def shots(found: list[Scene]) -> np.ndarray:
    """Return the number of the shot that each scene belongs to: pictures of a drive seconds apart are one shot."""
    order = sorted(range(len(found)), key=lambda i: found[i].frame)
    shot_of = np.zeros(len(found), np.int64)
    for before, now in itertools.pairwise(order):
        (drive, at), (drive_now, at_now) = found[before].frame, found[now].frame
        shot_of[now] = shot_of[before] + (drive != drive_now or at_now - at > SHOT)
    return shot_of


def _frame(name: str) -> tuple[str, int]:
    drive, number = name.rsplit("/", 1)[1].removesuffix(".png").split("_")
    return drive, int(number.removeprefix("f"))


def _annotation(name: str) -> str:
    folder, file = name.rsplit("/", 1)
    return f"{folder}annot/{file}"


def _scene(picture: Image.Image, annotation: Image.Image, frame: tuple[str, int]) -> Scene:
    small = np.asarray(picture.convert("RGB").resize(SIZE[::-1], Image.Resampling.BOX))
    classes = np.minimum(np.asarray(annotation.resize(SIZE[::-1], Image.Resampling.NEAREST)), _N_LABELS - 1)
    return Scene(small, _texture(small.mean(axis=2)), _colour(small), _middles(classes), frame)


def _blocks(values: np.ndarray, side: int) -> np.ndarray:
    """Return sums over blocks of side x side pixels, ``(H / side, W / side, ...)``."""
    rows, cols = values.shape[0] // side, values.shape[1] // side
    return values.reshape(rows, side, cols, side, *values.shape[2:]).sum(axis=(1, 3))


def _texture(grey: np.ndarray) -> np.ndarray:
    """Return gradients by orientation in the 4 x 4 cells of each patch, at most 0.2 of their length each."""
    down, right = np.gradient(grey)
    strength, angle = np.hypot(down, right), np.arctan2(down, right)
    bin_of = ((angle / (2 * np.pi) * ORIENTATIONS).round().astype(int)) % ORIENTATIONS
    cells = _blocks(np.eye(ORIENTATIONS)[bin_of] * strength[..., None], CELL)
    rows, cols = (s // STEP - 1 for s in SIZE)
    across = 2 * STEP // CELL
    step = STEP // CELL
    found = np.stack(
        [cells[i : i + step * rows : step, j : j + step * cols : step] for i in range(across) for j in range(across)],
        axis=2,
    ).reshape(rows, cols, -1)
    for _ in range(2):  # once more after the largest were cut
        found = np.minimum(found / (np.linalg.norm(found, axis=2, keepdims=True) + 10.0 ** (-3)), 0.2)
    return found


def _colour(picture: np.ndarray) -> np.ndarray:
    bins = np.eye(BINS)[picture // (256 // BINS)].reshape(*SIZE, -1)
    blocks = _blocks(bins, STEP)
    return (blocks[:-1, :-1] + blocks[1:, :-1] + blocks[:-1, 1:] + blocks[1:, 1:]) / (2 * STEP) ** 2


def _middles(classes: np.ndarray) -> np.ndarray:
    """Return the class of most of the 10 x 10 pixels in the middle of each patch."""
    half = STEP // 2
    middle = classes[half : SIZE[0] - half, half : SIZE[1] - half]
    return _blocks(np.eye(_N_LABELS)[middle], STEP).argmax(axis=2)


def encoded(found: list[Scene], n_words: int, seed: int = 0) -> list[np.ndarray]:
    """Return the features of each scene, ``(R, C, n_words + 48)``: the word of a patch's texture, and its colours."""
    from sklearn.cluster import MiniBatchKMeans

    everything = np.concatenate([scene.texture.reshape(-1, scene.texture.shape[2]) for scene in found])
    codebook = MiniBatchKMeans(n_words, random_state=seed, batch_size=4096, n_init=1, max_iter=30).fit(everything)
    features = []
    for scene in found:
        words = codebook.predict(scene.texture.reshape(-1, scene.texture.shape[2]))
        one_hot = np.eye(n_words, dtype=np.float32)[words].reshape(*scene.classes.shape, n_words)
        features.append(np.concatenate([one_hot, scene.colour.astype(np.float32)], axis=2))
    return features
