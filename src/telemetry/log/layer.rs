//! The tracing layer: collects an event and its spans' fields, formats, and queues. Never waits.

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::format::{self, Format, Head};
use super::queue::Queue;
use super::record::Fields;

#[derive(Debug)]
pub(super) struct LogLayer {
    format: Format,
    queue: Queue,
}

impl LogLayer {
    pub(super) fn new(format: Format, queue: Queue) -> Self {
        Self { format, queue }
    }

    fn time(&self) -> String {
        match self.format {
            Format::Journal => String::new(),
            Format::Plain | Format::Coloured | Format::Json => now(),
        }
    }
}

/// `2026-11-29T22:31:00.123456Z`
pub(super) fn now() -> String {
    let mut out = String::new();
    let _infallible = SystemTime.format_time(&mut Writer::new(&mut out));
    out
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                for (name, value) in &of_span.named {
                    fields.add(name, value.clone());
                }
            }
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        let time = self.time();
        let head = Head {
            time: &time,
            level: *metadata.level(),
            target: metadata.target(),
            place: metadata.file().zip(metadata.line()),
        };
        self.queue.push(format::encode(self.format, &head, &fields));
    }
}
