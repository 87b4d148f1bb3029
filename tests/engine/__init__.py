"""Tests of the engines, and what they are given to do."""
