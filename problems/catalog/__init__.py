"""One folder per problem; the registry finds them by scanning this package."""
