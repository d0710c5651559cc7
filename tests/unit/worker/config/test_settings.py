from worker.config.settings import Settings, unknown_variables


def test_a_misspelt_setting_is_told_with_the_nearest_one() -> None:
    told = unknown_variables({"CYCLOPS_JOB_SECOND": "5", "CYCLOPS_REDIS_UR": "redis://:secret@x", "JOB_SECOND": "5"})
    assert told == [
        "CYCLOPS_JOB_SECOND is no setting and does nothing; did you mean CYCLOPS_JOB_SECONDS?",
        "CYCLOPS_REDIS_UR is no setting and does nothing; did you mean CYCLOPS_REDIS_URL?",
    ]
    assert unknown_variables({"CYCLOPS_QQQQ": "1"}) == [
        "CYCLOPS_QQQQ is no setting and does nothing; docs/settings.md lists them"
    ]


def test_settings_are_known_as_they_are_read() -> None:
    assert unknown_variables({f"CYCLOPS_{name.upper()}": "" for name in Settings.model_fields}) == []
    assert unknown_variables({"cyclops_data": "x"}) == []
