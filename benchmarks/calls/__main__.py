from benchmarks.calls.run import SUITE

SUITE.main()
