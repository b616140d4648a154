"""Hosts of kernels: `local` in process, `spark` in production; `shard` is the step both run."""
