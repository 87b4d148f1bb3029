"""Tests of certification, and small audited settings that they share."""
