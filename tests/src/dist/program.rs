//! The program that is packed: which machine and which C library it needs.

use std::io;

/// A program's needs, as they follow from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramNeeds {
    /// The oldest glibc that has every function of it: major, minor version.
    pub glibc: (u32, u32),
    /// Whether GCC's library for unwinding is loaded as well.
    pub libgcc: bool,
}

/// The oldest glibc that is promised, whatever less a program needs.
const OLDEST: (u32, u32) = (2, 28);
/// ELF of 64 bits, little-endian.
const ELF: &[u8] = b"\x7fELF\x02\x01";
/// x86-64 in an ELF header, at byte 18.
const X86_64: [u8; 2] = [62, 0];

impl ProgramNeeds {
    /// Reads the needs of an ELF program for x86-64; an error if it is something else.
    pub fn of(program: &[u8]) -> io::Result<Self> {
        if !program.starts_with(ELF) || program.get(18..20) != Some(&X86_64) {
            return Err(io::Error::other("it is no program for x86-64 Linux"));
        }
        // The table of needed versions holds names such as GLIBC_2.28, each with its end. A text of
        // the program could look the same: then it is promised for less machines, not for more.
        let versions = ended(program, b"GLIBC_").filter_map(version);
        Ok(ProgramNeeds {
            glibc: versions.fold(OLDEST, Ord::max),
            libgcc: ended(program, b"libgcc_s.so.1").next().is_some(),
        })
    }

    /// The wheel's platform tag (PEP 600).
    pub fn platform_tag(self) -> String {
        format!("manylinux_{}_{}_x86_64", self.glibc.0, self.glibc.1)
    }

    /// The dependencies of a Debian package.
    pub fn depends(self) -> String {
        let libc = format!("libc6 (>= {}.{})", self.glibc.0, self.glibc.1);
        // Debian 10 has it by its older name.
        libc + if self.libgcc { ", libgcc-s1 | libgcc1" } else { "" }
    }
}

/// The rests of strings after a prefix, up to the zero byte that ends each.
fn ended<'a>(bytes: &'a [u8], prefix: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let starts = (0..bytes.len()).filter(|at| bytes[*at] == prefix[0]);
    starts.filter_map(move |at| {
        let rest = bytes[at..].strip_prefix(prefix)?;
        let end = rest.iter().take(16).position(|byte| *byte == 0)?;
        Some(&rest[..end])
    })
}

/// Reads `2.28`, or `2.2.5` without its last part.
fn version(text: &[u8]) -> Option<(u32, u32)> {
    let mut parts = std::str::from_utf8(text)
        .ok()?
        .split('.')
        .map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(strings: &[u8]) -> Vec<u8> {
        let mut bytes = ELF.to_vec();
        bytes.resize(18, 0);
        [&bytes[..], &X86_64, strings].concat()
    }

    #[test]
    fn the_newest_version_of_any_function_is_needed_and_never_less_than_promised() {
        let needs = |strings: &[u8]| ProgramNeeds::of(&program(strings)).expect("a program");
        let newer = needs(b"GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE\0libgcc_s.so.1\0");
        assert_eq!(newer.glibc, (2, 34));
        assert_eq!(newer.platform_tag(), "manylinux_2_34_x86_64");
        assert_eq!(newer.depends(), "libc6 (>= 2.34), libgcc-s1 | libgcc1");
        let older = needs(b"GLIBC_2.17\0");
        assert_eq!(
            (older.glibc, older.depends()),
            ((2, 28), "libc6 (>= 2.28)".to_owned())
        );
    }

    #[test]
    fn a_program_of_another_machine_is_refused() {
        let mut arm = program(b"");
        arm[18] = 183;
        assert!(ProgramNeeds::of(&arm).is_err());
        assert!(ProgramNeeds::of(b"#!/bin/sh\n").is_err());
    }
}
