//! The program that a party runs in the test of streams. It hands over one row a round, and notes
//! how many bytes of an estimate it was given before each.

use std::io::{self, Read, Write};

const COLUMNS: usize = 3;

fn main() -> io::Result<()> {
    let file = std::env::args().nth(1).expect("a file");
    let own: f64 = std::fs::read_to_string(&file)?.trim().parse().expect("a number");
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut reported = String::new();
    loop {
        let mut head = [0; 12];
        if input.read_exact(&mut head).is_err() {
            return Ok(());
        }
        let round = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let length = u64::from_le_bytes(head[4..].try_into().expect("8 bytes"));
        io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
        reported += &format!("{round} {length}\n");
        if round == 0 {
            return std::fs::write(format!("{file}.told"), reported);
        }
        let row = [own, 0.05 * f64::from(round), -0.2];
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({COLUMNS},), }}");
        let padded = format!("{header}{}\n", " ".repeat(63 - (10 + header.len()) % 64));
        let mut answer = b"\x93NUMPY\x01\x00".to_vec();
        answer.extend((padded.len() as u16).to_le_bytes());
        answer.extend(padded.bytes());
        answer.extend(row.iter().flat_map(|value| value.to_le_bytes()));
        output.write_all(&round.to_le_bytes())?;
        output.write_all(&(answer.len() as u64).to_le_bytes())?;
        output.write_all(&answer)?;
        output.flush()?;
    }
}
