//! A program for `undertone join --program`: federated averaging (McMahan and others 2017) of a
//! small network, with momentum. Its argument is the party's table of digits.
//!
//! Each row is a client of its own: some local steps on it alone, whose change is handed over. With
//! `WHOLE` in the environment the party is one client, and hands over the mean of its rows'
//! changes; with `TENSORS` rows are handed over as the two tensors of a `.safetensors`, one for
//! each layer. Everybody goes on by the mean of all changes. At the end the weights are written
//! beside the table. The variable `FAULTS`, such as "party-1:nan:3 party-2:die:4", makes it do
//! wrong.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use undertone_tests::{digits, network};

/// Local steps of a client, and how far each goes.
const STEPS: usize = 2;
const STEP: f64 = 0.1;

/// The share of the last change of everybody's weights that stays.
const MOMENTUM: f64 = 0.8;

fn main() -> io::Result<()> {
    let table = PathBuf::from(std::env::args().nth(1).expect("a table"));
    let party = std::env::var("UNDERTONE_PARTY").expect("a name");
    let rows = digits::read(&table);
    let whole = std::env::var_os("WHOLE").is_some();
    let (mut weights, mut velocity) = (network::start(), vec![0.0; network::WEIGHTS]);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Some((round, mean)) = next_mean(&mut input)? {
        for (at, change) in mean.iter().enumerate() {
            velocity[at] = MOMENTUM * velocity[at] + change;
            weights[at] += velocity[at];
        }
        if round == 0 {
            let text: String = weights.iter().map(|weight| format!("{weight:?}\n")).collect();
            return std::fs::write(table.with_extension("weights"), text);
        }
        let mut changes: Vec<f64> = Vec::with_capacity(rows.len() * network::WEIGHTS);
        for (pixels, digit) in &rows {
            let mut own = weights.clone();
            (0..STEPS).for_each(|_| network::learn(&mut own, pixels, *digit, STEP));
            changes.extend(own.iter().zip(&weights).map(|(own, all)| own - all));
        }
        let mut shape = format!("({}, {})", rows.len(), network::WEIGHTS);
        if whole {
            changes = mean_of(&changes);
            shape = format!("({},)", network::WEIGHTS);
        }
        if std::env::var_os("TENSORS").is_some() {
            send(&mut output, round, &safetensors(&changes))?;
            continue;
        }
        let fault = fault(&party, round);
        answer(&mut output, (round, shape, changes), fault.as_deref())?;
    }
    Ok(())
}

fn mean_of(rows: &[f64]) -> Vec<f64> {
    let mut mean = vec![0.0; network::WEIGHTS];
    let share = network::WEIGHTS as f64 / rows.len() as f64;
    rows.chunks(network::WEIGHTS)
        .for_each(|row| mean.iter_mut().zip(row).for_each(|(m, x)| *m += x * share));
    mean
}

/// The next round's number, and the mean of the one before; none once nothing comes any more.
fn next_mean(input: &mut impl Read) -> io::Result<Option<(u32, Vec<f64>)>> {
    let mut head = [0; 12];
    if input.read_exact(&mut head).is_err() {
        return Ok(None);
    }
    let (round, length) = head.split_at(4);
    let round = u32::from_le_bytes(round.try_into().expect("4 bytes"));
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes"));
    let mut body = vec![0; length as usize];
    input.read_exact(&mut body)?;
    if body.is_empty() {
        return Ok(Some((round, vec![])));
    }
    // Of a `.safetensors` with two tensors of one type the numbers are in the order of names.
    let header = match body.starts_with(b"\x93NUMPY") {
        true => 10 + usize::from(u16::from_le_bytes([body[8], body[9]])),
        false => 8 + u64::from_le_bytes(body[..8].try_into().expect("8 bytes")) as usize,
    };
    let numbers = body[header..].chunks_exact(8);
    let mean = numbers.map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    Ok(Some((round, mean.collect())))
}

/// Returns the fault that this party is to commit in a round.
fn fault(party: &str, round: u32) -> Option<String> {
    let faults = std::env::var("FAULTS").ok()?;
    let of_round = |entry: &str| {
        let mut parts = entry.split(':');
        let (who, what, when) = (parts.next()?, parts.next()?, parts.next()?);
        (who == party && when == round.to_string()).then(|| what.to_owned())
    };
    faults.split(' ').find_map(of_round)
}

fn answer(
    output: &mut impl Write,
    (mut round, mut shape, mut values): (u32, String, Vec<f64>),
    fault: Option<&str>,
) -> io::Result<()> {
    match fault {
        None => {}
        Some("nan") => values[3] = f64::NAN,
        Some("huge") => values.iter_mut().for_each(|value| *value = 1e300),
        Some("shape") => shape = format!("({}, 1)", values.len()),
        Some("rows") => {
            shape = format!("(2, {})", values.len());
            values.extend_from_within(..);
        }
        Some("round") => round += 1,
        Some("endless") => return output.write_all(&[0xff; 12]),
        Some("hang") => std::thread::sleep(Duration::from_secs(3600)),
        Some("die") => std::process::exit(3),
        Some(other) => panic!("no fault {other:?}"),
    }
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.bytes());
    values.iter().for_each(|value| npy.extend(value.to_le_bytes()));
    send(output, round, &npy)
}

fn send(output: &mut impl Write, round: u32, body: &[u8]) -> io::Result<()> {
    output.write_all(&round.to_le_bytes())?;
    output.write_all(&(body.len() as u64).to_le_bytes())?;
    output.write_all(body)?;
    output.flush()
}

/// Rows of weights as two tensors, each with the rows as its first axis.
fn safetensors(rows: &[f64]) -> Vec<u8> {
    let count = rows.len() / network::WEIGHTS;
    let (mut entries, mut data, mut from) = (vec![], vec![], 0);
    for (name, [units, inputs]) in network::LAYERS {
        let (begin, length) = (data.len(), units * inputs);
        for row in rows.chunks(network::WEIGHTS) {
            let cells = row[from..from + length].iter();
            data.extend(cells.flat_map(|cell| cell.to_le_bytes()));
        }
        from += length;
        let end = data.len();
        entries.push(format!(
            "\"{name}\":{{\"dtype\":\"F64\",\"shape\":[{count},{units},{inputs}],\"data_offsets\":[{begin},{end}]}}"
        ));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}
