"""Programs that measure or make tables: no tests. Each says at its top how it is called."""
