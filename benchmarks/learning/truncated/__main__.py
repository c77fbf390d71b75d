from benchmarks.learning.truncated.run import SUITE

SUITE.main()
