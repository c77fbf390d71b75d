from benchmarks.learning.chunking.run import SUITE

SUITE.main()
