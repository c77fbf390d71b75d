"""Data that people have: folders of images for grids, and tables of tokens for chains.

A folder has ``images/`` and ``labels/`` with PNG files of the same names; ``labels`` may be absent where only
predictions are wanted. Values of images are divided by 255 (by 65535 where they have 16 bits); a label is the grey
value or the number in the palette, 255 where it is unknown.

A table of tokens is a CSV file with a line a token and a first line of names. Sequences are told apart by the column
``sequence``, or by blank lines; ``label`` holds the labels, empty where unknown. All other columns are what is known of
the token: numbers, if all of them are, and else words, each an attribute ``column=word``. Predicted labels are written
in the same two forms.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from beliefs.errors import FormatError, UnsupportedError
from beliefs.io.files import check_place

__all__ = ["check_label_place", "labels_in_table", "read_images", "read_tokens", "write_labels"]

_UNKNOWN = 255  # as a label of a pixel
_KEY, _LABEL = "sequence", "label"


def read_images(folder: str) -> tuple[list[Any], list[Any] | None]:
    """Return the images of a folder in the order of their names, and their labels if there are any."""
    names = _pictures(os.path.join(folder, "images"))
    if not names:
        raise FormatError("a folder of data has images/*.png, and labels/*.png of the same names", folder)
    images = [_scaled(_array(os.path.join(folder, "images", name), palette=False)) for name in names]
    where = os.path.join(folder, "labels")
    if not os.path.isdir(where):
        return images, None
    labels = []
    for name, image in zip(names, images, strict=True):
        path = os.path.join(where, name)
        if not os.path.isfile(path):
            raise FormatError(f"there is no labels/{name} for images/{name}", folder)
        found = _array(path, palette=True).astype(np.int64)
        if found.shape != image.shape[:2]:
            raise FormatError(f"expected {image.shape[0]} x {image.shape[1]} labels, found shape {found.shape}", path)
        labels.append(np.where(found == _UNKNOWN, -1, found))
    return images, labels


def check_label_place(path: str, data: str, form: str, marginals: bool) -> None:
    """Refuse a place for labels in the form of the data, before any work: a new folder of images, a table of tokens."""
    if marginals:
        raise FormatError("marginals go into a file that ends in .npz", path)
    if form == "tokens" and not path.lower().endswith(".csv"):
        raise FormatError("the file to write must end in .csv or .npz", path)
    if form == "tokens" and os.path.realpath(path) == os.path.realpath(data):
        raise FormatError("that file is read by this very command; give --output another name", path)
    if form == "images" and os.path.splitext(path)[1]:
        raise FormatError("labels of images go into a new folder, or into a file that ends in .npz", path)
    if form == "images" and os.path.exists(path):
        raise FormatError("something is there already; labels of images go into a new folder", path)
    check_place(os.path.normpath(path))


def write_labels(data: str, folder: str, labels: list[Any]) -> None:
    """Write labels of a folder's images as PNG files of the same names; the new folder appears whole or not at all."""
    from PIL import Image

    most = max((int(found.max(initial=0)) for found in labels), default=0)
    if most >= _UNKNOWN:
        raise FormatError(f"a PNG file holds labels up to {_UNKNOWN - 1}, found {most}; write an .npz file", folder)
    place = os.path.normpath(folder)
    with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(place) or ".") as room:
        made = os.path.join(room, "labels")
        os.mkdir(made)
        for name, found in zip(_pictures(os.path.join(data, "images")), labels, strict=True):
            Image.fromarray(found.astype(np.uint8)).save(os.path.join(made, name))
        os.rename(made, place)


def labels_in_table(data: str, labels: list[Any]) -> bytes:
    """Return a table of tokens with the column of labels filled, lines and other columns as they are."""
    with open(data, newline="", encoding="utf-8-sig") as file:
        head, *lines = csv.reader(file)
    at = next((k for k, name in enumerate(head) if name.strip() == _LABEL), len(head))
    words = iter([str(word) for row in labels for word in row])
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*head[:at], _LABEL, *head[at + 1 :]])
    for line in lines:
        blank = not any(cell.strip() for cell in line)
        table.writerow(line if blank else [*line[:at], next(words), *line[at + 1 :]])
    return text.getvalue().encode()


def _pictures(folder: str) -> list[str]:
    return sorted(n for n in os.listdir(folder) if n.lower().endswith(".png")) if os.path.isdir(folder) else []


def _array(path: str, palette: bool) -> np.ndarray:
    """Return the pixels of a file; of a palette the numbers, or the colours."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("folders of images need Pillow; try the extra beliefs[image]") from None
    try:
        with Image.open(path) as image:
            colours = image.convert("RGB") if image.mode in ("P", "RGBA", "CMYK") and not palette else image
            return np.asarray(colours)
    except (OSError, ValueError) as error:
        raise FormatError(f"not an image that can be read ({error})", path) from None


def _scaled(pixels: np.ndarray) -> np.ndarray:
    image = pixels[..., None] if pixels.ndim == 2 else pixels
    most = 1.0 if image.dtype == bool else 255.0 if image.dtype == np.uint8 else 65535.0
    return image.astype(np.float64) / most


def read_tokens(path: str) -> tuple[list[Any], list[Any] | None]:
    """Return the sequences of a table of tokens, and their labels if there is such a column."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"not a table that can be read ({error})", path) from None
    head = [name.strip() for name in lines[0]] if lines else []
    if not head or len(set(head)) < len(head) or not all(head):
        raise FormatError("expected different names of columns in the first line", path, line=1)
    known = [k for k, name in enumerate(head) if name not in (_KEY, _LABEL)]
    if not known:
        raise FormatError("there is no column of features beside sequence and label", path, line=1)
    sequences = list(_sequences(lines, head, path))
    if not sequences:
        raise FormatError("there is no token", path)
    inputs = _inputs(sequences, head, known)
    if _LABEL not in head:
        return inputs, None
    at = head.index(_LABEL)
    return inputs, _labels([[row[at].strip() for row in rows] for rows in sequences])


def _sequences(lines: list[list[str]], head: list[str], path: str) -> Iterator[list[list[str]]]:
    """Yield the rows of each sequence; one that is gone on with after another has begun is an error."""
    at = head.index(_KEY) if _KEY in head else None
    rows: list[list[str]] = []
    seen: set[str] = set()
    for number, line in enumerate(lines[1:], 2):
        blank = not any(cell.strip() for cell in line)
        if not blank and len(line) != len(head):
            raise FormatError(f"expected {len(head)} cells, found {len(line)}", path, line=number)
        new = blank if at is None else bool(rows) and not blank and line[at] != rows[-1][at]
        if new and rows:
            yield rows
            rows = []
        if blank:
            continue
        if at is not None and not rows:
            if line[at] in seen:
                raise FormatError(f"sequence {line[at]!r} begins a second time; sort the lines", path, line=number)
            seen.add(line[at])
        rows.append(line)
    if rows:
        yield rows


def _inputs(sequences: list[list[list[str]]], head: list[str], known: list[int]) -> list[Any]:
    """Return sequences of numbers where all cells are numbers, else of attributes."""
    try:
        return [np.array([[float(row[k]) for k in known] for row in rows]) for rows in sequences]
    except ValueError:
        return [[{head[k]: row[k].strip() for k in known if row[k].strip()} for row in rows] for rows in sequences]


def _labels(words: list[list[str]]) -> list[Any]:
    """Return labels as numbers where all are, -1 where unknown; else as words, None where unknown."""
    given = {word for row in words for word in row if word}
    if all(word.isdecimal() for word in given):
        return [np.array([int(word) if word else -1 for word in row], np.int64) for row in words]
    if all(all(row) for row in words):
        return [np.array(row) for row in words]
    return [np.array([word or None for word in row], object) for row in words]
