//! Hosts that a sandbox may reach: tables of tricky names and addresses, and properties over any text.

use std::net::IpAddr;

use machine::policy::hosts::{Allowed, Host, Realm, parse_port};
use proptest::prelude::*;

fn allowed(patterns: &[&str]) -> Allowed {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    Allowed::parse(&patterns).unwrap()
}

fn why(list: &Allowed, host: &str, port: u16) -> String {
    list.permits(host, port).map_or_else(|refusal| refusal.to_string(), |()| "yes".to_owned())
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_empty_list_reaches_nothing() {
    let none = allowed(&[]);
    assert!(none.is_empty());
    for host in ["crates.io", "127.0.0.1", "localhost", "::1", "", "*"] {
        assert!(none.permits(host, 443).is_err(), "{host}");
    }
}

#[test]
fn tricky_hosts_are_judged_by_their_plain_form() {
    let list = allowed(&[
        "crates.io",
        "*.npmjs.org",
        "example.org:8443",
        "192.0.2.7",
        "[2001:db8::7]:8080",
        "xn--bcher-kva.example",
    ]);
    let table = [
        ("crates.io", 443, true),
        ("crates.io", 80, true),
        ("CRATES.io", 443, true),
        ("crates.io", 22, false),
        ("crates.io", 0, false),
        ("crates.io.", 443, false),
        ("crates.io..", 443, false),
        (".crates.io", 443, false),
        ("static.crates.io", 443, false),
        ("evil-crates.io", 443, false),
        ("crates.io.evil.org", 443, false),
        ("evil.org\0.crates.io", 443, false),
        ("crates.io\0", 443, false),
        ("crates.io\0.evil.org", 443, false),
        ("crates.io%00", 443, false),
        ("crates%2eio", 443, false),
        ("crates.io ", 443, false),
        (" crates.io", 443, false),
        ("crates.io\r\nHost: evil.org", 443, false),
        ("crates.io\t", 443, false),
        ("evil.org@crates.io", 443, false),
        ("crates.io@evil.org", 443, false),
        ("crates.io:443", 443, false),
        ("crates.io/", 443, false),
        ("crates.io#", 443, false),
        ("crates.io?", 443, false),
        ("crates.io\\evil.org", 443, false),
        ("crаtes.io", 443, false),
        ("crates\u{3002}io", 443, false),
        ("crates.io\u{200b}", 443, false),
        ("bücher.example", 443, false),
        ("xn--bcher-kva.example", 443, true),
        ("registry.npmjs.org", 443, true),
        ("a.b.npmjs.org", 443, true),
        ("npmjs.org", 443, false),
        (".npmjs.org", 443, false),
        ("..npmjs.org", 443, false),
        ("evilnpmjs.org", 443, false),
        ("*.npmjs.org", 443, false),
        ("-.npmjs.org", 443, false),
        ("a_b.npmjs.org", 443, true),
        ("example.org", 8443, true),
        ("example.org", 443, false),
        ("192.0.2.7", 443, true),
        ("192.0.2.8", 443, false),
        ("192.0.2.007", 443, false),
        ("192.0.519", 443, false),
        ("3221225991", 443, false),
        ("0xc0000207", 443, false),
        ("0300.0.2.7", 443, false),
        ("[192.0.2.7]", 443, false),
        ("::ffff:192.0.2.7", 443, false),
        ("2001:db8::7", 8080, true),
        ("[2001:db8::7]", 8080, true),
        ("[2001:DB8:0:0::7]", 8080, true),
        ("2001:db8::7", 443, false),
        ("2001:db8::7%eth0", 8080, false),
        ("[2001:db8::7", 8080, false),
        ("127.1", 443, false),
        ("localhost", 443, false),
        ("", 443, false),
        (".", 443, false),
        ("*", 443, false),
    ];
    for (host, port, expected) in table {
        assert_eq!(list.permits(host, port).is_ok(), expected, "{host:?}:{port}");
    }
    let long = format!("{}.npmjs.org", "a".repeat(64));
    assert!(list.permits(&long, 443).is_err());
    let longer = format!("{}npmjs.org", "a.".repeat(200));
    assert!(list.permits(&longer, 443).is_err());
    assert!(list.permits(&format!("{}.npmjs.org", "a".repeat(63)), 443).is_ok());
}

#[test]
fn a_refusal_says_what_to_do() {
    let list = allowed(&["crates.io"]);
    insta::assert_snapshot!(why(&list, "evil.org", 443), @"evil.org is not in the list of hosts");
    insta::assert_snapshot!(why(&list, "crates.io", 22), @"crates.io is in the list of hosts, but not with port 22; write crates.io:22 to allow it");
    insta::assert_snapshot!(why(&list, "a\0.crates.io", 443), @"this is no plain host name: it holds a NUL");
    insta::assert_snapshot!(why(&list, "2130706433", 443), @"this is no plain host name: it ends in a number but is no address in its usual form (four decimal numbers, or IPv6)");
    let grant = list.grant(&Host::parse("crates.io").unwrap(), 443).unwrap();
    insta::assert_snapshot!(grant.admit(address("10.0.0.1")).unwrap_err(), @"crates.io leads to 10.0.0.1, an address of a private network; write private:crates.io if that is meant");
    insta::assert_snapshot!(grant.admit(address("169.254.169.254")).unwrap_err(), @"crates.io leads to 169.254.169.254, a link-local address, which is reached only if the list names the address itself");
}

#[test]
fn a_list_that_cannot_be_meant_is_an_error() {
    let table = [
        ("", "it is empty"),
        ("*", "names every host"),
        ("private:*", "names every host"),
        ("*.com", "too wide"),
        ("a*.example.org", "only in front"),
        ("*.*.example.org", "holds a *"),
        ("*.127.0.0.1", "nothing is below an address"),
        ("example.org:", "expected a port"),
        ("example.org:0", "expected a port"),
        ("example.org:65536", "expected a port"),
        ("example.org:+80", "expected a port"),
        ("example.org:080", "expected a port"),
        ("example.org:*", "expected a port"),
        ("https://example.org", "write the host alone"),
        ("example.org/path", "holds a slash"),
        ("user@example.org", "holds an @"),
        ("example.org.", "ends in a dot"),
        ("bücher.example", "xn--"),
        ("127.1", "ends in a number"),
        (" example.org", "holds a space"),
        ("private:private:example.org", "expected a port"),
    ];
    for (pattern, expected) in table {
        let error = Allowed::parse(&[pattern.to_owned()]).unwrap_err();
        assert!(error.contains(expected) && error.contains(&format!("{pattern:?}")), "{error}");
    }
}

#[test]
fn a_name_leads_to_public_addresses_unless_the_list_says_otherwise() {
    let list = allowed(&["open.example.org", "private:home.example.org", "*.example.org"]);
    let grant = |name: &str| list.grant(&Host::parse(name).unwrap(), 443).unwrap();
    let table = [
        ("1.1.1.1", Realm::Public, true, true),
        ("2606:4700::1111", Realm::Public, true, true),
        ("64:ff9b::101:101", Realm::Public, true, true),
        ("127.0.0.1", Realm::Loopback, false, true),
        ("127.255.255.254", Realm::Loopback, false, true),
        ("::1", Realm::Loopback, false, true),
        ("10.1.2.3", Realm::Private, false, true),
        ("172.16.0.1", Realm::Private, false, true),
        ("172.31.255.255", Realm::Private, false, true),
        ("172.32.0.1", Realm::Public, true, true),
        ("192.168.1.1", Realm::Private, false, true),
        ("100.64.0.1", Realm::Private, false, true),
        ("100.128.0.1", Realm::Public, true, true),
        ("fd00::1", Realm::Private, false, true),
        ("169.254.169.254", Realm::LinkLocal, false, false),
        ("fe80::1", Realm::LinkLocal, false, false),
        ("0.0.0.0", Realm::Special, false, false),
        ("0.1.2.3", Realm::Special, false, false),
        ("::", Realm::Special, false, false),
        ("224.0.0.1", Realm::Special, false, false),
        ("255.255.255.255", Realm::Special, false, false),
        ("ff02::1", Realm::Special, false, false),
        ("192.0.0.192", Realm::Special, false, false),
        ("198.18.0.1", Realm::Special, false, false),
        ("::ffff:1.1.1.1", Realm::Special, false, false),
        ("::ffff:127.0.0.1", Realm::Special, false, false),
        ("::ffff:169.254.169.254", Realm::Special, false, false),
        ("::127.0.0.1", Realm::Special, false, false),
        ("64:ff9b::7f00:1", Realm::Special, false, false),
        ("64:ff9b:1::7f00:1", Realm::Special, false, false),
        ("2002:7f00:1::", Realm::Special, false, false),
        ("2001::1", Realm::Special, false, false),
        ("2001:db8::1", Realm::Special, false, false),
        ("fec0::1", Realm::Special, false, false),
    ];
    for (text, realm, public, private) in table {
        let address = address(text);
        assert_eq!(Realm::of(address), realm, "{text}");
        assert_eq!(grant("open.example.org").admit(address).is_ok(), public, "{text}");
        assert_eq!(grant("other.example.org").admit(address).is_ok(), public, "{text}");
        assert_eq!(grant("home.example.org").admit(address).is_ok(), private, "{text}");
    }
}

#[test]
fn a_listed_address_leads_to_itself_and_nowhere_else() {
    for text in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "10.0.0.1"] {
        let list = allowed(&[text]);
        let grant = list.grant(&Host::parse(text).unwrap(), 80).unwrap();
        assert_eq!(grant.admit(address(text)).unwrap().address().ip(), address(text));
        assert!(grant.admit(address("1.1.1.1")).is_err());
        assert!(list.permits("127.0.0.2", 80).is_err());
    }
}

#[test]
fn a_port_is_plain_digits() {
    assert_eq!(
        (parse_port("443"), parse_port("65535"), parse_port("1")),
        (Some(443), Some(65535), Some(1))
    );
    for text in ["", "0", "00", "0443", "+443", "-1", " 443", "443 ", "65536", "4４3", "0x1bb"] {
        assert_eq!(parse_port(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn what_is_permitted_is_the_name_itself_or_below_the_wildcard(host in "\\PC{0,40}|[a-z.*%@:\\x00-\\x20-]{0,20}(crates\\.io|npmjs\\.org)[a-z.\\x00-\\x20]{0,3}") {
        let list = allowed(&["crates.io", "*.npmjs.org"]);
        if list.permits(&host, 443).is_ok() {
            let plain = host.to_ascii_lowercase();
            let labels = plain.strip_suffix(".npmjs.org").is_some_and(|rest| {
                rest.split('.').all(|label| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'))
            });
            prop_assert!(plain == "crates.io" || labels, "{host:?}");
        }
    }

    #[test]
    fn a_host_that_is_read_is_written_and_read_again_as_the_same(text in "\\PC{0,30}|[0-9a-fx.:\\[\\]]{1,30}|[a-z0-9.-]{1,40}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()).unwrap(), host);
        }
    }

    #[test]
    fn any_pattern_is_read_or_refused_without_a_panic(pattern in any::<String>(), host in any::<String>(), port in any::<u16>()) {
        if let Ok(list) = Allowed::parse(&[pattern]) {
            let _ = list.permits(&host, port);
        }
    }
}
