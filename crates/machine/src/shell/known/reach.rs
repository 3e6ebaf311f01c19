//! Programs that need the network, and the hosts that their arguments name.

use super::program::{Operands, Program};
use super::{Deeds, Kind};
use crate::shell::Word;
use crate::shell::options::Options;

const REACH: Program = Program { kind: Kind::Reach, operands: Operands::Host, ..Program::PLAIN };

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        names: &["ping"],
        options: Options { flags: "46nqv", values: "ciwWI", ..Options::NONE },
        ..REACH
    },
    Program { names: &["host", "nslookup", "dig"], ..REACH },
];

const CURL: Options = Options {
    flags: "sSfLkIiOvJNgGq046#",
    values: "oXHdAemuwbr",
    long: "silent show-error fail location head include verbose compressed remote-name get \
        fail-with-body http1.1 http2 globoff insecure no-progress-meter create-dirs",
    long_values: "output request header data data-raw data-urlencode user-agent referer max-time \
        connect-timeout retry retry-delay user write-out cookie range output-dir url json \
        data-binary",
    ..Options::NONE
};

/// What a curl command line does. Values that begin with `@` name a file.
pub(super) fn curl(arguments: &[Word]) -> Result<Deeds, String> {
    let parsed = CURL.parse(arguments)?;
    let mut deeds = Deeds::of(Kind::Reach);
    for (_, value) in &parsed.options {
        match value {
            Some(Word::Plain(text)) if text.contains('@') => {
                let file = text.split_once('@').map_or("", |(_, file)| file);
                deeds.reads.push(Word::Plain(file.to_owned()));
            }
            Some(other @ (Word::Unknown(_) | Word::Pattern(_))) => deeds.reads.push(other.clone()),
            _ => {}
        }
    }
    // A cookie without `=` is a file.
    deeds.reads.extend(
        parsed.values(&["-b", "--cookie"]).into_iter().filter(|value| !value.text().contains('=')),
    );
    deeds.writes = parsed.values(&["-o", "--output", "--output-dir"]);
    if parsed.has(&["-O", "--remote-name", "-J"]) {
        deeds.writes.push(Word::Plain(".".to_owned()));
    }
    let mut addresses = parsed.values(&["--url"]);
    addresses.extend(parsed.operands);
    for word in &addresses {
        if word.text().to_ascii_lowercase().contains("file:") {
            return Err("a file in place of a host".to_owned());
        }
        let host = address_host(word);
        if host.plain().is_none() && !is_of_network(word) {
            // Its scheme may be that of a file, written in braces.
            deeds.reads.push(Word::Unknown(word.text().to_owned()));
        }
        deeds.hosts.push(host);
    }
    Ok(deeds)
}

/// Whether an address begins with a scheme of the network, whatever follows.
fn is_of_network(word: &Word) -> bool {
    let text = word.text().trim_start_matches('"').to_ascii_lowercase();
    ["http://", "https://", "ftp://"].iter().any(|scheme| text.starts_with(scheme))
}

/// What a wget command line does.
pub(super) fn wget(arguments: &[Word]) -> Result<Deeds, String> {
    let options = Options {
        flags: "qvcSN",
        values: "OPtTU",
        long: "quiet verbose continue no-verbose spider no-check-certificate timestamping",
        long_values: "output-document directory-prefix tries timeout user-agent header",
        ..Options::NONE
    };
    let parsed = options.parse(arguments)?;
    let mut deeds = Deeds::of(Kind::Reach);
    deeds.writes = parsed.values(&["-O", "--output-document", "-P", "--directory-prefix"]);
    if deeds.writes.is_empty() {
        deeds.writes.push(Word::Plain(".".to_owned()));
    }
    deeds.hosts = parsed.operands.iter().map(address_host).collect();
    Ok(deeds)
}

/// What ssh, scp or rsync does: where a host is named, it is reached.
pub(super) fn remote(name: &str, arguments: &[Word]) -> Result<Deeds, String> {
    let options = match name {
        "ssh" => Options { flags: "46qTtvnNxX", values: "pil", ordered: true, ..Options::NONE },
        "scp" => Options { flags: "346qrvpC", values: "Pil", ..Options::NONE },
        _ => Options {
            flags: "avzrtpogluhnPcHLxDAX",
            long: "archive verbose compress delete dry-run progress recursive stats partial \
                checksum update human-readable",
            long_values: "exclude include",
            long_attached: "exclude include info",
            ..Options::NONE
        },
    };
    let parsed = options.parse(arguments)?;
    let mut deeds = Deeds::of(Kind::Reach);
    deeds.reads = parsed.values(&["-i"]);
    deeds.deep = true;
    if name == "ssh" {
        if let Some((host, behind)) = parsed.operands.split_first() {
            deeds.hosts.push(address_host(host));
            // Up to the command, what stands behind the host may be options too.
            deeds.reads.extend(options.parse(behind)?.values(&["-i"]));
        }
        return Ok(deeds);
    }
    let Some((target, sources)) = parsed.operands.split_last() else {
        return Err("no files".to_owned());
    };
    for source in sources {
        match remote_host(source) {
            Some(host) => deeds.hosts.push(host),
            None => deeds.reads.push(source.clone()),
        }
    }
    match remote_host(target) {
        Some(host) => deeds.hosts.push(host),
        None => deeds.writes.push(target.clone()),
    }
    Ok(deeds)
}

/// The host of `scheme://host/path` or `host:path`; nothing if none is named, and the word itself if it is not
/// certain.
pub(super) fn remote_host(word: &Word) -> Option<Word> {
    let Word::Plain(text) = word else {
        return Some(word.clone());
    };
    if scheme(text).is_some() {
        return Some(address_host(word));
    }
    let (before, _) = text.split_once(':')?;
    if before.is_empty() || before.contains('/') {
        return None;
    }
    Some(certain(before.rsplit('@').next().unwrap_or(before), word))
}

/// The host of an address, with or without a scheme. Where programs differ about what the host is, none is told: `http:/x`,
/// `http:x` and `x\\@y` are read one way here and another way there.
fn address_host(word: &Word) -> Word {
    let Word::Plain(text) = word else { return word.clone() };
    let rest = match scheme(text) {
        Some(name) if SCHEMES.contains(&name.to_ascii_lowercase().as_str()) => {
            &text[name.len() + 3..]
        }
        Some(_) => return Word::Unknown(text.clone()),
        None => text,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    host_and_port(authority).map_or_else(|| Word::Unknown(text.clone()), |host| certain(host, word))
}

/// Schemes behind which a host stands.
const SCHEMES: &[&str] = &[
    "dict", "ftp", "ftps", "git", "git+ssh", "gopher", "http", "https", "imap", "imaps", "ldap",
    "ldaps", "mqtt", "pop3", "pop3s", "rsync", "rtsp", "scp", "sftp", "smb", "smtp", "smtps",
    "ssh", "ssh+git", "telnet", "tftp", "ws", "wss",
];

/// What stands before `://`, if that is a scheme and not a part of a path or a query.
fn scheme(text: &str) -> Option<&str> {
    let (name, _) = text.split_once("://")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

/// The host of `user:password@host:port`, if it is written so that there is one way to read it.
fn host_and_port(authority: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~%+:-".contains(&byte);
    let named = match authority.split_once('@') {
        Some((user, rest)) => user.bytes().all(plain).then_some(rest)?,
        None => authority,
    };
    let (host, port) = match named.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => named.split_at(named.find(':').unwrap_or(named.len())),
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(digits)).then_some(host)
}

/// A host if it is written as one; programs make several addresses of braces and brackets, and differ about the rest.
fn certain(host: &str, word: &Word) -> Word {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    match !host.is_empty() && !host.starts_with('-') && host.bytes().all(plain) {
        true => Word::Plain(host.to_ascii_lowercase()),
        false => Word::Unknown(word.text().to_owned()),
    }
}
