"""The problem set of ParallelKernelBench.

`schema`, `registry` and `taxonomy` need nothing but the standard library, so a web process can read them
without torch. `values`, `groups`, `comparison` and the folders' `inputs`, `reference`, `oracle` and `variants`
need torch and are imported only where ranks run.
"""
