//! What the layers cost: memory is counted by an allocator of our own, which is why this is a program by itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use machine::message::{StopReason, Usage};
use machine::stream::StreamEvent;
use machine::time::Timestamp;
use view::stream::live::Live;
use view::stream::message::MessageLayer;
use view::stream::state::StateLayer;
use view::stream::turn::TurnLayer;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Counts the bytes that each thread asks for; growing in place counts as asking anew, because it may copy.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: usize) {
    // A thread that is being taken down no longer counts.
    let _ = BYTES.try_with(|all| all.set(all.get() + bytes as u64));
}

/// An answer of so many deltas of text, with a line now and then, and as many of a call's arguments.
fn answer(deltas: usize) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::MessageStart { id: "m".to_owned(), model: "x".to_owned() }];
    for at in 0..deltas {
        let text = if at % 20 == 0 { "word\n " } else { "words " };
        events.push(StreamEvent::TextDelta { index: 0, text: text.to_owned() });
    }
    events.push(StreamEvent::ToolUseStart { index: 1, id: "a".into(), name: "write".to_owned() });
    for at in 0..deltas {
        let json = match at {
            0 => "{\"a\":\"",
            _ if at + 1 == deltas => "\"}",
            _ => "words ",
        };
        events.push(StreamEvent::InputJsonDelta {
            index: 1,
            id: "a".into(),
            json: json.to_owned(),
        });
    }
    events.push(StreamEvent::ToolUseStop { index: 1, id: "a".into() });
    let (usage, stop) = (Usage::default(), Some(StopReason::ToolUse));
    events.push(StreamEvent::MessageDelta { usage, stop });
    events.push(StreamEvent::MessageStop);
    events
}

fn bytes_of(work: impl FnOnce()) -> u64 {
    let before = BYTES.with(Cell::get);
    work();
    BYTES.with(Cell::get) - before
}

fn cost(deltas: usize) -> u64 {
    let events = answer(deltas);
    let (mut message, mut turn) = (MessageLayer::default(), TurnLayer::default());
    let (mut state, mut live) = (StateLayer::default(), Live::default());
    bytes_of(|| {
        for event in &events {
            message.push(event);
            turn.push(event, Timestamp(0));
            state.push(event);
            live.push(std::slice::from_ref(event));
        }
    })
}

#[test]
fn ten_times_the_deltas_cost_ten_times_as_much() {
    let (few, many) = (cost(2_000), cost(20_000));
    assert!(many * 10 <= few * 105, "{many} bytes against {few}");
}

#[test]
fn a_delta_in_the_middle_costs_no_memory_of_its_own() {
    let events = answer(20_000);
    let (mut message, mut turn, mut state) =
        (MessageLayer::default(), TurnLayer::default(), StateLayer::default());
    // Text grows by doubling: most deltas find room.
    let costly = events[..20_000].iter().filter(|event| {
        bytes_of(|| {
            message.push(event);
            turn.push(event, Timestamp(0));
            state.push(event);
        }) > 0
    });
    let costly = costly.count();
    assert!(costly < 40, "{costly} of 20000");
}
