//! What mdBook only warns of while it renders, such as HTML that is not balanced. In this book a
//! warning is a problem.

use crate::problem::Problem;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Runs `work` and returns what it returns, and what mdBook warned of meanwhile.
pub fn collect<T>(work: impl FnOnce() -> T) -> (T, Vec<Problem>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Listener(Arc::clone(&heard));
    let result = tracing::subscriber::with_default(listener, work);
    let messages = std::mem::take(&mut *heard.lock().unwrap_or_else(|e| e.into_inner()));
    let problems = messages
        .into_iter()
        .map(|message| Problem::in_file("mdBook", message))
        .collect();
    (result, problems)
}

struct Listener(Arc<Mutex<Vec<String>>>);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        if let Ok(mut heard) = self.0.lock() {
            heard.push(message.0);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_heard_and_the_rest_is_not() {
        let (result, problems) = collect(|| {
            tracing::info!("all is well");
            tracing::warn!("unclosed <{}>", "p");
            7
        });
        assert_eq!(result, 7);
        assert_eq!(problems, [Problem::in_file("mdBook", "unclosed <p>")]);
    }
}
