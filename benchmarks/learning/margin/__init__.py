"""Max-margin learning, ours beside CRFsuite, LIBLINEAR and dlib."""
