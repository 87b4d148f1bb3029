"""Least squares by products with a derivative, or with the derivative where it is small."""
