//! The events of one watch on their way through the rules, one per line.

use std::collections::{BTreeSet, VecDeque};

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{Stream, StreamExt as _, stream};
use serde_json::Value;
use tokio::sync::watch::Receiver;

use crate::exchange::Reset;
use crate::journal::Record;
use crate::request::Target;
use crate::rule::{Action, EventAction, edited, status};
use crate::rules::Rules;

/// The number of events that [`EventAction::Replay`] repeats.
const PAST: usize = 64;

/// A running watch.
struct Watch {
    rules: Rules,
    target: Target,
    upstream: BodyDataStream,
    /// Received bytes that are not a whole line yet.
    partial: Vec<u8>,
    /// Lines that the rules have not seen yet.
    incoming: VecDeque<Bytes>,
    /// Lines that are sent next.
    outgoing: VecDeque<Bytes>,
    /// Lines that wait for the end of a rule, and its number.
    held: VecDeque<Bytes>,
    holder: Option<u64>,
    past: VecDeque<Bytes>,
    state: State,
    changes: Receiver<()>,
    record: Record,
    /// Rules that have checked this watch.
    seen: BTreeSet<u64>,
}

#[derive(PartialEq)]
enum State {
    Runs,
    /// After the outgoing lines.
    Ends,
    Resets,
    Silent,
}

/// Returns the events as the client gets them.
pub(crate) fn events(
    rules: Rules,
    target: Target,
    body: Body,
    record: Record,
    seen: BTreeSet<u64>,
) -> impl Stream<Item = Result<Bytes, Reset>> + Send {
    let watch = Watch {
        changes: rules.changes(),
        rules,
        target,
        upstream: body.into_data_stream(),
        partial: Vec::new(),
        incoming: VecDeque::new(),
        outgoing: VecDeque::new(),
        held: VecDeque::new(),
        holder: None,
        past: VecDeque::new(),
        state: State::Runs,
        record,
        seen,
    };
    stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((next, watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, Reset>> {
        loop {
            if let Some(line) = self.outgoing.pop_front() {
                return Some(Ok(line));
            }
            match self.state {
                State::Runs => {}
                State::Ends => return None,
                State::Resets => return Some(Err(Reset)),
                State::Silent => std::future::pending().await,
            }
            self.apply_rules();
            // A held event may have been released with no further bytes behind it.
            if self.state != State::Runs || !self.outgoing.is_empty() {
                continue;
            }
            if let Some(line) = self.incoming.pop_front() {
                self.take(line);
                continue;
            }
            tokio::select! {
                _ = self.changes.changed() => {}
                piece = self.upstream.next() => match piece {
                    Some(Ok(piece)) => self.split(&piece),
                    Some(Err(_)) => self.state = State::Resets,
                    None => self.state = State::Ends,
                },
            }
        }
    }

    fn split(&mut self, piece: &[u8]) {
        self.partial.extend_from_slice(piece);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            self.incoming.push_back(line.into());
        }
    }

    fn apply_rules(&mut self) {
        self.changes.mark_unchanged();
        let hit = self.rules.of_running_watch(&self.target, &mut self.seen);
        if let Some((action, effect)) = hit {
            self.record.note(|entry| entry.is_met = true);
            effect.took();
            self.state = match action {
                Action::BlackHole => State::Silent,
                _ => State::Resets,
            };
        }
        if self.holder.is_some_and(|holder| !self.rules.holds(holder)) {
            self.holder = None;
            // Before the lines received meanwhile; the rules have not seen those after the first.
            if let Some(first) = self.held.pop_front() {
                self.pass_on(first);
            }
            self.held.append(&mut self.incoming);
            self.incoming = std::mem::take(&mut self.held);
        }
    }

    fn take(&mut self, line: Bytes) {
        if self.holder.is_some() {
            self.held.push_back(line);
            return;
        }
        let Some((number, action)) = self.rules.of_event(&self.target, &name(&line)) else {
            self.pass_on(line);
            return;
        };
        match action {
            EventAction::Replay => {
                self.pass_on(line);
                self.outgoing.extend(self.past.iter().cloned());
            }
            EventAction::Hold => {
                self.holder = Some(number);
                self.held.push_back(line);
            }
            EventAction::Gone => {
                let object = status(410, "Expired", "too old resource version");
                let event = serde_json::json!({"type": "ERROR", "object": object});
                self.outgoing.push_back(format!("{event}\n").into());
                self.state = State::Ends;
            }
            EventAction::Half => {
                self.outgoing.push_back(line.slice(..line.len() / 2));
                self.state = State::Ends;
            }
            EventAction::Edit(pointer, value) => {
                let mut edited = edited(&line, pointer, &value).to_vec();
                if !edited.ends_with(b"\n") {
                    edited.push(b'\n');
                }
                self.pass_on(edited.into());
            }
        }
    }

    fn pass_on(&mut self, line: Bytes) {
        self.outgoing.push_back(line.clone());
        self.past.push_back(line);
        if self.past.len() > PAST {
            self.past.pop_front();
        }
    }
}

/// Returns the name of an event's object; empty if it has none.
fn name(line: &[u8]) -> String {
    let event: Value = serde_json::from_slice(line).unwrap_or_default();
    let name = &event["object"]["metadata"]["name"];
    name.as_str().unwrap_or_default().to_owned()
}
