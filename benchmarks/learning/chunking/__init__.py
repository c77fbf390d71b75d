"""Linear chains on CoNLL-2000 chunking, ours beside CRFsuite."""
