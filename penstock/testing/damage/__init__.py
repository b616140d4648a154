"""Damaged records in files of every format, for `penstock.testing.damaged_files`."""
