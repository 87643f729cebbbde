//! MNIST's test digits, from their files (LeCun 1998): IDX, unpacked.

use std::path::Path;

use undertone_accountant::papers::given::Digits;

use crate::reporting::failure::Failure;
use crate::reporting::input_file;

/// More than any of the files holds.
const MOST_BYTES: u64 = 1 << 26;

/// The files that there must be.
pub(super) const HINT: &str = "give the folder with t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte";

/// Reads `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`.
pub(super) fn read(folder: &Path) -> Result<Digits, Failure> {
    let images = bytes(folder, "t10k-images-idx3-ubyte")?;
    let labels = bytes(folder, "t10k-labels-idx1-ubyte")?;
    digits(&images, &labels).ok_or_else(|| {
        Failure::usage(format!(
            "{}: these are not pictures and labels of MNIST, equally many",
            folder.display()
        ))
        .field("--data")
    })
}

fn digits(images: &[u8], labels: &[u8]) -> Option<Digits> {
    let (sizes, pixels_of_all) = idx(images, 3)?;
    let (counts, digits) = idx(labels, 1)?;
    let pixels = sizes[1].checked_mul(sizes[2]).filter(|&pixels| pixels > 0)?;
    let scaled = |picture: &[u8]| picture.iter().map(|&pixel| f64::from(pixel) / 255.0).collect();
    let pictures: Vec<Vec<f64>> = pixels_of_all.chunks_exact(pixels).map(scaled).collect();
    (sizes[0] == counts[0] && pictures.len() == digits.len()).then(|| Digits {
        pixels,
        pictures,
        digits: digits.to_vec(),
    })
}

/// The sizes of an IDX file of bytes, and its content, as long as they say.
fn idx(bytes: &[u8], dimensions: usize) -> Option<(Vec<usize>, &[u8])> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    if *magic != [0, 0, 8, dimensions as u8] {
        return None;
    }
    let (sizes, content) = rest.split_at_checked(4 * dimensions)?;
    let sizes = sizes.chunks_exact(4).map(|size| {
        let size = size.first_chunk().map(|size| u32::from_be_bytes(*size));
        size.map_or(0, |size| size as usize)
    });
    let sizes: Vec<usize> = sizes.collect();
    let all = sizes
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size))?;
    (all == content.len()).then_some((sizes, content))
}

fn bytes(folder: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let path = folder.join(name);
    input_file::read(&path, MOST_BYTES).map_err(|e| {
        Failure::usage(format!("{}: {e}", path.display()))
            .field("--data")
            .hint(format!("{HINT}, unpacked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_what_they_say_are_none() {
        let images = [
            &[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2][..],
            &[0, 51, 255, 0],
        ]
        .concat();
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 7, 4];
        let read = digits(&images, &labels).expect("two pictures");
        assert_eq!(read.pictures, [[0.0, 0.2], [1.0, 0.0]]);
        assert_eq!((read.pixels, &read.digits[..]), (2, &[7, 4][..]));
        for length in 0..images.len() {
            assert!(digits(&images[..length], &labels).is_none(), "{length}");
        }
        for at in 0..16 {
            let mut other = images.clone();
            other[at] ^= 0x81;
            assert!(digits(&other, &labels).is_none(), "{at}");
        }
        assert!(digits(&images, &labels[..9]).is_none());
    }
}
