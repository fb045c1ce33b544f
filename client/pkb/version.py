"""The version of this package, for `pkb --version` and the sites that it calls."""

VERSION = "0.4.0"
