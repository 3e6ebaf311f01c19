//! Debug builds of the program lie at a fixed address: tests start it many thousand times, and each start would otherwise
//! relocate 2.7 MB before anything else. What is released stays where the kernel puts it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
