"""The manual: docs/**/*.md as pages of the site, in the order of mkdocs.yml, which builds the same files."""
