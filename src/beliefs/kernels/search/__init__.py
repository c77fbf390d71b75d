"""States: feasible ones, better ones, and sums given some of them."""
