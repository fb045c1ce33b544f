"""Tables and pages that are made by running the problems and the judge."""
