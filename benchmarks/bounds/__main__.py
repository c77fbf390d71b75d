from benchmarks.bounds.run import SUITE

SUITE.main()
