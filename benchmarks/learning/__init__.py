"""Learning: whole fits, one gradient over images, truncated gradients beside torch, chains beside CRFsuite."""
