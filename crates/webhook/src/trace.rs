//! The parent of a span that another process names.

use std::collections::HashMap;

use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const PARENT: &str = "traceparent";

/// Makes `span` part of the trace in the `traceparent` of `headers` (W3C Trace Context), if there is
/// one. `span` must not have been entered yet. The `tracestate` of a client is left out: it can be 16 KiB long,
/// and each span that waits for its export would keep it.
pub(crate) fn adopt(span: &Span, headers: &HeaderMap) {
    let parent = headers.get(PARENT).and_then(|parent| parent.to_str().ok());
    let Some(parent) = parent.filter(|_| !span.is_disabled()) else {
        return;
    };
    let headers = HashMap::from([(PARENT.to_owned(), parent.to_owned())]);
    // Fails only if the span was entered already, or is not traced.
    let _ = span.set_parent(TraceContextPropagator::new().extract(&headers));
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::{dispatcher, info_span};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The trace of a span for a call with such a `traceparent`, if it has one at all.
    fn trace_of(traceparent: Option<&'static str>) -> String {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        dispatcher::with_default(&Registry::default().with(layer).into(), || {
            let mut headers = HeaderMap::new();
            headers.insert("tracestate", HeaderValue::from_static("vendor=long"));
            if let Some(value) = traceparent {
                headers.insert("traceparent", HeaderValue::from_static(value));
            }
            let span = info_span!("call");
            adopt(&span, &headers);
            let context = span.context();
            let context = context.span().span_context().clone();
            assert!(context.is_valid());
            assert_eq!(context.trace_state().header(), "");
            context.trace_id().to_string()
        })
    }

    #[test]
    fn a_call_is_part_of_the_trace_that_it_names_and_else_begins_one() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
        let named = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_of(Some(named)), TRACE);
        for other in [
            None,
            Some("nonsense"),
            Some("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        ] {
            let own = trace_of(other);
            assert!(own != TRACE && own != "0".repeat(32), "{other:?}: {own}");
        }
    }

    #[test]
    fn a_span_that_nobody_traces_is_left_alone() {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_static("nonsense"));
        adopt(&Span::none(), &headers);
    }
}
