//! Spans over OTLP (gRPC), to a collector of OpenTelemetry.
//!
//! The environment variables of OpenTelemetry's specification say where to: without an endpoint nothing is
//! exported. `TRIBUTARY_TRACES` selects spans as `TRIBUTARY_LOG` selects lines of the log.

use std::env;

use anyhow::{Context as _, Result};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, SpanExporter,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Runtime;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Sends spans until it is dropped, which waits for those that are due.
pub(crate) struct Exporter {
    provider: SdkTracerProvider,
    filter: String,
    /// Carries the connection.
    _runtime: Runtime,
}

impl Exporter {
    /// `None` without an endpoint. `enter` is called before there are threads.
    ///
    /// # Errors
    /// One line, if the endpoint is invalid, or threads cannot be started.
    pub(crate) fn start(enter: impl FnOnce() -> Result<()>) -> Result<Option<Self>> {
        let endpoints = [OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT];
        let Some(endpoint) = endpoints.into_iter().find(|name| env::var_os(name).is_some()) else {
            return Ok(None);
        };
        let filter = env::var("TRIBUTARY_TRACES").unwrap_or_else(|_| "info".to_owned());
        EnvFilter::try_new(&filter).with_context(|| {
            format!(
                "TRIBUTARY_TRACES={filter}: write a level, such as info, or CRATE=LEVEL,CRATE=LEVEL"
            )
        })?;
        enter()?;
        let runtime = tributary_endpoint::runtime()?;
        let entered = runtime.enter();
        let exporter = SpanExporter::builder().with_tonic().build();
        let exporter = exporter.with_context(|| {
            format!("cannot send traces; is {endpoint} an address such as http://localhost:4317?")
        })?;
        drop(entered);
        let name = env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "tributary".to_owned());
        let resource = Resource::builder().with_service_name(name).build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Some(Self { provider, filter, _runtime: runtime }))
    }

    /// Takes spans.
    pub(crate) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let filter = EnvFilter::new(&self.filter);
        let tracer = self.provider.tracer("tributary");
        tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}
