//! Writes objects as a pack that git reads: many small ones are then two files to sync and not one each.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::objects::{Hasher, Kind, NAME, Name, hex, stored};
use crate::whole_file::{self, Lasting};

/// Writes a pack of these objects into a folder of packs.
pub(super) fn write(packs: &Path, objects: &BTreeMap<Name, (Kind, Vec<u8>)>) -> io::Result<()> {
    let count = u32::try_from(objects.len()).map_err(io::Error::other)?;
    let mut pack = [&b"PACK\0\0\0\x02"[..], &count.to_be_bytes()].concat();
    // The first form of an index, which every git reads: how many names begin with at most each byte, then where each is.
    let mut begun = [0u32; 256];
    let mut places = Vec::with_capacity(objects.len() * (4 + NAME));
    for (name, (kind, content)) in objects {
        let place = u32::try_from(pack.len()).map_err(io::Error::other)?;
        places.extend_from_slice(&place.to_be_bytes());
        places.extend_from_slice(name);
        begun[usize::from(name[0])..].iter_mut().for_each(|count| *count += 1);
        head(&mut pack, *kind, content.len());
        pack.extend_from_slice(&stored(content));
    }
    let sum = Hasher::sum(&pack);
    pack.extend_from_slice(&sum);
    let mut index: Vec<u8> = begun.into_iter().flat_map(u32::to_be_bytes).collect();
    index.append(&mut places);
    index.extend_from_slice(&sum);
    let own = Hasher::sum(&index);
    index.extend_from_slice(&own);
    // Git looks for packs by their indexes.
    whole_file::write(packs, &format!("pack-{}.pack", hex(&sum)), &pack, Lasting::Yes)?;
    whole_file::write(packs, &format!("pack-{}.idx", hex(&sum)), &index, Lasting::Yes)
}

/// The kind and the length of an object: four bits of the length, then seven in each byte, the lowest first.
fn head(pack: &mut Vec<u8>, kind: Kind, length: usize) {
    let kind = match kind {
        Kind::Commit => 1u8,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut byte = (kind << 4) | (length & 0x0f) as u8;
    let mut rest = length >> 4;
    while rest > 0 {
        pack.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    pack.push(byte);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::checkpoint::objects::named;

    /// Git finds each object in the pack and has nothing to say against it.
    #[test]
    fn git_reads_a_pack_as_its_own() {
        let place = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let done = Command::new("git").args(words).current_dir(place.path()).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            done.stdout
        };
        git(&["init", "--quiet", "--bare"]);
        let contents = [0, 1, 15, 16, 2047, 2048, 65_535, 65_536, 400_000].map(|length: u32| {
            (0..length).map(|n| (n.wrapping_mul(length) % 251) as u8).collect::<Vec<u8>>()
        });
        let objects: BTreeMap<Name, (Kind, Vec<u8>)> = contents
            .into_iter()
            .map(|bytes| (Hasher::whole(Kind::Blob, &bytes), (Kind::Blob, bytes)))
            .collect();
        write(&place.path().join("objects/pack"), &objects).unwrap();
        for (name, (_, content)) in &objects {
            assert_eq!(&git(&["cat-file", "blob", &hex(name)]), content);
            assert_eq!(named(&hex(name)), Some(*name));
        }
        git(&["fsck", "--strict", "--full"]);
        let packs = std::fs::read_dir(place.path().join("objects/pack")).unwrap().flatten();
        let index = packs.map(|file| file.path()).find(|path| path.extension().unwrap() == "idx");
        git(&["verify-pack", index.unwrap().to_str().unwrap()]);
    }
}
