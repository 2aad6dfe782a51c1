from palestra.resources_servers.key_metrics import key_metrics

METRICS = {
    "pass@1[avg-of-1]/reward": 1.0,
    "pass@1[avg-of-2]/reward": 2.0,
    "pass@1[avg-of-2]/reward/avg_sample_std_dev": 9.0,
    "pass@2/reward": 3.0,
    "majority@2/reward": 4.0,
    "mean/reward": 5.0,
}


def test_average_and_best_of_the_most_attempts_are_looked_at_first() -> None:
    assert key_metrics(METRICS) == {"pass@1[avg-of-2]/reward": 2.0, "pass@2/reward": 3.0}


def test_the_vote_counts_where_answers_are_extracted() -> None:
    assert key_metrics(METRICS, majority=True) == {
        "pass@1[avg-of-2]/reward": 2.0,
        "pass@2/reward": 3.0,
        "majority@2/reward": 4.0,
    }
