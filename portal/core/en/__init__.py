"""English as Django's `FORMAT_MODULE_PATH` looks for it."""
