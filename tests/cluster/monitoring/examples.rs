//! For each alert, series that make it fire and series that do not, in the notation of `promtool
//! test rules`: `0+6x20` starts at 0 and grows by 6 each minute, twenty times.

use serde_json::{Value, json};

type Series = &'static [(&'static str, &'static str)];

/// The test of one alert. In names of series, `JOB` is replaced by the scraped job.
pub(crate) struct Example {
    pub(crate) alert: &'static str,
    /// The alert fires on these series.
    fires: Series,
    /// The alert does not fire on these series.
    rests: Series,
    /// The time of evaluation.
    at: &'static str,
}

pub(crate) const EXAMPLES: &[Example] = &[
    Example {
        alert: "QuartetOperatorResourceDegraded",
        fires: &[(DEGRADED, "1x20")],
        // A resource whose rollout is in progress, and one that recovered within 15 minutes.
        rests: &[(NOT_READY, "1x20"), (DEGRADED, "1x14 stale")],
        at: "16m",
    },
    Example {
        alert: "QuartetOperatorResourceDegraded",
        // The reason changes after ten minutes.
        fires: &[(IMAGE_MISSING, "1x9 stale"), (NO_PROGRESS, "_x10 1x10")],
        // Likewise, and the resource recovers before 15 minutes have passed.
        rests: &[
            (IMAGE_MISSING, "1x9 stale"),
            (NO_PROGRESS, "_x10 1x4 stale"),
        ],
        at: "16m",
    },
    Example {
        alert: "QuartetOperatorDown",
        fires: &[("up{JOB,instance=\"a\"}", "0x10")],
        rests: &[
            ("up{JOB,instance=\"a\"}", "0x10"),
            ("up{JOB,instance=\"b\"}", "1x10"),
        ],
        at: "6m",
    },
    Example {
        alert: "QuartetOperatorNoLeader",
        fires: &[(LEADER_A, "1 0x10"), (LEADER_B, "0x10")],
        rests: &[(LEADER_A, "1 0x10"), (LEADER_B, "0 0 1x10")],
        at: "5m",
    },
    Example {
        alert: "QuartetOperatorTwoLeaders",
        fires: &[(LEADER_A, "1x10"), (LEADER_B, "1x10")],
        rests: &[(LEADER_A, "1x10"), (LEADER_B, "0x10")],
        at: "5m",
    },
    Example {
        alert: "QuartetOperatorWebhookErrors",
        fires: &[(
            "controller_runtime_webhook_requests_total{JOB,webhook=\"/v\",code=\"503\"}",
            "0+6x20",
        )],
        rests: &[
            (
                "controller_runtime_webhook_requests_total{JOB,webhook=\"/v\",code=\"200\"}",
                "0+6x20",
            ),
            (
                "controller_runtime_webhook_requests_total{JOB,webhook=\"/v\",code=\"500\"}",
                "3x20",
            ),
        ],
        at: "15m",
    },
    Example {
        alert: "QuartetOperatorConversionFailures",
        fires: &[(
            "quartet_operator_conversions_total{JOB,result=\"failure\"}",
            "0 0 1x20",
        )],
        rests: &[(
            "quartet_operator_conversions_total{JOB,result=\"success\"}",
            "0+9x20",
        )],
        at: "5m",
    },
    Example {
        alert: "QuartetOperatorPanics",
        fires: &[(RECONCILE_PANICS, "0 0 1x20")],
        rests: &[(RECONCILE_PANICS, "1x20")],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorPanics",
        fires: &[(ADMISSION_PANICS, "0 0 1x20")],
        rests: &[(ADMISSION_PANICS, "1x20")],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorPanics",
        fires: &[(CONVERSION_PANICS, "0 0 1x20")],
        rests: &[(CONVERSION_PANICS, "1x20")],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorCertificateExpires",
        fires: &[(NOT_AFTER, "600000x40")],
        rests: &[(NOT_AFTER, "800000x40")],
        at: "30m",
    },
    Example {
        alert: "QuartetOperatorCrashLooping",
        fires: &[(
            "process_start_time_seconds{JOB,instance=\"a\"}",
            "1 2 3 4 5x30",
        )],
        rests: &[("process_start_time_seconds{JOB,instance=\"a\"}", "1 2 3x30")],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorReconcileErrors",
        fires: &[(ERRORS, "0+30x60"), (RECONCILES, "0+60x60")],
        rests: &[(ERRORS, "0+6x60"), (RECONCILES, "0+60x60")],
        at: "40m",
    },
    Example {
        alert: "QuartetOperatorReconcileStuck",
        fires: &[(TIMEOUTS, "0 0 1x20")],
        rests: &[(TIMEOUTS, "1x20")],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorQueueBacklog",
        fires: &[(DEPTH_A, "500x40"), (LEADER_A, "1x40")],
        rests: &[(DEPTH_A, "500x40"), (LEADER_A, "0x40")],
        at: "30m",
    },
    Example {
        alert: "QuartetOperatorWatchErrors",
        // Less often than one replica retries: every 15 to 30 s.
        fires: &[(
            "quartet_operator_watch_errors_total{JOB,kind=\"Pod\",code=\"403\"}",
            "0+1x60",
        )],
        // A burst six minutes before, which is over.
        rests: &[(
            "quartet_operator_watch_errors_total{JOB,kind=\"Pod\",code=\"410\"}",
            "0x33 30x30",
        )],
        at: "40m",
    },
    Example {
        alert: "QuartetOperatorApiErrors",
        fires: &[(NO_ANSWER, "0+30x60"), (ANSWERED, "0+60x60")],
        rests: &[(NO_ANSWER, "0+1x60"), (ANSWERED, "0+60x60")],
        at: "40m",
    },
    Example {
        alert: "QuartetOperatorWebhookSlow",
        fires: &[
            (LATENCY_FAST, "0+50x40"),
            (LATENCY_SLOW, "0+60x40"),
            (LATENCY_ALL, "0+60x40"),
        ],
        rests: &[(LATENCY_FAST, "0+60x40"), (LATENCY_ALL, "0+60x40")],
        at: "30m",
    },
    Example {
        alert: "QuartetOperatorConversionDataLeftOut",
        fires: &[(
            "quartet_operator_conversion_data_left_out_total{JOB,kind=\"Nginx\"}",
            "0 0 2x20",
        )],
        rests: &[(
            "quartet_operator_conversion_data_left_out_total{JOB,kind=\"Nginx\"}",
            "2x20",
        )],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorFieldConflict",
        fires: &[(
            "quartet_operator_field_conflicts_total{JOB,controller=\"nginx\",child=\"Deployment\"}",
            "0 0 1x20",
        )],
        rests: &[(
            "quartet_operator_field_conflicts_total{JOB,controller=\"nginx\",child=\"Deployment\"}",
            "1x30",
        )],
        at: "10m",
    },
    Example {
        alert: "QuartetOperatorCertificateReadErrors",
        fires: &[(
            "certwatcher_read_certificate_errors_total{JOB,instance=\"a\"}",
            "0+1x90",
        )],
        rests: &[(
            "certwatcher_read_certificate_errors_total{JOB,instance=\"a\"}",
            "0 1x90",
        )],
        at: "60m",
    },
];

const LEADER_A: &str =
    "leader_election_master_status{JOB,instance=\"a\",name=\"quartet-operator.example.com\"}";
const LEADER_B: &str =
    "leader_election_master_status{JOB,instance=\"b\",name=\"quartet-operator.example.com\"}";
const NOT_AFTER: &str =
    "quartet_operator_webhook_certificate_not_after_timestamp_seconds{JOB,instance=\"a\"}";
const ERRORS: &str = "controller_runtime_reconcile_errors_total{JOB,controller=\"nginx\"}";
const RECONCILES: &str = "controller_runtime_reconcile_total{JOB,controller=\"nginx\"}";
const DEGRADED: &str = "quartet_operator_resource_condition{JOB,controller=\"nginx\",namespace=\"n\",name=\"a\",condition=\"Degraded\",status=\"True\",reason=\"NameConflict\"}";
const NOT_READY: &str = "quartet_operator_resource_condition{JOB,controller=\"nginx\",namespace=\"n\",name=\"a\",condition=\"Ready\",status=\"False\",reason=\"RollingOut\"}";
const IMAGE_MISSING: &str = "quartet_operator_resource_condition{JOB,controller=\"nginx\",namespace=\"n\",name=\"a\",condition=\"Degraded\",status=\"True\",reason=\"ImagePullBackOff\"}";
const NO_PROGRESS: &str = "quartet_operator_resource_condition{JOB,controller=\"nginx\",namespace=\"n\",name=\"a\",condition=\"Degraded\",status=\"True\",reason=\"ProgressDeadlineExceeded\"}";
const RECONCILE_PANICS: &str =
    "controller_runtime_reconcile_panics_total{JOB,controller=\"nginx\"}";
const ADMISSION_PANICS: &str = "controller_runtime_webhook_panics_total{JOB}";
const CONVERSION_PANICS: &str = "controller_runtime_conversion_webhook_panics_total{JOB}";
const TIMEOUTS: &str = "controller_runtime_reconcile_timeouts_total{JOB,controller=\"nginx\"}";
const DEPTH_A: &str = "workqueue_depth{JOB,instance=\"a\",controller=\"nginx\",name=\"nginx\"}";
const NO_ANSWER: &str = "rest_client_requests_total{JOB,code=\"<error>\"}";
const ANSWERED: &str = "rest_client_requests_total{JOB,code=\"200\"}";
const LATENCY_FAST: &str = "controller_runtime_webhook_latency_seconds_bucket{JOB,le=\"0.5\"}";
const LATENCY_SLOW: &str = "controller_runtime_webhook_latency_seconds_bucket{JOB,le=\"1.0\"}";
const LATENCY_ALL: &str = "controller_runtime_webhook_latency_seconds_bucket{JOB,le=\"+Inf\"}";

/// Returns the file for `promtool test rules` that evaluates `rules` on every example.
pub(crate) fn promtool_tests(rules: &str, job: &str) -> Value {
    let tests: Vec<_> = EXAMPLES
        .iter()
        .flat_map(|example| {
            [
                example.test(
                    "fires",
                    example.fires,
                    &[json!({"labels": "{}", "value": 1})],
                    job,
                ),
                example.test("rests", example.rests, &[], job),
            ]
        })
        .collect();
    json!({ "rule_files": [rules], "evaluation_interval": "1m", "tests": tests })
}

impl Example {
    fn test(&self, how: &str, series: Series, expected: &[Value], job: &str) -> Value {
        let series: Vec<_> = series
            .iter()
            .map(|(name, values)| {
                let name = name.replace("JOB", &format!("job=\"{job}\""));
                json!({ "series": name, "values": values })
            })
            .collect();
        let firing = format!(
            "count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}})",
            self.alert
        );
        json!({
            "name": format!("{} {how}", self.alert),
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [{ "expr": firing, "eval_time": self.at, "exp_samples": expected }],
        })
    }
}
