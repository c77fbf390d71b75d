"""Speed and accuracy, measured apart from the tests: ``python -m benchmarks.exact`` and so on, from the root folder."""
