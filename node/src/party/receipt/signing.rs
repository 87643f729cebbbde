//! The signed bytes of a receipt.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libp2p::identity::Keypair;
use sha2::{Digest, Sha256};

use crate::reporting::failure::{Exit, Failure};

/// Returns the bytes of a receipt's file that are signed. These are the ASCII bytes
/// `undertone/receipt/1`, one zero byte, then SHA-256 of the text.
pub fn signed_bytes(receipt: &str) -> Vec<u8> {
    let mut bytes = b"undertone/receipt/1\0".to_vec();
    bytes.extend_from_slice(&Sha256::digest(receipt.as_bytes()));
    bytes
}

/// Signs a receipt's text: the line of its `.sig` file.
///
/// # Errors
/// A key that cannot sign.
pub(super) fn signature(receipt: &str, key: &Keypair) -> Result<String, Failure> {
    let signature = key
        .sign(&signed_bytes(receipt))
        .map_err(|e| Failure::new(Exit::Internal, format!("the receipt cannot be signed: {e}")))?;
    Ok(STANDARD.encode(signature))
}
