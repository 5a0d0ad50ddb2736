//! The key of a page file; encryption and authentication of a block.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit};
use plimsoll_os::{Errno, Secret, fill_random};
use zeroize::{Zeroize, Zeroizing};

use super::error::CreateError;
use super::units::BLOCK_BYTES;

const KEY_BYTES: usize = 32;

/// The most blocks that a key encrypts: 4 PiB, or 2^48 blocks of AES. Up to there an attacker tells the ciphertext from
/// random bytes with a probability below 2^-32.
pub(super) const MOST_BLOCKS: u64 = 1 << 38;

/// The number of an encryption, from 1 to [`MOST_BLOCKS`]. 0 stands for none.
pub(super) type Nonce = u64;

/// The authentication tag of a block.
pub(super) type Tag = [u64; 2];

/// A block whose tag does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mismatch;

/// AES-256-GCM with a random key.
#[derive(Debug)]
pub(super) struct Cipher(Secret<Aes256Gcm>);

impl Cipher {
    /// A new key of the kernel's random source.
    pub(super) fn new() -> Result<Cipher, CreateError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        fill_random(&mut *key).map_err(CreateError::Key)?;
        let cipher = Cipher::with_key(&key).map_err(CreateError::Memory);
        wipe_stack();
        cipher
    }

    #[inline(never)]
    fn with_key(key: &[u8; KEY_BYTES]) -> Result<Cipher, Errno> {
        Secret::new(|| Aes256Gcm::new(key.into())).map(Cipher)
    }

    /// Encrypts `plain` to `out`. The caller never passes a nonce twice.
    pub(super) fn seal(&self, nonce: Nonce, plain: &[u8; BLOCK_BYTES], out: &mut [u8; BLOCK_BYTES]) -> Tag {
        let buffers = InOutBuf::new(plain, out).expect("both have the length of a block");
        let tag = self
            .0
            .encrypt_inout_detached(&bytes_of(nonce).into(), &[], buffers)
            .expect("a block is shorter than the limit of GCM");
        let tag = u128::from_le_bytes(tag.into());
        [tag as u64, (tag >> 64) as u64]
    }

    /// Decrypts `bytes` in place. They are zero afterwards if the tag does not match. Async-signal-safe.
    pub(super) fn open(&self, nonce: Nonce, tag: Tag, bytes: &mut [u8; BLOCK_BYTES]) -> Result<(), Mismatch> {
        let tag = u128::from(tag[0]) | u128::from(tag[1]) << 64;
        let opened = self.0.decrypt_inout_detached(
            &bytes_of(nonce).into(),
            &[],
            InOutBuf::from(&mut bytes[..]),
            &tag.to_le_bytes().into(),
        );
        opened.map_err(|_| {
            bytes.fill(0);
            Mismatch
        })
    }

    /// Bytes of RAM that hold the key.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }
}

/// The 96 bits of a nonce.
fn bytes_of(nonce: Nonce) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&nonce.to_le_bytes());
    bytes
}

/// Overwrites the stack below the caller, where the key schedule was computed.
#[inline(never)]
fn wipe_stack() {
    let mut area = [0_u8; 16 << 10];
    area.zeroize();
}
