from benchmarks.uai.run import SUITE

SUITE.main()
