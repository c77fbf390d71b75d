"""Tables of rows: what becomes of arrays, lists, frames, files and chunks, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix, csr_array

from beliefs.errors import FormatError, ModelError
from beliefs.learning.rows import table_of
from beliefs.model.naming import Naming
from beliefs.model.rows.reading import read_rows

NAMING = Naming.of(["rain", "grass"], [["no", "yes"], ["dry", "wet", "mud"]], np.array([2, 3]))


NAMING_OF_CODES = Naming.of(["x0", "x1"], [["0", "1"], ["0", "1", "2"]], np.array([2, 3]))


def labels(table):
    return {name: column.tolist() for name, column in zip(table.names, table.labelled(), strict=True)}


def test_integers_are_codes_and_minus_one_is_missing():
    table = read_rows(np.array([[0, 2], [1, -1], [0, 0]]))
    assert table.names == ("x0", "x1") and table.labels == (("0", "1"), ("0", "1", "2"))
    assert table.codes.dtype == np.uint8 and table.codes.tolist() == [[0, 1, 0], [2, 255, 0]]
    assert table.n_missing.tolist() == [0, 1] and table.incomplete().tolist() == [False, True, False]


def test_floats_and_lists_give_the_same_table():
    expected = read_rows(np.array([[0, 2], [1, -1]])).codes
    assert (read_rows(np.array([[0.0, 2.0], [1.0, np.nan]])).codes == expected).all()
    assert (read_rows([[0, 2], [1, -1]]).codes == expected).all()
    assert (read_rows([[0, 2], [1, float("nan")]]).codes == expected).all()


def test_tables_keep_their_weights():
    table = read_rows([[0, 1], [1, 2]], weights=[2.0, 3.0])
    weights = read_rows(table, NAMING_OF_CODES).weights
    assert read_rows(table).weights is not None and weights is not None and weights.tolist() == [2.0, 3.0]
    assert (read_rows(table, NAMING_OF_CODES).codes == table.codes).all()


def test_many_states_take_two_bytes():
    table = read_rows(np.array([[254], [-1]]))
    assert table.codes.dtype == np.uint8 and table.codes.tolist() == [[254, 255]]
    table = read_rows(np.array([[300], [-1], [3]]))
    assert table.codes.dtype == np.uint16 and table.codes.tolist() == [[300, 65535, 3]]


@pytest.mark.parametrize(
    ("column", "states", "found"),
    [
        (pd.Series(["b", None, "a"]), ("a", "b"), ["b", None, "a"]),
        (pd.Series(["b", "a", "b"], dtype="string"), ("a", "b"), ["b", "a", "b"]),
        (pd.Series([10, 2, 10]), ("2", "10"), ["10", "2", "10"]),
        (pd.Series([10, None, 2]), ("2", "10"), ["10", None, "2"]),
        (pd.Series([10, None, 2], dtype="Int64"), ("2", "10"), ["10", None, "2"]),
        (pd.Series([True, False, True]), ("False", "True"), ["True", "False", "True"]),
        (pd.Series([True, None, True], dtype="boolean"), ("False", "True"), ["True", None, "True"]),
        (pd.Series(["10", "9", "10"]), ("9", "10"), ["10", "9", "10"]),
        (pd.Categorical(["lo", "hi", None], categories=["lo", "mid", "hi"]), ("lo", "mid", "hi"), ["lo", "hi", None]),
    ],
)
def test_columns_of_frames(column, states, found):
    table = read_rows(pd.DataFrame({"a": column}))
    assert table.labels == (states,)
    assert labels(table) == {"a": found}


def test_given_states_are_kept_in_their_order():
    frame = pd.DataFrame({"grass": ["wet", "dry", None], "rain": [1, 0, 1]})
    table = read_rows(frame, NAMING)
    assert table.names == ("rain", "grass") and table.labels == (("no", "yes"), ("dry", "wet", "mud"))
    assert table.codes.tolist() == [[1, 0, 1], [1, 0, 255]]
    numbered = Naming.of(["a"], [["1", "2"]], np.array([2]))
    assert read_rows(pd.DataFrame({"a": [1, 2]}), numbered).codes.tolist() == [[0, 1]]
    assert read_rows(np.array([[1], [0]]), numbered).codes.tolist() == [[1, 0]]


@pytest.mark.parametrize("kind", ["int8", "int64", "uint8", "Int64"])
def test_integers_of_frames_are_indices_of_words_and_labels_of_numbers(kind):
    naming = Naming.of(["a", "b", "c"], [("no", "yes", "maybe"), ("0", "1", "2"), ("2", "1", "0")], np.array([3, 3, 3]))
    frame = pd.DataFrame({"a": [0, 2, 1], "b": [1, 2, 0], "c": [1, 2, 0]}).astype(kind)
    assert read_rows(frame, naming).codes.tolist() == [[0, 2, 1], [1, 2, 0], [1, 0, 2]]
    with pytest.raises(ModelError, match=r"column 'b', row 2: no state 3"):
        read_rows(frame.assign(b=pd.Series([0, 1, 3], dtype=kind)), naming)
    if kind != "uint8":
        holed = pd.Series([-1, 0, 1], dtype=kind)
        holes = read_rows(frame.assign(a=holed, b=holed), naming)
        assert holes.codes[:2].tolist() == 2 * [[holes.missing, 0, 1]]


@pytest.mark.parametrize(
    ("states", "codes"),
    [(("TRUE", "FALSE"), [1, 0]), (("yes", "no"), [1, 0]), (("No", "Yes"), [0, 1]), (("absent", "present"), [0, 1]),
     (("false", "no", "true"), [0, 1]), (("True", "False"), [1, 0])],
)  # fmt: skip
def test_booleans_are_the_states_that_say_so_and_else_indices(states, codes, tmp_path):
    """Readers of CSV files make booleans of TRUE and FALSE, whatever their order among the states."""
    naming = Naming.of(["a"], [states], np.array([len(states)]))
    for values in (
        [False, True],
        np.array([False, True]),
        pd.Series([False, True]),
        pd.Series([False, True], dtype="boolean"),
    ):
        assert read_rows({"a": values}, naming).codes.tolist() == [codes]
    if states == ("TRUE", "FALSE"):
        (tmp_path / "a.csv").write_text("a\nTRUE\nFALSE\n\nTRUE\n")
        frame = pd.read_csv(tmp_path / "a.csv", skip_blank_lines=False)
        assert read_rows(frame, naming).codes.tolist() == [[0, 1, 255, 0]]


def test_hidden_variables_have_no_column():
    table = read_rows(np.array([[0], [1]]), NAMING, hidden=["grass"])
    assert table.codes.tolist() == [[0, 1], [255, 255]]


def test_chunks_give_the_table_of_all_rows(tmp_path):
    frame = pd.DataFrame({"a": ["y", "x", None, "z", "x"], "b": [3, 1, 2, 3, 1]})
    whole = read_rows(frame)
    chunked = read_rows(iter([frame[3:], frame[:3]]))
    assert chunked.labels == whole.labels and (chunked.codes == whole.codes[:, [3, 4, 0, 1, 2]]).all()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert (table_of(tmp_path / "rows.csv").codes == whole.codes).all()
    with pytest.raises(FormatError, match="no such file"):
        table_of(tmp_path / "none.csv")


def test_memory_maps_are_read(tmp_path):
    rows = np.random.default_rng(0).integers(0, 3, (70000, 2))
    np.save(tmp_path / "rows.npy", rows)
    table = read_rows(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    assert (table.codes == rows.T).all()


@pytest.mark.parametrize("card", [2, 40])  # counted in an array, and sorted
def test_merging_keeps_every_row(card):
    rng = np.random.default_rng(1)
    rows = rng.integers(-1, card, (300, 5))
    rows[150:] = rows[:150]
    weights = rng.random(300)
    table = read_rows(rows, weights=weights)
    merged, number = table.merged()
    assert (merged.codes[:, number] == table.codes).all()
    assert np.unique(merged.codes, axis=1).shape == merged.codes.shape
    assert merged.weights == pytest.approx(np.bincount(number, weights))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((0, 2), int), "no rows"),
        (np.array([[0, 1], [0, -2]]), "'x1', row 1: codes are 0, 1, ... and -1 where missing, found -2"),
        (np.array([[0.0, 1.5]]), "'x1', row 0: .* found 1.5, which is continuous; bin the column"),
        (np.array([[np.inf, 1.0]]), "'x0', row 0: .* not finite"),
        (np.array([0, 1]), "two axes"),
        ([[0, 1], [0]], "differ in length"),
        ({"a": [0, 1], "b": [0]}, "differ in length: 1, 2 rows"),
        (pd.DataFrame({"a": [None, None]}), "'a' has no value at all"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "no discrete type"),
    ],
)
def test_bad_rows_are_refused(data, message):
    with pytest.raises(ModelError, match=message):
        read_rows(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            pd.DataFrame({"rain": ["no"], "gras": ["dry"]}),
            "no variable 'gras' for this column; leave it out; did you mean 'grass'",
        ),
        (pd.DataFrame({"rain": ["no"]}), "variable 'grass' has no column; name it in hidden"),
        (pd.DataFrame({"rain": ["no", "maybe"], "grass": ["dry", "dry"]}), "'rain', row 1: no state 'maybe'"),
        (np.array([[0, 3]]), "'grass', row 0: expected states 0..2, found 3"),
        (np.array([[0, 1, 1]]), "expected 2 columns, one a variable, found 3"),
    ],
)
def test_rows_that_do_not_fit_the_variables_are_refused(data, message):
    with pytest.raises(ModelError, match=message):
        read_rows(data, NAMING)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "2 numbers"),
        ([1.0, -1.0], "row 1"),
        ([1.0, np.nan], "row 1"),
        ([0.0, 0.0], "every sample_weight is zero"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ModelError, match=message):
        read_rows([[0], [1]], weights=weights)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_of_other_classes_are_read_as_plain_ones() -> None:
    codes = np.array([[0, 1], [1, 0], [1, 1]])
    plain = read_rows(codes)
    for other in (np.asmatrix(codes), np.ma.masked_array(codes), codes.astype(np.float16), np.asfortranarray(codes)):
        table = read_rows(other)
        assert table.names == plain.names and np.array_equal(table.codes, plain.codes)
    masked = np.ma.masked_array(codes, [[True, False], [False, False], [False, True]])
    assert (
        masked.mask.any() and (read_rows(masked).codes == read_rows(masked).missing).T.tolist() == masked.mask.tolist()
    )
    columns = {"a": masked[:, 0], "b": codes[:, 1]}
    assert (read_rows(columns).codes == read_rows(columns).missing).sum() == 1
    for kind in (csr_array, coo_matrix):
        with pytest.raises(ModelError, match="found a sparse matrix; give its toarray"):
            read_rows(kind(codes))
