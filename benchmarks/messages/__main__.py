from benchmarks.messages.run import SUITE

SUITE.main()
