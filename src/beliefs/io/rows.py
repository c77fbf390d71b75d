"""Tables of observations in files: CSV with a line of names, and Parquet; read in chunks by pandas.

Cells of CSV files are text: labels of states. An empty cell is missing, and so is ``NA`` or ``NaN``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from beliefs.errors import FormatError, UnsupportedError
from beliefs.io.files import StrPath, plain_name

__all__ = ["is_table", "read_chunks"]

_ROWS = 2**16  # of a chunk
_MISSING = ("", "NA", "NaN", "nan", "N/A")


def is_table(path: StrPath) -> bool:
    """Whether a file's name says that it holds a table of rows."""
    return plain_name(path).endswith((".csv", ".parquet"))


def read_chunks(path: StrPath, rows: int = _ROWS) -> Iterator[Any]:
    """Yield frames of a file's rows, one after the other."""
    place = os.fspath(path)
    if not is_table(path):
        raise FormatError("a table of rows is a .csv or .parquet file", place)
    if not os.path.isfile(place):
        raise FormatError("no such file", place)
    try:
        import pandas as pd
    except ImportError:
        raise UnsupportedError("tables are read by pandas, which is missing; install it, or give arrays") from None
    return _csv(pd, place, rows) if ".csv" in plain_name(path)[-4:] else _parquet(place, rows)


def _csv(pd: Any, place: str, rows: int) -> Iterator[Any]:
    try:
        with pd.read_csv(
            place, dtype=str, chunksize=rows, keep_default_na=False, na_values=list(_MISSING), skipinitialspace=True
        ) as chunks:
            for chunk in chunks:
                if not isinstance(chunk.index, pd.RangeIndex):
                    raise FormatError("a line has more cells than the first has names", place)
                yield chunk
    except FormatError:
        raise
    except (ValueError, UnicodeDecodeError, OSError) as error:  # pandas' own are ValueErrors
        raise FormatError(f"not a table of rows ({' '.join(str(error).split())[:200]})", place) from None


def _parquet(place: str, rows: int) -> Iterator[Any]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise UnsupportedError("Parquet files need pyarrow, which is not installed; install it, or use CSV") from None
    try:
        with parquet.ParquetFile(place) as file:
            for batch in file.iter_batches(rows):
                yield batch.to_pandas()
    except (ValueError, OSError) as error:  # pyarrow's own are one of these
        raise FormatError(f"not a table of rows ({' '.join(str(error).split())[:200]})", place) from None
