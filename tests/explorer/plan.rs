//! A plan: one life of one resource, and the faults at its requests and events.

use std::fmt;
use std::str::FromStr;

use super::life::{Life, Subject, subjects};
use quartet_versions::Version;

/// The fault of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteFault {
    CrashBefore,
    CrashAfter,
    CrashAnswered,
    Timeout,
    Conflict,
    TooMany,
    ObeyedBut500,
    Cut,
    /// The answer takes three seconds.
    Late,
    /// This write and all others of the next minute fail with 503.
    Outage,
    /// This write and all others of the same resource in the next minute are rejected, as by an
    /// admission webhook whose server is unavailable.
    Webhook,
}

/// The fault of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventFault {
    Dropped,
    Doubled,
    Held,
    Expired,
}

/// Which lists are outdated: each type has a watch cache of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outdated {
    All,
    Resources,
    Children,
}

/// The first view of a new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum View {
    /// The current state.
    Fresh,
    /// These lists of the state this number of writes before, and later events after a delay.
    List(Outdated, u64),
    /// Watches that repeat the events of this number of last writes.
    Watch(u64),
}

/// One fault. Numbers count from 0, over all processes of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Write(usize, WriteFault),
    Event(usize, EventFault),
    /// At an event, the process is killed and another one is started.
    Restart(usize, View),
    /// At an event, a second process becomes the leader.
    NewLeader(usize),
}

/// The speed of users and events, and the version of the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tempo {
    /// Users wait until the state has settled before the next step.
    pub(super) patient: bool,
    /// Events arrive after the answers to their writes.
    pub(super) late_events: bool,
    /// Deployments have pods, not only a number of them.
    pub(super) pods: bool,
    /// The resource is stored in the older version of its kind. What that lacks is an annotation, whose
    /// changes make no generation.
    pub(super) older: bool,
}

/// See the top of this file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) subject: usize,
    /// Index into [`Subject::lives`].
    pub(super) life: usize,
    /// Number of executed steps.
    pub(super) steps: usize,
    pub(super) tempo: Tempo,
    pub(super) seed: u64,
    pub(super) faults: Vec<Fault>,
}

impl Plan {
    pub(super) fn subject(&self) -> Subject {
        Subject(self.subject)
    }

    /// The version in which the resource is stored and read.
    pub(super) fn version(&self) -> &'static Version {
        let kind = self.subject().operator().kind();
        if self.tempo.older {
            &kind.spoke
        } else {
            &kind.hub
        }
    }

    pub(super) fn life(&self) -> Life {
        let mut life = self.subject().lives().swap_remove(self.life);
        life.steps.truncate(self.steps);
        life
    }

    /// The plan with this fault only.
    pub(super) fn with(&self, fault: Fault) -> Plan {
        Plan {
            faults: vec![fault],
            ..self.clone()
        }
    }

    /// The plan without its faults.
    pub(super) fn reference(&self) -> Plan {
        Plan {
            faults: Vec::new(),
            ..self.clone()
        }
    }
}

pub(super) const WRITE_FAULTS: [(WriteFault, &str); 11] = [
    (WriteFault::CrashBefore, "crash-before"),
    (WriteFault::CrashAfter, "crash-after"),
    (WriteFault::CrashAnswered, "crash-answered"),
    (WriteFault::Timeout, "timeout"),
    (WriteFault::Conflict, "409"),
    (WriteFault::TooMany, "429"),
    (WriteFault::ObeyedBut500, "obeyed-500"),
    (WriteFault::Cut, "cut"),
    (WriteFault::Late, "late"),
    (WriteFault::Outage, "outage"),
    (WriteFault::Webhook, "webhook"),
];

pub(super) const OUTDATED: [(Outdated, &str); 3] = [
    (Outdated::All, "list"),
    (Outdated::Resources, "resources"),
    (Outdated::Children, "children"),
];

pub(super) const EVENT_FAULTS: [(EventFault, &str); 4] = [
    (EventFault::Dropped, "dropped"),
    (EventFault::Doubled, "doubled"),
    (EventFault::Held, "held"),
    (EventFault::Expired, "410"),
];

fn word<T: PartialEq + Copy>(words: &[(T, &'static str)], value: T) -> &'static str {
    let found = words.iter().find(|(it, _)| *it == value);
    found.map_or("?", |(_, word)| word)
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Write(number, fault) => {
                write!(formatter, "write:{number}:{}", word(&WRITE_FAULTS, *fault))
            }
            Fault::Event(number, fault) => {
                write!(formatter, "event:{number}:{}", word(&EVENT_FAULTS, *fault))
            }
            Fault::Restart(number, View::Fresh) => write!(formatter, "restart:{number}:fresh"),
            Fault::Restart(number, View::List(lists, back)) => {
                let lists = word(&OUTDATED, *lists);
                write!(formatter, "restart:{number}:{lists}-{back}")
            }
            Fault::Restart(number, View::Watch(back)) => {
                write!(formatter, "restart:{number}:watch-{back}")
            }
            Fault::NewLeader(number) => write!(formatter, "leader:{number}"),
        }
    }
}

impl Fault {
    /// What goes wrong, wherever it does.
    pub(super) fn form(&self) -> &'static str {
        match self {
            Fault::Write(_, fault) => word(&WRITE_FAULTS, *fault),
            Fault::Event(_, fault) => word(&EVENT_FAULTS, *fault),
            Fault::Restart(_, View::Fresh) => "fresh",
            Fault::Restart(_, View::List(lists, _)) => word(&OUTDATED, *lists),
            Fault::Restart(_, View::Watch(_)) => "watch",
            Fault::NewLeader(_) => "leader",
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no fault");
        let mut parts = text.split(':');
        let (form, number) = (parts.next(), parts.next());
        let number = number.and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
        let rest = parts.next().unwrap_or_default();
        let back = |text: &str| text.parse().map_err(|_| wrong());
        Ok(match form {
            Some("write") => {
                let found = WRITE_FAULTS.iter().find(|(_, word)| *word == rest);
                Fault::Write(number, found.ok_or_else(wrong)?.0)
            }
            Some("event") => {
                let found = EVENT_FAULTS.iter().find(|(_, word)| *word == rest);
                Fault::Event(number, found.ok_or_else(wrong)?.0)
            }
            Some("restart") => {
                let view = match rest.split_once('-') {
                    None => View::Fresh,
                    Some(("watch", number)) => View::Watch(back(number)?),
                    Some((lists, number)) => {
                        let found = OUTDATED.iter().find(|(_, word)| *word == lists);
                        View::List(found.ok_or_else(wrong)?.0, back(number)?)
                    }
                };
                Fault::Restart(number, view)
            }
            Some("leader") => Fault::NewLeader(number),
            _ => return Err(wrong()),
        })
    }
}

/// `<kind>/<life>:<steps>/<tempo>/<seed>/<fault>,<fault>`, the printed form of a failing plan, and the
/// format of `PLAN`.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |is_set: bool, letter: char| if is_set { letter } else { '-' };
        let Tempo {
            patient,
            late_events,
            pods,
            older,
        } = self.tempo;
        write!(
            formatter,
            "{}/{}:{}/{}{}{}{}/{}/",
            self.subject().operator().kind().kind,
            self.life().name,
            self.steps,
            flag(patient, 'w'),
            flag(late_events, 'l'),
            flag(pods, 'p'),
            if older { "o" } else { "" },
            self.seed
        )?;
        let faults: Vec<_> = self.faults.iter().map(ToString::to_string).collect();
        formatter.write_str(&faults.join(","))
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split('/').collect();
        let [kind, life, tempo, seed, faults] = parts.as_slice() else {
            return Err(format!("{text:?}: wanted kind/life/tempo/seed/faults"));
        };
        let subject = subjects().find(|it| it.operator().kind().kind == *kind);
        let subject = subject.ok_or_else(|| format!("{kind:?} is no kind"))?;
        let lives = subject.lives();
        let (life, steps) = life.split_once(':').unwrap_or((life, "99"));
        let life = lives.iter().position(|it| it.name == life);
        let faults = faults.split(',').filter(|it| !it.is_empty());
        Ok(Plan {
            subject: subject.0,
            life: life.ok_or_else(|| format!("{text:?}: no such life"))?,
            steps: steps
                .parse()
                .map_err(|_| format!("{steps:?} is no number"))?,
            tempo: Tempo {
                patient: tempo.contains('w'),
                late_events: tempo.contains('l'),
                pods: tempo.contains('p'),
                older: tempo.contains('o'),
            },
            seed: seed.parse().map_err(|_| format!("{seed:?} is no seed"))?,
            faults: faults.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

/// All tempos to explore.
pub(super) fn tempos() -> [Tempo; 5] {
    [
        (true, false, true, false),
        (true, true, false, false),
        (false, false, true, false),
        (false, true, false, false),
        (true, false, true, true),
    ]
    .map(|(patient, late_events, pods, older)| Tempo {
        patient,
        late_events,
        pods,
        older,
    })
}

/// Every fault of a run with these numbers of writes and events. A manager that is restarted at an event
/// sees each of the last `earlier` states.
pub(super) fn single_faults(
    writes: usize,
    events: usize,
    earlier: impl Fn(usize) -> u64,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for number in 0..writes {
        faults.extend(WRITE_FAULTS.iter().map(|(it, _)| Fault::Write(number, *it)));
    }
    for number in 0..events {
        faults.extend(EVENT_FAULTS.iter().map(|(it, _)| Fault::Event(number, *it)));
        faults.push(Fault::NewLeader(number));
        faults.push(Fault::Restart(number, View::Fresh));
        for back in 1..=earlier(number) {
            let lists = OUTDATED.map(|(lists, _)| View::List(lists, back));
            let views = lists.into_iter().chain([View::Watch(back)]);
            faults.extend(views.map(|view| Fault::Restart(number, view)));
        }
    }
    faults
}

/// The least number of writes before an event: each event so far reports one.
pub(super) fn earlier_writes(number: usize) -> u64 {
    number as u64 + 1
}

/// The forms of all faults, sorted.
pub(super) fn forms() -> Vec<&'static str> {
    let faults = single_faults(1, 1, |_| 1);
    let mut forms: Vec<_> = faults.iter().map(Fault::form).collect();
    forms.sort_unstable();
    forms
}
