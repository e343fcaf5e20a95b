"""The sentence that ends the table of predictors."""

import pytest

from lightloom.report.prediction_table import verdict
from lightloom.study.prediction import Score


def scored(**regrets_s):
    names = {"static": "static circuits"}
    return [Score(names.get(name, name), 10, regret_s=value) for name, value in regrets_s.items()]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (
            scored(ewma=2e-6, ridge=2e-6, static=2e-6),
            "Prediction does not change the time here: circuits chosen for any predictor lose "
            "2 us, as static circuits do.",
        ),
        (
            scored(ewma=5e-6, ridge=3e-6, static=2e-6),
            "Circuits chosen for the prediction of ridge lose least, 3 us; static circuits lose "
            "2 us.",
        ),
        (
            scored(ewma=1e-6, ridge=2e-6, static=2e-6),
            "Circuits chosen for the prediction of ewma lose least, 1 us; static circuits lose "
            "2 us.",
        ),
        (scored(static=2e-6), "No predictor has been scored."),
        ([Score("ewma", 10)], "No predictor has been scored."),
    ],
)
def test_the_verdict_says_what_predictions_are_worth(scores, expected):
    assert verdict(scores) == expected
