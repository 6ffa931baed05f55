//! Spans of a run arrive at a collector: `cargo nextest run --workspace --features tributary/otlp --test otlp`.

use std::process::Command;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// Keeps what it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().extend(request.into_inner().resource_spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    format!("{:?}", found.unwrap_or_else(|| panic!("{key}: {span:?}")).value)
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_a_run_arrive_at_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let collector = Collector::default();
    let service = TraceServiceServer::new(collector.clone());
    let serve = Server::builder().add_service(service);
    tokio::spawn(serve.serve_with_incoming(TcpListenerStream::new(listener)));

    let directory = tempfile::tempdir().unwrap();
    let job = directory.path().join("job.toml");
    std::fs::write(&job, "[[job]]\nname = \"traced\"\nworkers = 2\n").unwrap();
    let run = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_tributary"))
            .arg("run")
            .arg(job)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
            .output()
            .unwrap()
    });
    let run = run.await.unwrap();
    assert!(run.status.success(), "{run:?}");

    let sent = collector.0.lock().unwrap();
    let scopes = sent.iter().flat_map(|resource| &resource.scope_spans);
    let spans: Vec<&Span> = scopes.flat_map(|scope| &scope.spans).collect();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    assert_eq!((named("run").len(), named("worker").len()), (1, 2), "{spans:?}");
    for worker in named("worker") {
        assert!(attribute(worker, "job").contains("traced"), "{worker:?}");
        assert!(worker.end_time_unix_nano > worker.start_time_unix_nano, "{worker:?}");
    }
    let resource = format!("{:?}", sent[0].resource);
    assert!(resource.contains("service.name") && resource.contains("tributary"), "{resource}");
}
