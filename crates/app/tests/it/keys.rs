//! Every test here runs with a mark as the user's key at every provider, and fails if it leaves the mark behind. That the
//! search can fail is what these show.

use super::environment::TestEnvironment;

#[test]
#[should_panic(expected = "the user's key is in")]
fn a_key_in_a_file_is_found() {
    let place = TestEnvironment::new();
    place.write("left.txt", &format!("before {} after", place.key()));
}

#[test]
#[should_panic(expected = "the user's key is in")]
fn a_key_in_hex_is_found() {
    let place = TestEnvironment::new();
    let hex: String = place.key().bytes().map(|byte| format!("{byte:02x}")).collect();
    place.write("left.txt", &hex);
}

#[test]
#[should_panic(expected = "the user's key is in")]
fn a_key_in_an_object_of_a_repository_is_found() {
    let place = TestEnvironment::new();
    place.git(&["init", "--quiet"]);
    place.write("left.txt", place.key());
    place.git(&["add", "left.txt"]);
    std::fs::remove_file(place.folder().join("left.txt")).unwrap();
}

#[test]
#[should_panic(expected = "the user's key was printed")]
fn a_key_that_is_printed_is_found() {
    let place = TestEnvironment::new();
    let printed = std::process::Command::new("echo").arg(place.key()).output().unwrap();
    place.ran(printed);
}
