from benchmarks.regions.run import SUITE

SUITE.main()
