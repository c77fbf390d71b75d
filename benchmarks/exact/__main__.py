from benchmarks.exact.run import SUITE

SUITE.main()
