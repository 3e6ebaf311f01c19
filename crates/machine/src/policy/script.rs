//! Which files a command runs that are named among its words.

/// Endings of files that interpreters run.
const ENDINGS: [&str; 19] = [
    "bash", "cjs", "cts", "ex", "exs", "jar", "js", "jsx", "lua", "mjs", "mts", "php", "pl", "ps1",
    "py", "rb", "sh", "ts", "tsx",
];

/// Whether a file looks like something that an interpreter is given to run: by its ending, by how it begins, or because
/// it may be run at all.
pub fn is_script(ending: &str, content: &[u8], can_be_run: bool) -> bool {
    ENDINGS.contains(&ending) || content.starts_with(b"#!") || can_be_run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_its_ending_its_beginning_or_its_mode() {
        assert!(is_script("py", b"print(1)", false));
        assert!(is_script("", b"#!/bin/sh\n", false));
        assert!(is_script("txt", b"", true));
        assert!(!is_script("json", b"{}", false));
        assert!(!is_script("", b" #!/bin/sh", false));
    }
}
