"""Max-margin learning on scanned words, ours beside CRFsuite and LIBLINEAR."""
