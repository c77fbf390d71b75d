"""Folders of images and tables of tokens: read as people have them, fitted and predicted from the shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import beliefs as bl
from beliefs.cli import commands
from beliefs.cli.plain_data import read_images, read_tokens, write_labels

TOKENS = """word,shape,label
the,low,O
Cat,cap,B-NP

Dog,cap,B-NP
ran,low,
,,
a,low,O
"""


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(commands, list(arguments))
    assert result.exit_code == code, result.output
    return result


def folder_of_images(place: Path) -> tuple[list[Any], list[Any]]:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 2, (4, 5)).astype(np.uint8) for _ in range(3)]
    images = [(200 * y + rng.integers(0, 20, y.shape)).astype(np.uint8) for y in labels]
    labels[0][0, 0] = 255
    for name in ("images", "labels"):
        (place / name).mkdir()
    for k, (x, y) in enumerate(zip(images, labels, strict=True)):
        image.fromarray(x).save(place / "images" / f"{k}.png")
        image.fromarray(y).save(place / "labels" / f"{k}.png")
    return images, labels


def test_images_and_labels_are_paired_by_name(tmp_path: Path) -> None:
    images, labels = folder_of_images(tmp_path)
    X, Y = read_images(str(tmp_path))
    assert Y is not None
    for k in range(3):
        np.testing.assert_array_equal(X[k][..., 0], images[k] / 255)
        np.testing.assert_array_equal(Y[k], np.where(labels[k] == 255, -1, labels[k].astype(int)))
    (tmp_path / "labels" / "1.png").unlink()
    with pytest.raises(bl.FormatError, match="there is no labels/1.png for images/1.png"):
        read_images(str(tmp_path))
    (tmp_path / "images" / "0.png").write_bytes(b"no image")
    with pytest.raises(bl.FormatError, match="not an image that can be read"):
        read_images(str(tmp_path))
    with pytest.raises(bl.FormatError, match=r"a folder of data has images/\*\.png"):
        read_images(str(tmp_path / "labels"))


def test_a_grid_is_fitted_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder_of_images(tmp_path)
    run("fit", ".", "--model", "grid", "-o", "model.npz", "--loss", "pseudo_likelihood", "--max-iters", "3")
    assert "1" in run("predict", "model.npz", ".", "-o", "found.npz").output
    with np.load("found.npz") as found:
        assert found["Y_0"].shape == (4, 5)
    assert (
        "a folder of images is no data for --model chain"
        in run("fit", ".", "-m", "chain", "-o", "c.npz", code=2).output
    )


def test_predicted_labels_become_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder_of_images(tmp_path)
    run("fit", ".", "--model", "grid", "-o", "model.npz", "--loss", "pseudo_likelihood", "--max-iters", "3")
    run("predict", "model.npz", ".", "-o", "found.npz")
    run("predict", "model.npz", ".", "-o", "found/")
    image = pytest.importorskip("PIL.Image")
    with np.load("found.npz") as arrays:
        for k, name in enumerate(sorted(os.listdir("images"))):
            np.testing.assert_array_equal(np.asarray(image.open(Path("found") / name)), arrays[f"Y_{k}"])
    assert sorted(os.listdir("found")) == sorted(os.listdir("images"))
    for place, message in [
        ("found", "something is there already"),
        ("found.txt", "into a new folder, or into a file that ends in .npz"),
        ("no/found", "the folder no does not exist"),
    ]:
        assert message in run("predict", "model.npz", ".", "-o", place, code=2).output
    assert "into a file that ends in .npz" in run("predict", "model.npz", ".", "-o", "m", "--marginals", code=2).output
    before = set(os.listdir("."))
    with pytest.raises(bl.FormatError, match="holds labels up to 254, found 255"):
        write_labels(".", "many", [np.full((4, 5), 255)] * len(os.listdir("images")))
    assert set(os.listdir(".")) == before


def test_tokens_are_words_or_numbers(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(TOKENS)
    X, Y = read_tokens(str(path))
    assert X == [
        [{"word": "the", "shape": "low"}, {"word": "Cat", "shape": "cap"}],
        [{"word": "Dog", "shape": "cap"}, {"word": "ran", "shape": "low"}],
        [{"word": "a", "shape": "low"}],
    ]
    assert Y is not None and [y.tolist() for y in Y] == [["O", "B-NP"], ["B-NP", None], ["O"]]
    path.write_text("sequence,a,b\n1,0.5,2\n1,1,3\n2,1e-3,4\n")
    X, Y = read_tokens(str(path))
    assert Y is None and [x.tolist() for x in X] == [[[0.5, 2.0], [1.0, 3.0]], [[0.001, 4.0]]]
    path.write_text("label,a\n1,0.5\n,1\n")
    labels = read_tokens(str(path))[1]
    assert labels is not None and labels[0].tolist() == [1, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names of columns"),
        ("a,a\n1,2\n", "names of columns"),
        ("label\nO\n", "no column of features"),
        ("a,label\n", "there is no token"),
        ("a,label\nx\n", "line 2: expected 2 cells, found 1"),
        ("sequence,a\n1,x\n2,x\n1,y\n", "line 4: sequence '1' begins a second time"),
    ],
)
def test_wrong_tables_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(text)
    with pytest.raises(bl.FormatError, match=message):
        read_tokens(str(path))


def test_a_chain_is_fitted_to_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tokens.csv").write_text(TOKENS.replace("ran,low,", "ran,low,O"))
    Path("new.csv").write_text("word,shape\nOwl,cap\n")
    run("fit", "tokens.csv", "--model", "chain", "-o", "model.npz")
    run("predict", "model.npz", "new.csv", "-o", "found.npz")
    with np.load("found.npz") as found:
        assert found["Y_0"].tolist() == ["B-NP"]
    run("predict", "model.npz", "new.csv", "-o", "found.csv")
    assert Path("found.csv").read_text() == "word,shape,label\nOwl,cap,B-NP\n"
    run("predict", "model.npz", "tokens.csv", "-o", "again.csv")
    X, Y = read_tokens("again.csv")
    given = read_tokens("tokens.csv")
    assert X == given[0] and Y is not None and [len(y) for y in Y] == [2, 2, 1]
    assert "must end in .csv or .npz" in run("predict", "model.npz", "new.csv", "-o", "x.txt", code=2).output
    assert "by this very command" in run("predict", "model.npz", "new.csv", "-o", "./new.csv", code=2).output
