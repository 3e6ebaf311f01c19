//! Paths to devices and to what a process has open: what they hold comes from elsewhere, and is in no file.

/// What a process is given under names of its own.
const STREAMS: &[&str] = &["stdin", "stdout", "stderr", "fd", "tty"];

/// Whether a path leads to a device, as far as its text tells: `/dev/stdin`, and as well `//dev/./stdin`, `../../dev/fd/0`.
pub(super) fn is_device(path: &str) -> bool {
    let mut names: Vec<&str> = Vec::new();
    let mut climbs = false;
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => climbs |= names.pop().is_none(),
            name => names.push(name),
        }
    }
    match names.as_slice() {
        ["dev" | "proc", ..] if path.starts_with('/') => true,
        // How far up the folder is from which the path climbs is not known.
        ["dev", name, ..] if climbs => STREAMS.contains(name),
        ["proc", _, "fd", ..] | ["proc", _, "task", ..] => climbs,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_however_its_path_is_written() {
        for path in [
            "/dev/stdin",
            "//dev//stdin",
            "/./dev/./fd/0",
            "/usr/../dev/tty",
            "/proc/self/fd/0",
            "../dev/stdin",
            "x/../../..//dev/./fd/3",
            "../proc/self/fd/0",
            "/dev",
        ] {
            assert!(is_device(path), "{path}");
        }
        for path in
            ["dev/stdin", "./dev/x", "/x/dev/stdin", "../dev/run.sh", "x/../dev/fd/0", "", "-", "/"]
        {
            assert!(!is_device(path), "{path}");
        }
    }
}
