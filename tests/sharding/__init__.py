"""Tests of searches in shards, and what is searched."""
