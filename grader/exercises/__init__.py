"""One module an exercise: fresh inputs, the oracle, the budgets. Modules with a leading underscore are shared."""
