"""Tests of the search; `planted` makes batches whose truth is known."""
