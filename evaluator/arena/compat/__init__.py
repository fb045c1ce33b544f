"""What submissions may import beside torch: this folder goes on the ranks' search path, so `utils` is found in it.

The interfaces are those for which solutions of the public benchmark were written; the code is our own. Nothing here
imports the rest of the evaluator: inside the sandbox there is nothing else to import.
"""
