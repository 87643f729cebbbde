//! The fast form: a schedule's rounds, each with a message of every neighbour.

use std::collections::BTreeMap;

use super::terms::Schedule;
use crate::averaging::integers;
use crate::mixing::Party;
use crate::wire::Bytes;

/// One node's part in the fast form.
pub struct Fast {
    schedule: Schedule,
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
    pub fn new(schedule: Schedule, opening_bytes: usize, neighbours: Vec<Party>, own: Vec<i64>) -> Self {
        let zeros = vec![0; own.len()];
        Fast { schedule, opening_bytes, neighbours, state: own, sums: zeros.clone(), changes: zeros, done: 0 }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Whose messages are needed.
    pub fn neighbours(&self) -> &[Party] {
        &self.neighbours
    }

    /// The round whose messages are needed next; none when all is done.
    pub fn wants(&self) -> Option<u32> {
        (self.done < self.schedule.course.steps.len()).then_some(self.done as u32)
    }

    /// Bytes of the vector in a message of a round; none if the schedule has no such message.
    pub fn length(&self, round: u32) -> Option<usize> {
        Some(self.width(round)? * self.state.len())
    }

    fn width(&self, round: u32) -> Option<usize> {
        match round {
            0 => Some(self.opening_bytes),
            _ => self.schedule.widths.get(round as usize - 1).copied(),
        }
    }

    /// Takes the messages of the round that [`Fast::wants`] and makes the next one's vector, if others need it. Err: an own change is larger than
    /// any that honest openings lead to.
    pub fn step(&mut self, messages: &BTreeMap<Party, Bytes>) -> Result<Option<Vec<u8>>, &'static str> {
        let width = self.width(self.done as u32).unwrap_or(1);
        for bytes in messages.values() {
            let changes = integers::read_narrow(bytes, width);
            self.sums.iter_mut().zip(changes).for_each(|(sum, change)| *sum = sum.wrapping_add(change));
        }
        let c = self.schedule.course.steps[self.done];
        integers::step(&mut self.state, &self.sums, self.neighbours.len() as i64, c, &mut self.changes);
        self.done += 1;
        let Some(width) = self.width(self.done as u32) else { return Ok(None) };
        let mut bytes = vec![0; width * self.changes.len()];
        let fits = integers::write(self.changes.iter().map(|&change| i128::from(change)), width, &mut bytes);
        if fits {
            Ok(Some(bytes))
        } else {
            Err("a change is larger than the entries allow: somebody's opening is not what it announced")
        }
    }

    /// The result, in units, once nothing is wanted.
    pub fn state(&self) -> &[i64] {
        &self.state
    }
}
