//! What calls do, refuse and survive, as C makes them.

use lightloom::{
    LightloomCircuit, LightloomDecider, LightloomDecision, List, MAX_ALL_TO_ALLS, MAX_TEXT_BYTES,
    Status, Text, lightloom_abi_version, lightloom_accept, lightloom_create, lightloom_decide,
    lightloom_destroy, lightloom_hold, lightloom_last_error, lightloom_list, lightloom_restore,
    lightloom_servers, lightloom_text,
};
use proptest::prelude::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

const PLAIN: &str = r#"{"servers": 4,
    "region": {"ports": 2, "circuit_gbps": 400, "eps_gbps": 100},
    "policy": {"allocator": "greedy", "when": "break-even"},
    "timing": {"fixed_s": 1e-4}}"#;

/// A decider that is destroyed in the end.
struct Made(*mut LightloomDecider);

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: it was made by `lightloom_create`, and is not used again.
        unsafe { lightloom_destroy(self.0) }
    }
}

fn last_error() -> String {
    // SAFETY: the text is valid until the next call of this thread.
    unsafe { CStr::from_ptr(lightloom_last_error()) }.to_str().expect("text").to_owned()
}

/// Nothing, or the status and the line that says why.
fn outcome(status: i32) -> Result<(), (i32, String)> {
    if status == Status::Ok as i32 { Ok(()) } else { Err((status, last_error())) }
}

fn create(description: &[u8]) -> Result<Made, (i32, String)> {
    let mut made = null_mut();
    // SAFETY: pointers and lengths belong together.
    let status =
        unsafe { lightloom_create(description.as_ptr().cast(), description.len(), &raw mut made) };
    outcome(status).map(|()| Made(made))
}

impl Made {
    fn decide(&self, bytes: &[u64], hidden: &[u64]) -> Result<LightloomDecision, (i32, String)> {
        let servers = (bytes.len() / hidden.len().max(1)).isqrt();
        let mut decision = std::mem::MaybeUninit::uninit();
        // SAFETY: pointers and lengths belong together.
        let status = unsafe {
            lightloom_decide(
                self.0,
                bytes.as_ptr(),
                servers,
                hidden.as_ptr(),
                hidden.len(),
                decision.as_mut_ptr(),
            )
        };
        // SAFETY: it was written if the call succeeded.
        outcome(status).map(|()| unsafe { decision.assume_init() })
    }

    fn list(&self, list: List) -> Vec<LightloomCircuit> {
        let mut count = usize::MAX;
        // SAFETY: a capacity of 0 needs no buffer.
        let status = unsafe { lightloom_list(self.0, list as u32, null_mut(), 0, &raw mut count) };
        let expected = if count == 0 { Status::Ok } else { Status::TooSmall };
        assert_eq!(status, expected as i32);
        let empty = LightloomCircuit { server_a: 9, nic_a: 9, server_b: 9, nic_b: 9 };
        let mut found = vec![empty; count + 1];
        // SAFETY: the capacity is that of the buffer.
        let status = unsafe {
            lightloom_list(self.0, list as u32, found.as_mut_ptr(), count, &raw mut count)
        };
        outcome(status).expect("a buffer that suffices");
        assert_eq!(found.pop(), Some(empty), "nothing is written beyond the capacity");
        found
    }

    fn text(&self, text: Text) -> String {
        let mut length = 0;
        // SAFETY: a capacity of 0 needs no buffer.
        let status = unsafe { lightloom_text(self.0, text as u32, null_mut(), 0, &raw mut length) };
        assert_eq!(status, Status::TooSmall as i32);
        let mut found = vec![1_u8; length + 1];
        // SAFETY: the capacity is that of the buffer.
        let status = unsafe {
            let buffer = found.as_mut_ptr().cast();
            lightloom_text(self.0, text as u32, buffer, found.len(), &raw mut length)
        };
        outcome(status).expect("a buffer that suffices");
        CStr::from_bytes_with_nul(&found).expect("an end").to_str().expect("text").to_owned()
    }

    fn accept(&self) -> Result<(), (i32, String)> {
        // SAFETY: the decider is valid.
        outcome(unsafe { lightloom_accept(self.0) })
    }

    fn hold(&self, circuits: &[LightloomCircuit]) -> Result<(), (i32, String)> {
        // SAFETY: the length is that of the slice.
        outcome(unsafe { lightloom_hold(self.0, circuits.as_ptr(), circuits.len()) })
    }

    fn restore(&self, state: &[u8]) -> Result<(), (i32, String)> {
        // SAFETY: the length is that of the slice.
        outcome(unsafe { lightloom_restore(self.0, state.as_ptr().cast(), state.len()) })
    }
}

fn circuit(a: (u32, u32), b: (u32, u32)) -> LightloomCircuit {
    LightloomCircuit { server_a: a.0, nic_a: a.1, server_b: b.0, nic_b: b.1 }
}

/// 50 MB between 0 and 1, and between 2 and 3.
fn couples() -> Vec<u64> {
    let mut bytes = vec![0; 16];
    for (a, b) in [(0, 1), (2, 3)] {
        (bytes[a * 4 + b], bytes[b * 4 + a]) = (50_000_000, 50_000_000);
    }
    bytes
}

#[test]
fn a_decision_is_held_once_it_is_accepted() {
    let made = create(PLAIN.as_bytes()).unwrap();
    assert_eq!(made.accept().unwrap_err().1, "nothing was decided yet");
    let before = made.list(List::Held);
    assert_eq!(before.len(), 4);
    let decision = made.decide(&couples(), &[0]).unwrap();
    assert_eq!(
        (decision.reconfigure, decision.pairs, decision.ready_after_ps),
        (1, 2, 100_000_000)
    );
    let reason: Vec<u8> = decision.reason.iter().map(|&c| c as u8).take_while(|&c| c > 0).collect();
    assert_eq!(reason, b"pays");
    let counts =
        [List::Decided, List::Create, List::Delete, List::Keep, List::MovedFrom, List::Lost];
    let lengths = counts.map(|list| made.list(list).len() as u32);
    let stated = [
        decision.circuits,
        decision.created,
        decision.deleted,
        decision.kept,
        decision.moved,
        decision.lost,
    ];
    assert_eq!((lengths, lengths), (stated, [4, 2, 2, 2, 0, 0]));
    assert!(decision.switch_s + decision.exposed_s < decision.hold_s);
    assert!((decision.saved_s - (decision.hold_s - decision.switch_s)).abs() < 1e-15);
    assert_eq!(made.list(List::Held), before, "nothing was switched yet");
    made.accept().unwrap();
    assert_eq!(made.list(List::Held), made.list(List::Decided));
    let again = made.decide(&couples(), &[0]).unwrap();
    assert_eq!((again.reconfigure, again.kept), (0, 4));
    assert!(made.text(Text::Reason).starts_with("Held: "));
    assert!(made.text(Text::Decision).starts_with("{\"held\":"));
}

#[test]
fn a_stored_state_is_restored() {
    let (one, other) = (create(PLAIN.as_bytes()).unwrap(), create(PLAIN.as_bytes()).unwrap());
    one.decide(&couples(), &[0]).unwrap();
    one.accept().unwrap();
    other.restore(one.text(Text::State).as_bytes()).unwrap();
    assert_eq!(other.text(Text::State), one.text(Text::State));
    let next: Vec<u64> = (0..32).map(|cell| cell * 1_000_000 % 7_777_777).collect();
    for decider in [&one, &other] {
        decider.decide(&next, &[5, 0]).unwrap();
    }
    assert_eq!(other.text(Text::Decision), one.text(Text::Decision));
}

#[test]
fn circuits_found_on_a_switch_are_held() {
    let made = create(PLAIN.as_bytes()).unwrap();
    let found = [circuit((2, 0), (3, 1)), circuit((0, 1), (1, 0))];
    made.hold(&found).unwrap();
    assert_eq!(made.list(List::Held), [found[1], found[0]], "sorted");
    let refusal = |circuits: &[LightloomCircuit]| made.hold(circuits).unwrap_err().1;
    assert_eq!(refusal(&[circuit((0, 2), (1, 0))]), "server 0 has no NIC 2");
    assert_eq!(refusal(&[circuit((0, 0), (u32::MAX, 0))]), "server 4294967295 has no NIC 0");
    assert_eq!(refusal(&[circuit((1, 0), (0, 0))]), "NICs 1/0 and 0/0 cannot be joined");
    let twice = [found[0], circuit((2, 0), (3, 0))];
    assert_eq!(refusal(&twice), "NIC 0 of server 2 ends two circuits");
    assert_eq!(made.list(List::Held).len(), 2, "what is refused changes nothing");
    made.hold(&[]).unwrap();
    assert_eq!(made.list(List::Held), []);
}

#[test]
fn descriptions_that_cannot_be_are_refused_in_one_line() {
    let refusal = |text: &str| {
        let (status, line) = create(text.as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(status, Status::Invalid as i32, "{line}");
        assert!(!line.contains('\n') && !line.is_empty());
        line
    };
    assert!(refusal("").starts_with("description: EOF"));
    assert!(refusal("[1]").starts_with("description: "));
    assert!(refusal(&"[".repeat(100_000)).starts_with("description: "));
    assert!(refusal(&PLAIN.replace("ports", "port")).contains("unknown field `port`"));
    assert!(refusal(&PLAIN.replace("greedy", "gredy")).contains("'gredy'"));
    assert!(refusal(&PLAIN.replace("break-even", "sometimes")).contains("'sometimes'"));
    let text = refusal(&PLAIN.replace(": 2,", ": [2, 2],"));
    assert_eq!(text, "ports: expected one number or 4, got 2");
    let text = refusal(&PLAIN.replace(": 2,", ": 300,"));
    assert_eq!(text, "ports: expected at most 256, got 300");
    assert!(refusal(&PLAIN.replace(": 2,", ": -1,")).contains("one per server"));
    let text = refusal(&PLAIN.replace("\"servers\": 4", "\"servers\": 1000000000"));
    assert_eq!(text, "servers: expected at most 1024, got 1000000000");
    let text = refusal(&PLAIN.replace("1e-4", "-1"));
    assert!(text.starts_with("description: fixed_s: expected 0 to 1e6 s, got -1 at line 4"));
    assert!(refusal(&PLAIN.replace("1e-4", "1e7")).starts_with("description: fixed_s: expected"));
    assert!(refusal(&PLAIN.replace("400", "0")).contains("circuit_gbps: expected"));
    assert!(refusal(&PLAIN.replace(": 100}", ": 1e10}")).contains("eps_gbps: expected"));
    let more = |field: &str| PLAIN.replace("\"ports\"", &format!("{field}, \"ports\""));
    assert!(refusal(&more("\"allowed\": [[true]]")).starts_with("allowed: expected a symmetric"));
    assert!(refusal(&more("\"planes\": \"both\"")).contains("'both'"));
    let text = refusal(&more("\"failed\": {\"nics\": [[0, 2]]}"));
    assert_eq!(text, "failed NIC of server 0: 2, expected 0 to 1");
    let relaying = PLAIN.replace(
        "\"when\"",
        "\"relaying\": {\"chunk_bytes\": 99999999999999999999, \"relay_delay_s\": 0}, \"when\"",
    );
    assert!(refusal(&relaying).starts_with("description: "));
    let (status, line) = create(&[0xFF; 4]).map(|_| ()).unwrap_err();
    assert!(status == 1 && line.contains("utf-8"), "{line}");
    let (_, line) = create(&vec![b' '; MAX_TEXT_BYTES + 1]).map(|_| ()).unwrap_err();
    assert!(line.ends_with("at most 67108864"), "{line}");
}

#[test]
fn demand_that_cannot_be_is_refused() {
    let made = create(PLAIN.as_bytes()).unwrap();
    let refusal =
        |made: &Made, bytes: &[u64], hidden: &[u64]| made.decide(bytes, hidden).unwrap_err();
    let text = refusal(&made, &[0; 9], &[0]).1;
    assert_eq!(text, "servers: expected 4, got 3");
    let many = MAX_ALL_TO_ALLS + 1;
    let text = refusal(&made, &vec![0; 16 * many], &vec![0; many]).1;
    assert_eq!(text, "all_to_alls: expected at most 64, got 65");
    let failed = PLAIN.replace("\"ports\"", "\"failed\": {\"servers\": [1]}, \"ports\"");
    let broken = create(failed.as_bytes()).unwrap();
    assert_eq!(refusal(&broken, &couples(), &[0]).1, "demand of server 1, which has failed");
    let relaying = PLAIN.replace(
        "\"when\"",
        "\"relaying\": {\"chunk_bytes\": 1000, \"relay_delay_s\": 0}, \"when\"",
    );
    let relaying = create(relaying.as_bytes()).unwrap();
    assert!(refusal(&relaying, &[u64::MAX; 16], &[0]).1.ends_with("where servers relay"));
    // Each may be relayed, but not what they are together.
    let mut half = [0; 16];
    half[1] = 1 << 62;
    relaying.decide(&half, &[0]).unwrap();
    let text = refusal(&relaying, &[half; 3].concat(), &[0; 3]).1;
    assert_eq!(
        text,
        "13835058055282163712 bytes of demand, at most 9223372036854775808 where servers relay"
    );
    // The largest numbers are decided on, and times that never end are infinite.
    made.decide(&[u64::MAX; 16], &[u64::MAX]).unwrap();
    let decision = made.decide(&[0; 16], &[0]).unwrap();
    assert_eq!((decision.makespan_s.to_bits(), decision.hold_s.is_nan()), (0, true));
}

#[test]
fn states_of_other_regions_are_refused() {
    let made = create(PLAIN.as_bytes()).unwrap();
    let state = made.text(Text::State);
    let refusal = |state: &str| made.restore(state.as_bytes()).unwrap_err().1;
    assert!(refusal("").starts_with("state: EOF"));
    assert!(refusal("{}").starts_with("state: missing field"));
    let larger = create(PLAIN.replace("\"servers\": 4", "\"servers\": 5").as_bytes()).unwrap();
    let text = refusal(&larger.text(Text::State));
    assert_eq!(text, "state: 25 entries of circuits, expected 4 x 4");
    assert_eq!(refusal(&state.replace("\"nic\":1", "\"nic\":7")), "server 0 has no NIC 7");
    let text = refusal(&state.replacen("[0,1", "[0,2", 1));
    assert_eq!(text, "circuits and their NICs do not agree");
    assert_eq!(made.text(Text::State), state);
}

/// No call ends the program, whatever is null.
#[test]
fn null_pointers_are_refused() {
    let made = create(PLAIN.as_bytes()).unwrap();
    let mut count = 0_usize;
    let mut decision = made.decide(&[0; 16], &[0]).unwrap();
    let (bytes, hidden) = ([0_u64; 16], [0_u64]);
    let mut other = null_mut();
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason for all")]
    // SAFETY: what is not null belongs together.
    let statuses = unsafe {
        [
            lightloom_create(null(), 3, &raw mut other),
            lightloom_create(PLAIN.as_ptr().cast(), PLAIN.len(), null_mut()),
            lightloom_servers(null(), &raw mut count),
            lightloom_servers(made.0, null_mut()),
            lightloom_decide(null(), bytes.as_ptr(), 4, hidden.as_ptr(), 1, &raw mut decision),
            lightloom_decide(made.0, null(), 4, hidden.as_ptr(), 1, &raw mut decision),
            lightloom_decide(made.0, bytes.as_ptr(), 4, null(), 1, &raw mut decision),
            lightloom_decide(made.0, bytes.as_ptr(), 4, hidden.as_ptr(), 1, null_mut()),
            lightloom_accept(null()),
            lightloom_hold(made.0, null(), 1),
            lightloom_hold(made.0, null(), usize::MAX),
            lightloom_hold(null(), null(), 0),
            lightloom_list(null(), 0, null_mut(), 0, &raw mut count),
            lightloom_list(made.0, 0, null_mut(), 9, &raw mut count),
            lightloom_list(made.0, 0, null_mut(), 0, null_mut()),
            lightloom_list(made.0, 8, null_mut(), 0, &raw mut count),
            lightloom_text(made.0, 3, null_mut(), 0, &raw mut count),
            lightloom_text(null(), 0, null_mut(), 0, &raw mut count),
            lightloom_restore(made.0, null(), 9),
        ]
    };
    assert_eq!(statuses, [Status::Invalid as i32; 19]);
    assert!(other.is_null());
    // SAFETY: null is ignored.
    unsafe { lightloom_destroy(null_mut()) };
    // SAFETY: both are valid.
    outcome(unsafe { lightloom_servers(made.0, &raw mut count) }).unwrap();
    assert_eq!((count, lightloom_abi_version()), (4, 1));
    // SAFETY: nothing is upcoming, so that there is nothing to point at.
    let none = unsafe { lightloom_decide(made.0, null(), 4, null(), 0, &raw mut decision) };
    assert_eq!((none, decision.reconfigure), (Status::Ok as i32, 0));
}

/// Threads that meet in one decider are told so; messages are those of the own thread.
#[test]
fn threads_share_a_decider_one_at_a_time() {
    struct Shared(*const LightloomDecider);
    // SAFETY: the header allows any thread, one at a time; others are refused.
    unsafe impl Sync for Shared {}
    let made = create(PLAIN.replace("greedy", "best").as_bytes()).unwrap();
    let shared = Shared(made.0);
    let decide = |seed: u64| {
        let shared = &shared;
        let bytes: Vec<u64> =
            (0..16).map(|cell| (cell + 1) * (seed + 1) * 7_919 % 9_999_999).collect();
        let mut decision = std::mem::MaybeUninit::uninit();
        let hidden = [0];
        // SAFETY: pointers and lengths belong together.
        let status = unsafe {
            let hidden = hidden.as_ptr();
            lightloom_decide(shared.0, bytes.as_ptr(), 4, hidden, 1, decision.as_mut_ptr())
        };
        match status {
            0 => (1, 0),
            3 => {
                assert!(last_error().starts_with("another thread uses this decider"));
                (0, 1)
            }
            other => panic!("{other}: {}", last_error()),
        }
    };
    let (decided, refused) = std::thread::scope(|scope| {
        let many = |start: u64| (start..start + 200).map(decide);
        let threads: Vec<_> = [0, 1_000, 2_000]
            .map(|start| {
                scope.spawn(move || {
                    many(start).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
                })
            })
            .into_iter()
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    assert_eq!(decided + refused, 600);
    assert!(decided >= 200, "one of them is always inside");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any text is a description or one line about it.
    #[test]
    fn any_description_is_made_or_refused(
        place in any::<prop::sample::Index>(),
        length in 0..9_usize,
        insert in "[\\[\\]{}:,\"a-z0-9.eE-]{0,9}",
    ) {
        let start = place.index(PLAIN.len());
        let end = (start + length).min(PLAIN.len());
        let text = format!("{}{insert}{}", &PLAIN[..start], &PLAIN[end..]);
        if let Err((status, line)) = create(text.as_bytes()) {
            prop_assert_eq!(status, Status::Invalid as i32, "{}", text);
            prop_assert!(!line.is_empty() && !line.contains('\n'));
        }
    }

    /// So is any state, and what is refused changes nothing.
    #[test]
    fn any_state_is_held_or_refused(
        place in any::<prop::sample::Index>(),
        length in 0..9_usize,
        insert in "[\\[\\]{}:,\"a-z0-9-]{0,9}",
    ) {
        let made = create(PLAIN.as_bytes()).unwrap();
        let state = made.text(Text::State);
        let start = place.index(state.len());
        let end = (start + length).min(state.len());
        let text = format!("{}{insert}{}", &state[..start], &state[end..]);
        match made.restore(text.as_bytes()) {
            Ok(()) => { made.decide(&couples(), &[0]).unwrap(); }
            Err((status, _)) => {
                prop_assert_eq!(status, Status::Invalid as i32);
                prop_assert_eq!(made.text(Text::State), state);
            }
        }
    }
}

/// `LIGHTLOOM_SOAK=100` tries a hundred times as many sequences.
fn sequences() -> u32 {
    let soak = std::env::var("LIGHTLOOM_SOAK").ok().and_then(|text| text.parse::<u32>().ok());
    500 * soak.unwrap_or(1).max(1)
}

/// Any of some texts.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(texts)
}

/// Regions of up to five servers, most of which can be; times and rates up to their limits.
fn region() -> impl Strategy<Value = (usize, String)> {
    let parts = (
        1..6_usize,
        one_of(&["0", "1", "2", "3", "6", "256"]),
        one_of(&["400", "1e9", "1e-9", "0"]),
        one_of(&["100", "0", "1e9", "1e-9"]),
        one_of(&[
            "",
            r#""planes": "duplex", "#,
            r#""planes": "crossed", "#,
            r#""failed": {"servers": [0]}, "#,
            r#""failed": {"nics": [[0, 1]], "planes": [1]}, "planes": "duplex", "#,
            r#""split": false, "eps_nics": 2, "numa_nodes": 3, "#,
        ]),
        one_of(&["best", "greedy", "paper", "reference", "static"]),
        one_of(&["break-even", "always", "never"]),
        one_of(&[
            "",
            r#", "relaying": {"chunk_bytes": 1000, "relay_delay_s": 0}"#,
            r#", "relaying": {"chunk_bytes": 4611686018427387904, "relay_delay_s": 1e6,
                 "nvswitch_gbps": 1e9, "memory_limit_bytes": 0}"#,
        ]),
        (one_of(&["0", "1e-4", "1e6"]), one_of(&["0", "1e-12", "1e6"]), any::<bool>()),
    );
    parts.prop_map(|(servers, ports, circuit, eps, more, allocator, when, relaying, timing)| {
        let (fixed, per_pair, keeps) = timing;
        let text = format!(
            r#"{{"servers": {servers},
                "region": {{{more}"ports": {ports}, "circuit_gbps": {circuit}, "eps_gbps": {eps}}},
                "policy": {{"allocator": "{allocator}", "when": "{when}"{relaying}}},
                "timing": {{"fixed_s": {fixed}, "per_pair_s": {per_pair}, "control_s": {per_pair},
                            "link_up_s": {fixed}, "keep_unchanged": {keeps}}}}}"#
        );
        (servers, text)
    })
}

fn number() -> impl Strategy<Value = u64> {
    const EXTREMES: [u64; 6] = [50_000_000, 1 << 32, 1 << 53, 1 << 62, 1 << 63, u64::MAX];
    prop_oneof![0..100_u64, prop::sample::select(&EXTREMES[..])]
}

fn end() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0..6_u32, 1 => prop::sample::select(&[255, 1 << 16, u32::MAX][..])]
}

#[derive(Debug, Clone)]
enum Step {
    Decide(Vec<u64>, Vec<u64>),
    Accept,
    Hold(Vec<(u32, u32, u32, u32)>),
    /// What is held, with some of it replaced.
    Restore(prop::sample::Index, usize, String),
}

fn step() -> impl Strategy<Value = Step> {
    let cells = 3 * 25;
    prop_oneof![
        (prop::collection::vec(number(), cells), prop::collection::vec(number(), 0..4))
            .prop_map(|(bytes, hidden)| Step::Decide(bytes, hidden)),
        Just(Step::Accept),
        prop::collection::vec((end(), end(), end(), end()), 0..8).prop_map(Step::Hold),
        (any::<prop::sample::Index>(), 0..9_usize, "[\\[\\]{}:,\"a-z0-9-]{0,5}")
            .prop_map(|(place, length, insert)| Step::Restore(place, length, insert)),
    ]
}

/// Takes a step as far as it fits the region.
fn take(made: &Made, servers: usize, step: &Step) -> Result<(), (i32, String)> {
    match step {
        Step::Decide(bytes, hidden) => {
            let cells = servers * servers * hidden.len();
            made.decide(&bytes[..cells], hidden).map(|_| ())
        }
        Step::Accept => made.accept(),
        Step::Hold(circuits) => {
            let circuits: Vec<LightloomCircuit> =
                circuits.iter().map(|&(a, nic, b, other)| circuit((a, nic), (b, other))).collect();
            made.hold(&circuits)
        }
        Step::Restore(place, length, insert) => {
            let state = made.text(Text::State);
            let start = place.index(state.len());
            let end = (start + length).min(state.len());
            made.restore(format!("{}{insert}{}", &state[..start], &state[end..]).as_bytes())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(sequences()))]

    /// Whatever is asked in whatever order, it is done or refused in one line, and what is held
    /// can be held again.
    #[test]
    fn any_sequence_of_calls_is_done_or_refused(
        (servers, description) in region(),
        steps in prop::collection::vec(step(), 1..8),
    ) {
        let made = match create(description.as_bytes()) {
            Ok(made) => made,
            Err((status, line)) => {
                prop_assert_eq!(status, Status::Invalid as i32, "{}", line);
                return Ok(());
            }
        };
        for step in &steps {
            if let Err((status, line)) = take(&made, servers, step) {
                prop_assert_eq!(status, Status::Invalid as i32, "{:?}: {}", step, line);
                prop_assert!(!line.is_empty() && !line.contains('\n'), "{}", line);
            }
            let held = made.list(List::Held);
            prop_assert!(made.hold(&held).is_ok(), "{:?}: {}", held, last_error());
            prop_assert_eq!(made.list(List::Held), held);
        }
    }
}

/// The fields of the timing are those of the record, which nobody names here.
#[test]
fn every_field_of_the_timing_is_read() {
    use lightloom_model::{Record, SwitchTiming};
    let all = serde_json::to_value(SwitchTiming::default()).expect("numbers and flags");
    let with = |timing: &serde_json::Value| {
        let mut description: serde_json::Value = serde_json::from_str(PLAIN).expect("JSON");
        description["timing"] = timing.clone();
        create(description.to_string().as_bytes()).map(|_| ()).map_err(|(_, text)| text)
    };
    assert_eq!(with(&all), Ok(()));
    for field in SwitchTiming::fields() {
        let mut less = all.clone();
        less.as_object_mut().expect("fields").remove(field.name).expect("a field of JSON");
        let missing = format!("description: missing field `{}`", field.name);
        match with(&less) {
            Ok(()) => assert!(field.default.is_some(), "{missing}"),
            Err(text) => assert!(field.default.is_none() && text.starts_with(&missing), "{text}"),
        }
        less[field.name] = serde_json::json!([]);
        assert!(with(&less).expect_err("no value").contains("expected"));
    }
}
