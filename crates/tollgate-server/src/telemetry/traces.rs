//! Traces by OTLP: a span for a share of decisions, sent in batches by a thread of its own. A
//! decision hands its span over and goes on; when too many wait, spans are lost, never time.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanKind, Status, Tracer, TracerProvider};
use opentelemetry::{KeyValue, trace::Span as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

use super::event::Event;
use super::subject::Parts;
use crate::config::TelemetryOptions;
use crate::server::StartError;

/// How long the collector may take to accept what is left when the server stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where spans go.
#[derive(Debug)]
pub(super) struct Traces {
    share: f64,
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

impl Traces {
    /// None if no collector is named. Must be called within a runtime, which sends them.
    pub(super) fn new(options: &TelemetryOptions) -> Result<Option<Traces>, StartError> {
        let Some(to) = &options.otlp else { return Ok(None) };
        let wrong = |why: String| StartError::Traces { to: to.clone(), why };
        if !to.starts_with("http://") {
            return Err(wrong("write it as http://HOST:4317".into()));
        }
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(to).build();
        let exporter = exporter.map_err(|error| wrong(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            // Which decisions have a span is decided before one is made.
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(Resource::builder().with_service_name("tollgate").build())
            .build();
        let tracer = provider.tracer("tollgate");
        Ok(Some(Traces { share: options.trace_share, tracer, provider }))
    }

    pub(super) fn wants(&self) -> bool {
        self.share > 0.0 && fastrand::f64() < self.share
    }

    /// Sends a span of a decision that ended now and took this long.
    pub(super) fn send(&self, event: &Event, took: Duration) {
        let at = Duration::from_millis(u64::try_from(event.at_ms()).unwrap_or_default());
        let end = SystemTime::UNIX_EPOCH + at;
        let Parts { domain, rule, .. } = event.parts();
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

    /// Sends what is left. Blocks the thread, for a moment.
    pub(super) fn close(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_WORDS) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
