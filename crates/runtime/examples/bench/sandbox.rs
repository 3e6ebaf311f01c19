//! What the walls cost: the same command plain, below a warden, in a PID namespace without walls, and in the full sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use machine::policy::sandbox::{Level, SandboxSpec};
use runtime::process::{Cancel, Containment, ProcessSpec, run};
use runtime::sandbox::{Sandbox, require};
use serde_json::{Value, json};

/// Starts `/bin/true` so many times each way, in turns, so that a busy moment meets all of them.
pub(crate) fn starts(folder: &Path, count: u64) -> Value {
    require(Level::Full).unwrap();
    let mut sandbox = Sandbox::new(SandboxSpec::default());
    sandbox.workspace = Some(folder.canonicalize().unwrap());
    let ways = [
        ("plain", Containment::Session),
        ("warden", Containment::Group),
        ("namespace", Containment::Auto),
        ("sandbox", Containment::Sandbox(Arc::new(sandbox))),
    ];
    let mut millis: [Vec<f64>; 4] = Default::default();
    for _ in 0..count {
        for (index, (_, containment)) in ways.iter().enumerate() {
            let begun = Instant::now();
            let spec = ProcessSpec {
                cwd: Some(folder.canonicalize().unwrap()),
                containment: containment.clone(),
                ..ProcessSpec::new(["/bin/true"])
            };
            assert_eq!(run(spec, &Cancel::new()).unwrap().exit, Some(0));
            millis[index].push(begun.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let mut line = json!({ "case": "sandbox", "starts": count });
    let mut medians = [0.0; 4];
    for (index, (name, _)) in ways.iter().enumerate() {
        millis[index].sort_by(f64::total_cmp);
        let at = |share: usize| millis[index][(millis[index].len() - 1) * share / 100];
        medians[index] = at(50);
        line[format!("{name}_ms")] = json!({ "p50": at(50), "p95": at(95) });
    }
    line["ratio_to_plain"] = json!(medians[3] / medians[0]);
    line["over_plain_ms"] = json!(medians[3] - medians[0]);
    line
}
