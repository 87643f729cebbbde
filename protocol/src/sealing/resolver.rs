//! The cryptography of `snow`: its own ChaChaPoly and SHA-256, Curve25519 with secrets that are
//! wiped when dropped, and random bytes drawn by its caller.
//!
//! `snow`'s own Curve25519 leaves its secret in freed memory, and the one way to overwrite it costs
//! a multiplication; the one here is of the crate that it has its own from.

use curve25519_dalek::montgomery::MontgomeryPoint;
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
        // Taken, not copied: a second request would repeat the first one's bytes, and fails
        // instead.
        let drawn = self.0.take().filter(|drawn| drawn.len() == to.len());
        to.copy_from_slice(&*drawn.ok_or(Error::Rng)?);
        Ok(())
    }
}

/// Resolves `snow`'s primitives, and its randomness to the bytes given.
pub(super) struct Resolver(pub(super) SecretBytes);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(GivenBytes(Some(self.0.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(Curve::default())),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        // The default cipher leaves its key in freed memory.
        let inner = DefaultResolver.resolve_cipher(choice)?;
        Some(Box::new(WipedCipher(inner)))
    }
}

/// A key pair of X25519 (RFC 7748); its secret is wiped when it is dropped.
#[derive(Default)]
pub(super) struct Curve {
    secret: SecretBytes,
    public: [u8; 32],
}

impl Curve {
    /// The pair of a secret key.
    pub(super) fn of(secret: &[u8; 32]) -> Self {
        Curve {
            secret: Zeroizing::new(*secret),
            public: MontgomeryPoint::mul_base_clamped(*secret).to_bytes(),
        }
    }

    pub(super) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    pub(super) fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// The product with a public key. It is zero if that is one of the few of small order.
    pub(super) fn product(&self, public: &[u8; 32]) -> SecretBytes {
        let product = MontgomeryPoint(*public).mul_clamped(*self.secret);
        Zeroizing::new(product.to_bytes())
    }
}

impl Dh for Curve {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        32
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn set(&mut self, secret: &[u8]) {
        let mut bytes: SecretBytes = Zeroizing::new([0; 32]);
        bytes.copy_from_slice(secret);
        *self = Curve::of(&bytes);
    }
    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut bytes: SecretBytes = Zeroizing::new([0; 32]);
        random.try_fill_bytes(&mut *bytes)?;
        *self = Curve::of(&bytes);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &*self.secret
    }
    fn dh(&self, public: &[u8], to: &mut [u8]) -> Result<(), Error> {
        let public = public.first_chunk().ok_or(Error::Dh)?;
        to.get_mut(..32)
            .ok_or(Error::Dh)?
            .copy_from_slice(&*self.product(public));
        Ok(())
    }
    fn dh_len(&self) -> usize {
        32
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

    /// Base point and a scalar of RFC 7748, section 6.1, and keys of small order.
    #[test]
    fn keys_and_products_are_those_of_snows_own_curve() {
        let mut own = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("it has it");
        let alice = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
            0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ];
        assert_eq!(Curve::of(&alice).public[..4], [0x85, 0x20, 0xf0, 0x09]);
        for secret in [alice, [0; 32], [1; 32], [0xff; 32]] {
            let mut ours = Curve::default();
            ours.set(&secret);
            own.set(&secret);
            assert_eq!((ours.pubkey(), ours.privkey()), (own.pubkey(), own.privkey()));
            assert_eq!((ours.name(), ours.pub_len()), (own.name(), own.pub_len()));
            for public in [Curve::of(&[9; 32]).public, [0; 32], [0xff; 32]] {
                let products = [&ours as &dyn Dh, &*own].map(|curve| {
                    let mut product = [7; 32];
                    curve.dh(&public, &mut product).map(|()| product)
                });
                let [a, b] = products.map(|product| product.expect("32 bytes"));
                assert_eq!(a, b);
            }
        }
    }

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
