# The one way to run anything. `just` alone lists what there is.

default:
    @just --list

# The program as it is handed out, arranged by what it was seen to call.
release:
    bash scripts/release

# Everything that must pass before a change lands.
test:
    bash scripts/test

# Quick feedback while working.
check:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# The example task; ends verified.
demo:
    bash scripts/demo

# More seeds of the simulation than a test run has time for.
simulate seeds="10000":
    DRIVETRAIN_SEEDS={{seeds}} cargo test -p runtime --test simulation -- --nocapture

# The laws on other cases than the tests', and on more of them.
laws times="10":
    PROPTEST_CASES=$((256 * {{times}})) PROPTEST_MAX_GLOBAL_REJECTS=1000000 cargo test -p machine -p wire -p view

# The tests as on a machine that is far too busy.
unsteady *packages:
    scripts/unsteady {{packages}}

# Loses the power of a running task at random moments and looks at what is left (needs root).
power-cut cuts="20":
    cargo build --release -q -p app
    scripts/power-cut target/release/drivetrain {{cuts}}

# Feeds one fuzz target for a while (see CONTRIBUTING.md for their names).
fuzz target seconds="60":
    bash fuzz/run {{target}} {{seconds}}

# Speed beside the raw limit, in one run; figures go to docs/performance.md.
bench:
    cargo run --release -q -p runtime --example bench -- all

# The model path against a scripted server at $BASE: one streamed answer, a loop of tool calls, many tasks at once.
bench-model:
    cargo build --release -q -p runtime --example bench
    target/release/examples/bench w1 anthropic burst 20
    target/release/examples/bench w1 anthropic pace1000 3
    target/release/examples/bench w1 chat burst 20
    target/release/examples/bench w2 anthropic 100
    target/release/examples/bench w4 anthropic 1000 1000

# What drivetrain adds to a coding agent, beside the bare program (needs `scripts/agents install`).
bench-agents *args:
    bash scripts/bench-agents {{args}}

# Instructions of one step, early and late: the same on every run (needs valgrind).
bench-step:
    cargo build --release -q -p runtime --example bench
    for steps in 20000 40000 80000; do \
        valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/bench step $steps 2>&1 \
            | grep -E 'Collected' | sed "s/^.*:/$steps steps:/"; \
    done

# Hostile cases through the real binary: one line a case, the sum last. `corpus` holds ours; any folder of the same kinds works.
corpus dir="corpus" *only="":
    cargo build -q -p app
    cargo run -q -p app --example corpus -- {{dir}} {{only}}
