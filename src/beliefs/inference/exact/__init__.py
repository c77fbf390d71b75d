"""Exact methods: the joint table, bucket elimination, the junction tree."""
