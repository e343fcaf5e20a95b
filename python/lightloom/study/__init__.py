"""Studies: comparisons of fabrics, comparisons of schedulers, and scores of predictors."""
