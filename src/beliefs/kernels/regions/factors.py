"""Factors in the tables of their regions: put there at the start, and read off again for the answer."""

from beliefs.kernels._jit import kernel
from beliefs.kernels.regions.structure import FactorHomes, RegionTables
from beliefs.typing import Floats

__all__ = ["add_factors", "sum_factors"]


@kernel
def add_factors(tables: RegionTables, homes: FactorHomes, potentials: Floats, logs: Floats) -> None:
    """Add each factor's log potentials, side by side in ``potentials``, to its home in ``logs (n_cells,)``.

    Equivalent to ``logs[home] += potentials[map]`` factor by factor. Cost: cells of homes, a factor each.
    """
    for i in range(homes.table.size):
        begin, end = tables.cell_ptr[homes.table[i]], tables.cell_ptr[homes.table[i] + 1]
        at, cell = tables.map_ptr[homes.map[i]], homes.cell[i]
        for k in range(end - begin):
            logs[begin + k] += potentials[cell + tables.maps[at + k]]


@kernel
def sum_factors(tables: RegionTables, homes: FactorHomes, beliefs: Floats, sums: Floats) -> None:
    """Add the beliefs of each factor's home to the factor's own cells in ``sums``.

    Equivalent to ``np.add.at(sums, map, beliefs[home])`` factor by factor. Cost: as of :func:`add_factors`.
    """
    for i in range(homes.table.size):
        begin, end = tables.cell_ptr[homes.table[i]], tables.cell_ptr[homes.table[i] + 1]
        at, cell = tables.map_ptr[homes.map[i]], homes.cell[i]
        for k in range(end - begin):
            sums[cell + tables.maps[at + k]] += beliefs[begin + k]
