from benchmarks.learning.margin.run import SUITE

SUITE.main()
