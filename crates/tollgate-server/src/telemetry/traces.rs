//! Traces over OTLP: a span for a share of the decisions, sent in batches by a separate thread.
//!
//! A decision never waits for the exporter; when its queue is full, spans are dropped.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanKind, Status, Tracer, TracerProvider};
use opentelemetry::{KeyValue, trace::Span as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

use super::event::DecisionEvent;
use super::event_key::EventKeyParts;
use crate::config::TelemetryOptions;
use crate::server::StartError;

/// The maximum time to send the remaining spans when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// An exporter of decision spans.
#[derive(Debug)]
pub(super) struct TraceExporter {
    share: f64,
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

impl TraceExporter {
    /// Creates an exporter on the current runtime; `None` if no endpoint is configured.
    pub(super) fn new(options: &TelemetryOptions) -> Result<Option<TraceExporter>, StartError> {
        let Some(endpoint) = &options.otlp else { return Ok(None) };
        let failed = |reason: String| StartError::Traces { endpoint: endpoint.clone(), reason };
        if !endpoint.starts_with("http://") {
            return Err(failed("write it as http://HOST:4317".into()));
        }
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = exporter.map_err(|error| failed(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            // Decisions are sampled before a span is created.
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(Resource::builder().with_service_name("tollgate").build())
            .build();
        let tracer = provider.tracer("tollgate");
        Ok(Some(TraceExporter { share: options.trace_share, tracer, provider }))
    }

    pub(super) fn is_sampled(&self) -> bool {
        self.share > 0.0 && fastrand::f64() < self.share
    }

    /// Queues the span of a decision that ended now and took `took`.
    pub(super) fn send(&self, event: &DecisionEvent, took: Duration) {
        let at = Duration::from_millis(u64::try_from(event.at_ms()).unwrap_or_default());
        let end = SystemTime::UNIX_EPOCH + at;
        let EventKeyParts { domain, rule, .. } = event.parts();
        let mut span = self
            .tracer
            .span_builder("decision")
            .with_kind(SpanKind::Server)
            .with_start_time(end.checked_sub(took).unwrap_or(end))
            .with_attributes([
                KeyValue::new("tollgate.domain", domain),
                KeyValue::new("tollgate.rule", rule),
                KeyValue::new("tollgate.outcome", event.outcome.as_str()),
                KeyValue::new("tollgate.reason", event.reason),
                KeyValue::new("tollgate.door", event.door.as_str()),
                KeyValue::new("tollgate.cost", i64::try_from(event.cost).unwrap_or(i64::MAX)),
            ])
            .start(&self.tracer);
        span.set_status(Status::Unset);
        span.end_with_timestamp(end);
    }

    /// Sends the remaining spans. Blocks the thread for a short time.
    pub(super) fn close(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(%error, "cannot send the last traces");
        }
    }
}
