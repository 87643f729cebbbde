//! The fast form: a schedule's rounds, each with a message of every neighbour.

use std::collections::BTreeMap;

use crate::averaging::integers;
use crate::averaging::terms::FastForm;
use crate::messages::wire::Bytes;
use crate::topology::party::Party;

/// One node's part in the fast form.
pub struct Fast {
    schedule: FastForm,
    opening_bytes: usize,
    neighbours: Vec<Party>,
    state: Vec<i64>,
    /// Σ of the neighbours' states.
    sums: Vec<i64>,
    changes: Vec<i64>,
    done: usize,
}

impl Fast {
    /// Begins with this node's own opening.
    pub fn new(schedule: FastForm, opening_bytes: usize, neighbours: Vec<Party>, own: Vec<i64>) -> Self {
        let zeros = vec![0; own.len()];
        Fast {
            schedule,
            opening_bytes,
            neighbours,
            state: own,
            sums: zeros.clone(),
            changes: zeros,
            done: 0,
        }
    }

    /// The schedule.
    pub fn schedule(&self) -> &FastForm {
        &self.schedule
    }

    /// Returns the neighbours whose messages are needed.
    pub fn neighbours(&self) -> &[Party] {
        &self.neighbours
    }

    /// The round whose messages are needed next; `None` when all is done.
    pub fn wants(&self) -> Option<u32> {
        (self.done < self.schedule.step_schedule.steps.len()).then_some(self.done as u32)
    }

    /// Bytes of the vector in a message of a round; `None` if the schedule has no such message.
    pub fn length(&self, round: u32) -> Option<usize> {
        Some(self.width(round)? * self.state.len())
    }

    fn width(&self, round: u32) -> Option<usize> {
        match round {
            0 => Some(self.opening_bytes),
            _ => self.schedule.widths.get(round as usize - 1).copied(),
        }
    }

    /// A neighbour whose message of the round that [`Fast::wants`] says a larger change than the
    /// entries allow.
    pub fn beyond(&self, messages: &BTreeMap<Party, Bytes>) -> Option<Party> {
        let most = *self.schedule.most.get(self.done.checked_sub(1)?)?;
        let width = self.width(self.done as u32)?;
        let fits = |bytes: &Bytes| {
            integers::read_narrow(bytes, width).all(|change| change.unsigned_abs() as f64 <= most)
        };
        messages
            .iter()
            .find(|(_, bytes)| !fits(bytes))
            .map(|(party, _)| *party)
    }

    /// Takes the messages of the round that [`Fast::wants`] and makes the next one's vector, if
    /// others need it. Err: an own change is larger than any that honest openings and changes lead
    /// to; nobody would take it.
    pub fn step(&mut self, messages: &BTreeMap<Party, Bytes>) -> Result<Option<Vec<u8>>, &'static str> {
        let width = self.width(self.done as u32).unwrap_or(1);
        for bytes in messages.values() {
            let changes = integers::read_narrow(bytes, width);
            self.sums
                .iter_mut()
                .zip(changes)
                .for_each(|(sum, change)| *sum = sum.wrapping_add(change));
        }
        let c = self.schedule.step_schedule.steps[self.done];
        integers::step(
            &mut self.state,
            &self.sums,
            self.neighbours.len() as i64,
            c,
            &mut self.changes,
        );
        self.done += 1;
        let Some(width) = self.width(self.done as u32) else {
            return Ok(None);
        };
        let mut bytes = vec![0; width * self.changes.len()];
        let fits = integers::write(
            self.changes.iter().map(|&change| i128::from(change)),
            width,
            &mut bytes,
        );
        let most = self.schedule.most[self.done - 1];
        if fits
            && self
                .changes
                .iter()
                .all(|change| change.unsigned_abs() as f64 <= most)
        {
            Ok(Some(bytes))
        } else {
            Err("a change is larger than the entries allow: somebody sent wrong ones")
        }
    }

    /// The result, in units, once nothing is wanted.
    pub fn state(&self) -> &[i64] {
        &self.state
    }
}
