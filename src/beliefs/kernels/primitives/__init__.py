"""Small pieces that all kernels share: vectors, memory, elementary functions, random bits, heaps."""
