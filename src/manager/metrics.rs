//! The metrics of the process as a whole, and `/metrics`, in the OpenMetrics text format.
//! What the controllers measure they register themselves, in the registry made here.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::process_metrics::ProcessMetrics;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A registry that holds what every process of ours shows: which build it is and what it
/// uses.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([
        ("version", env!("CARGO_PKG_VERSION")),
        ("os", std::env::consts::OS),
        ("arch", std::env::consts::ARCH),
    ]);
    registry.register("quartet_operator_build", "The build that is running", build);
    registry.register_collector(Box::new(ProcessMetrics));
    registry
}

/// Serves `/metrics`.
pub(super) fn router(registry: Registry) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(Arc::new(registry))
}

async fn scrape(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot write the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_the_build_and_the_process() {
        let mut text = String::new();
        encode(&mut text, &registry()).unwrap();
        let build = format!(
            "quartet_operator_build_info{{version=\"{}\"",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&build), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
