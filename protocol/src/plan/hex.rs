//! Bytes as plans write them: two lower-case hex digits each.

use crate::plan::error::PlanError;

/// Two lower-case hex digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text of exactly twice as many lower-case hex digits.
pub(crate) fn unhex<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], PlanError> {
    let refuse = || PlanError::Hex { field, digits: 2 * N };
    if text.len() != 2 * N || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(refuse());
    }
    let mut bytes = [0u8; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| refuse())?;
    }
    Ok(bytes)
}
