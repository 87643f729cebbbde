//! What `snow` computes with: its own Curve25519, ChaChaPoly and SHA-256, wiped when they are
//! dropped, and random bytes that its caller has drawn.

use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

/// The bytes of a secret key of Curve25519.
pub(super) type SecretBytes = Zeroizing<[u8; 32]>;

/// Hands out 32 bytes, once: a letter draws one ephemeral key and nothing else.
pub(super) struct GivenBytes(pub(super) Option<SecretBytes>);

impl Random for GivenBytes {
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Error> {
        let drawn = self.0.take().filter(|drawn| drawn.len() == to.len());
        to.copy_from_slice(&*drawn.ok_or(Error::Rng)?);
        Ok(())
    }
}

/// Resolves `snow`'s primitives to its own, and its randomness to the bytes given.
pub(super) struct Resolver(pub(super) SecretBytes);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(GivenBytes(Some(self.0.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        let inner = DefaultResolver.resolve_dh(choice)?;
        Some(Box::new(WipedDh(inner)))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        let inner = DefaultResolver.resolve_cipher(choice)?;
        Some(Box::new(WipedCipher(inner)))
    }
}

/// Curve25519 with a secret key.
pub(super) fn curve(secret: &[u8; 32]) -> Box<dyn Dh> {
    let inner = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
    let mut curve = WipedDh(inner.expect("the feature use-curve25519 is on"));
    curve.set(secret);
    Box::new(curve)
}

/// A key pair whose secret is overwritten when it is dropped: `snow` leaves it in freed memory.
struct WipedDh(Box<dyn Dh>);

impl Drop for WipedDh {
    fn drop(&mut self) {
        self.0.set(&[0; 32]);
    }
}

impl Dh for WipedDh {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }
    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }
    fn set(&mut self, secret: &[u8]) {
        self.0.set(secret);
    }
    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        self.0.generate(random)
    }
    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }
    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }
    fn dh(&self, public: &[u8], to: &mut [u8]) -> Result<(), Error> {
        self.0.dh(public, to)
    }
    fn dh_len(&self) -> usize {
        self.0.dh_len()
    }
}

/// A cipher whose key is overwritten when it is dropped.
struct WipedCipher(Box<dyn Cipher>);

impl Drop for WipedCipher {
    fn drop(&mut self) {
        self.0.set(&[0; 32]);
    }
}

impl Cipher for WipedCipher {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn set(&mut self, key: &[u8; 32]) {
        self.0.set(key);
    }
    fn encrypt(&self, nonce: u64, with: &[u8], plain: &[u8], to: &mut [u8]) -> usize {
        self.0.encrypt(nonce, with, plain, to)
    }
    fn decrypt(&self, nonce: u64, with: &[u8], sealed: &[u8], to: &mut [u8]) -> Result<usize, Error> {
        self.0.decrypt(nonce, with, sealed, to)
    }
    fn rekey(&mut self) {
        self.0.rekey();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_bytes_are_handed_out_once() {
        let mut drawn = GivenBytes(Some(Zeroizing::new([7; 32])));
        let mut to = [0; 32];
        assert!(drawn.try_fill_bytes(&mut to).is_ok());
        assert_eq!(to, [7; 32]);
        assert!(drawn.try_fill_bytes(&mut to).is_err());
        assert!(
            GivenBytes(Some(Zeroizing::new([7; 32])))
                .try_fill_bytes(&mut [0; 31])
                .is_err()
        );
    }
}
