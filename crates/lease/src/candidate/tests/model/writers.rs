//! Who may write in a state of the model, and how long it takes until somebody leads.

use super::*;

impl World {
    fn may_write(&self, number: usize, broken: Broken) -> Option<u64> {
        let candidate = &self.processes[number].candidate;
        let closes = candidate.leads_until()?;
        let is_open = self.now(number) < closes || broken == Broken::Fence;
        // A write that has started may go on until the lease expires.
        let timing = candidate.timing;
        let end = closes.0 + timing.lease_duration - timing.renew_deadline;
        is_open.then(|| end.as_secs() - OFFSETS[number])
    }

    /// Every process that may write starts a write, which takes the maximum time.
    pub(super) fn note_writes(&mut self, broken: Broken) {
        for number in 0..self.processes.len() {
            if let Some(end) = self.may_write(number, broken) {
                let process = &mut self.processes[number];
                process.writes_until = process.writes_until.max(end);
            }
        }
    }

    pub(super) fn has_two_writers(&self, broken: Broken) -> bool {
        let may_write = |number: &usize| self.may_write(*number, broken).is_some();
        let writes =
            |other: &usize| may_write(other) || self.processes[*other].writes_until > self.time;
        let all = 0..self.processes.len();
        let mut writers = all.clone().filter(may_write);
        writers.any(|one| all.clone().any(|other| other != one && writes(&other)))
    }

    pub(super) fn wants_to_lead(&self) -> bool {
        self.processes.iter().any(|process| {
            let role = &process.candidate.role;
            !process.is_resigning && matches!(role, Role::Standby | Role::Leading { .. })
        })
    }

    /// The time until a process leads, without faults and delays from now on.
    pub(super) fn time_to_lead(mut self) -> Option<u64> {
        let began = self.time;
        while self.time <= began + 10 {
            for _ in 0..8 {
                for number in 0..self.processes.len() {
                    for action in [
                        Action::Arrive(number),
                        Action::ApiResponse(number),
                        Action::Watch(number),
                        Action::Run(number),
                    ] {
                        self.apply(action, Broken::Nothing);
                    }
                }
            }
            let mut all = 0..self.processes.len();
            let leads = all.any(|number| self.may_write(number, Broken::Nothing).is_some());
            if leads || !self.wants_to_lead() {
                return Some(self.time - began);
            }
            self.time += 1;
        }
        None
    }
}
