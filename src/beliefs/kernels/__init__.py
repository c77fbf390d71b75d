"""Hot loops: plain functions of flat arrays, compiled by Numba. Arrays in, arrays out; no names, no checks."""
