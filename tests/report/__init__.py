"""Tests of reports, and the results that they are made from."""
