"""Tests of defence curves, and the points that they are made from."""
