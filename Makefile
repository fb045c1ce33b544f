# Filled by the set-up work.
