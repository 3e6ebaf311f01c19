//! Reads objects back and holds each against its name, which is the hash of its content: git takes a loose object and an
//! entry of a pack for what they are called, and whoever can write there can call anything by any name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::Git;
use crate::checkpoint::{Hasher, Kind, hex};
use crate::process::{Child, write_all};
use crate::sha256::Digest;

/// How long git has to end once it is asked nothing more.
const GRACE: Duration = Duration::from_secs(5);
/// How much is read at once: a file may be larger than memory.
const PIECE: usize = 64 * 1024;
/// How many digits a name has where it is a SHA-256.
const SHA256: usize = 64;

/// An object that cannot be had as it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsound {
    /// It is not there.
    Missing(String),
    /// Its content is that of another.
    Other(String),
}

/// Reads every one of these objects; gives those that are not what they are called. `arguments` say where.
pub(crate) fn read_back(
    git: &Git,
    mut arguments: Vec<OsString>,
    names: &[&str],
) -> Result<Vec<Unsound>, String> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    arguments.extend(["cat-file", "--batch"].map(OsString::from));
    let wrong = |error: io::Error| format!("cannot read objects back: {error}");
    let mut child = Child::spawn(git.spec(arguments)).map_err(wrong)?;
    let (stdin, stdout) = child.take_pipes().ok_or("cannot read objects back")?;
    let mut answers = reader(stdout).map_err(wrong)?;
    let mut unsound = Vec::new();
    for name in names {
        if git.cancel.as_ref().is_some_and(|cancel| cancel.is_triggered()) {
            return Err("stopped before it was done".to_owned());
        }
        let asked = write_all(&stdin, format!("{name}\n").as_bytes());
        match asked.and_then(|()| read_one(&mut answers, name)) {
            Ok(found) => unsound.extend(found),
            Err(error) => {
                child.kill();
                let said = child.stderr_tail();
                return Err(format!("cannot read the object {name}: {error} {}", said.trim_end()));
            }
        }
    }
    drop(stdin);
    child.wait(GRACE);
    Ok(unsound)
}

/// Whether what git prints begins with all that a file holds. Both may be larger than memory.
pub(crate) fn begins_with(
    git: &Git,
    arguments: Vec<OsString>,
    file: &mut File,
) -> io::Result<bool> {
    let mut child = Child::spawn(git.spec(arguments))?;
    let (_stdin, stdout) = child.take_pipes().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut printed = reader(stdout)?;
    let (mut found, mut wanted) = (vec![0; PIECE], vec![0; PIECE]);
    let begins = loop {
        let length = file.read(&mut found)?;
        let wanted = &mut wanted[..length];
        if length == 0 {
            break true;
        }
        if printed.read_exact(wanted).is_err() || found[..length] != *wanted {
            break false;
        }
    };
    child.kill();
    Ok(begins)
}

/// What git prints, waited for: it ends when its time is over, and so does every wait for it.
fn reader(stdout: OwnedFd) -> io::Result<BufReader<File>> {
    let flags = fcntl_getfl(&stdout)?;
    fcntl_setfl(&stdout, flags - OFlags::NONBLOCK)?;
    Ok(BufReader::with_capacity(PIECE, File::from(stdout)))
}

/// Reads the answer to one question: `NAME KIND SIZE`, the content, and a line end.
fn read_one(answers: &mut impl BufRead, name: &str) -> io::Result<Option<Unsound>> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let (kind, size) = match words.as_slice() {
        [_, "missing"] => return Ok(Some(Unsound::Missing(name.to_owned()))),
        [_, kind, size] => (Kind::named(kind), size.parse::<u64>().ok()),
        _ => (None, None),
    };
    let (Some(kind), Some(size)) = (kind, size) else {
        return Err(io::Error::other("git does not say what it is."));
    };
    let mut hasher = Naming::of(name, kind, size);
    let mut left = size;
    while left > 0 {
        let piece = answers.fill_buf()?;
        let length = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.add(&piece[..length]);
        answers.consume(length);
        left -= length as u64;
    }
    answers.read_exact(&mut [0])?;
    let is_it = hasher.name() == name;
    Ok((!is_it).then(|| Unsound::Other(name.to_owned())))
}

/// Finds what an object is called, in a repository of either kind.
enum Naming {
    Sha1(Hasher),
    Sha256(Digest),
}

impl Naming {
    /// As long as this name.
    fn of(name: &str, kind: Kind, length: u64) -> Naming {
        if name.len() != SHA256 {
            return Naming::Sha1(Hasher::new(kind, length));
        }
        let mut digest = Digest::default();
        digest.add(kind.head(length).as_bytes());
        Naming::Sha256(digest)
    }

    fn add(&mut self, piece: &[u8]) {
        match self {
            Naming::Sha1(hasher) => hasher.add(piece),
            Naming::Sha256(digest) => digest.add(piece),
        }
    }

    fn name(self) -> String {
        match self {
            Naming::Sha1(hasher) => hex(&hasher.name()),
            Naming::Sha256(digest) => digest.text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_what_its_content_says_whatever_it_is_called() {
        // What `printf good | git hash-object --stdin` says.
        let good = "476e93d5714117cb50143dbe653f4b2b5a1d4b18";
        let read = |answer: &str| read_one(&mut answer.as_bytes(), good);
        assert!(matches!(read(&format!("{good} blob 4\ngood\n")), Ok(None)));
        assert!(matches!(
            read(&format!("{good} blob 4\nevil\n")),
            Ok(Some(Unsound::Other(name))) if name == good
        ));
        assert!(matches!(read(&format!("{good} missing\n")), Ok(Some(Unsound::Missing(_)))));
        for cut in ["", "fatal\n", &format!("{good} blob 4\ngo"), &format!("{good} note 4\ngood\n")]
        {
            assert!(read(cut).is_err(), "{cut:?}");
        }
        // What the same says in a repository with longer names.
        let long = "a02b7c04de724e1272d7293c4cdcf093e773919a27d157760c00c7e0afe404f2";
        let read = |answer: &str| read_one(&mut answer.as_bytes(), long);
        assert!(matches!(read(&format!("{long} blob 4\ngood\n")), Ok(None)));
        assert!(matches!(read(&format!("{long} blob 4\nevil\n")), Ok(Some(Unsound::Other(_)))));
    }
}
