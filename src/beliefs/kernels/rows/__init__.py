"""Hot loops over tables of rows."""
