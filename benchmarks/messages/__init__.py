"""Message passing, ours beside a fixed reference loop, pyGMs and the limit of the machine."""
