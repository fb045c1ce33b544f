"""The problem list, the problem page and what an operator may switch per problem."""
