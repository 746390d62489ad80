"""Series of two hours, a value each 30 s: what each alarm is for, and a quiet time."""

from __future__ import annotations

__all__ = ["FIRING", "QUIET"]

_CALLS = 'upshot_model_calls_total{model="openai:gpt-5",outcome="%s"}'
_ENDED = 'upshot_runs_ended_total{agent="desk",status="%s",error="%s"}'
_COMMITS = 'upshot_commit_seconds_bucket{le="%s"}'

FIRING: dict[str, dict[str, str]] = {
    "UpshotWorkerLost": {'upshot_journal_runs{state="died"}': "0x200 2x40"},
    "UpshotQueueStuck": {"upshot_journal_oldest_due_seconds": "0x200 61x40"},
    "UpshotJournalAway": {
        'upshot_journal_up{instance="a"}': "1x240",
        'upshot_journal_up{instance="b"}': "1x230 0x10",
    },
    "UpshotNoSynchronousStandby": {"upshot_journal_synchronous_standby": "1x200 0x40"},
    "UpshotDiskFull": {"upshot_journal_disk_free_bytes": "2000000000-10000000x240"},
    "UpshotCommitsSlow": {
        _COMMITS % "1": "0+1x240",
        _COMMITS % "2.5": "0+5x240",
        _COMMITS % "+Inf": "0+5x240",
    },
    "UpshotProviderDown": {_CALLS % "ok": "0+1x240", _CALLS % "server_error": "0x200 1+5x40"},
    "UpshotKeyRevoked": {_CALLS % "ok": "0+9x240", _CALLS % "auth_error": "0x230 1x10"},
    "UpshotPoisonedRun": {_ENDED % ("failed", "worker_lost"): "0x200 1x40"},
    "UpshotManyFailures": {
        _ENDED % ("completed", ""): "0+3x240",
        _ENDED % ("failed", "internal"): "0x180 1+1x60",
    },
    "UpshotTwoVersions": {
        'upshot_process_info{app_version="1"}': "1x240",
        'upshot_process_info{app_version="2"}': "1x240",
    },
    "UpshotClockOff": {"upshot_journal_clock_ahead_seconds": "0x200 -6x40"},
    "UpshotInboxFlooded": {'upshot_journal_inbox_items{older_than="3600"}': "0x200 21x40"},
    "UpshotUnknownEffects": {'upshot_journal_effects{state="unknown"}': "0x200 1x40"},
    "UpshotLeasesLost": {"upshot_leases_lost_total": "0x230 1x10"},
    "UpshotNotificationsFail": {'upshot_notifications_total{outcome="failed"}': "0x220 1+1x20"},
    "UpshotScheduleMissed": {'upshot_journal_schedule_missed{schedule="s"}': "0x200 1x40"},
}

QUIET: dict[str, str] = {
    'upshot_journal_runs{state="died"}': "0x236 1 0 0 0",
    "upshot_journal_oldest_due_seconds": "5x240",
    "upshot_journal_up": "1x240",
    "upshot_journal_synchronous_standby": "1x240",
    "upshot_journal_disk_free_bytes": "50000000000x240",
    _COMMITS % "1": "0+5x240",
    _COMMITS % "+Inf": "0+5x240",
    _CALLS % "ok": "0+9x240",
    _CALLS % "server_error": "0+1x240",
    _CALLS % "auth_error": "0x240",
    _ENDED % ("completed", ""): "0+9x240",
    _ENDED % ("failed", "internal"): "0+1x240",
    _ENDED % ("failed", "worker_lost"): "1x240",
    # A rolling deploy of ten minutes.
    'upshot_process_info{app_version="1"}': "1x120",
    'upshot_process_info{app_version="2"}': "_x100 1x140",
    "upshot_journal_clock_ahead_seconds": "0.02x240",
    'upshot_journal_inbox_items{older_than="3600"}': "3x240",
    'upshot_journal_effects{state="unknown"}': "0x220 1x5 0x15",
    "upshot_leases_lost_total": "2x240",
    'upshot_notifications_total{outcome="failed"}': "1x240",
    'upshot_journal_schedule_missed{schedule="s"}': "0x240",
}
