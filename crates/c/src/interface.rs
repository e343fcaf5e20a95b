//! The functions of `include/lightloom.h`, which describes them to their callers.

use crate::description::MAX_TEXT_BYTES;
use crate::state::{LightloomDecider, List, MAX_ALL_TO_ALLS, Text};
use crate::status::{Refusal, Status, guarded, last_error};
use lightloom_decide::Decision;
use lightloom_schedule::{NicCircuit, NicEnd};
use std::ffi::c_char;
use std::slice;

/// Changes whenever a caller must be compiled anew.
pub const ABI_VERSION: u32 = 1;

/// Maximum number of circuits of one call.
const MAX_CIRCUITS: usize = 1 << 20;

/// A circuit between NICs of two servers, the lower one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct LightloomCircuit {
    /// The lower server.
    pub server_a: u32,
    /// Its NIC.
    pub nic_a: u32,
    /// The higher server.
    pub server_b: u32,
    /// Its NIC.
    pub nic_b: u32,
}

impl From<&NicCircuit> for LightloomCircuit {
    fn from(NicCircuit { a, b }: &NicCircuit) -> Self {
        Self { server_a: a.server, nic_a: a.nic, server_b: b.server, nic_b: b.nic }
    }
}

impl From<&LightloomCircuit> for NicCircuit {
    fn from(circuit: &LightloomCircuit) -> Self {
        Self {
            a: NicEnd { server: circuit.server_a, nic: circuit.nic_a },
            b: NicEnd { server: circuit.server_b, nic: circuit.nic_b },
        }
    }
}

/// A decision without its circuits. Times that were not compared are NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct LightloomDecision {
    /// From the decision until all circuits are up.
    pub ready_after_ps: u64,
    /// Of the demand that was decided for, over the circuits that were decided.
    pub makespan_s: f64,
    /// What no circuits can beat.
    pub bound_s: f64,
    /// How much longer the circuits held would take.
    pub saved_s: f64,
    /// The upcoming all-to-alls with the circuits held.
    pub hold_s: f64,
    /// The same after the best switch.
    pub switch_s: f64,
    /// The part of that switch that nothing hides.
    pub exposed_s: f64,
    /// Port pairs that the switch touches; nothing changes if 0.
    pub pairs: u32,
    /// Length of the list of circuits.
    pub circuits: u32,
    /// Length of the list of new ones.
    pub created: u32,
    /// Length of the list of those torn down.
    pub deleted: u32,
    /// Length of the list of those that stay.
    pub kept: u32,
    /// Length of the lists of those that move.
    pub moved: u32,
    /// Length of the list of those that are lost.
    pub lost: u32,
    /// Whether anything changes, 0 or 1.
    pub reconfigure: u32,
    /// The name of its reason, ending in 0.
    pub reason: [c_char; 32],
}

impl From<&Decision> for LightloomDecision {
    fn from(decision: &Decision) -> Self {
        let (change, compared) = (&decision.change, decision.why.compared());
        let mut reason = [0; 32];
        for (cell, byte) in reason[..31].iter_mut().zip(decision.why.name().bytes()) {
            *cell = byte.cast_signed() as c_char;
        }
        let count = |list: &[NicCircuit]| list.len() as u32;
        Self {
            ready_after_ps: decision.ready_after.0,
            makespan_s: decision.makespan,
            bound_s: decision.bound,
            saved_s: decision.saved,
            hold_s: compared.hold.unwrap_or(f64::NAN),
            switch_s: compared.switch.unwrap_or(f64::NAN),
            exposed_s: compared.exposed.unwrap_or(f64::NAN),
            pairs: decision.pairs,
            circuits: count(&decision.held.nics),
            created: count(&change.create),
            deleted: count(&change.delete),
            kept: count(&change.keep),
            moved: change.moved.len() as u32,
            lost: count(&change.lost),
            reconfigure: u32::from(decision.pairs > 0),
            reason,
        }
    }
}

/// A decider behind a pointer.
///
/// # Safety
/// The pointer is null, or of a decider that is not destroyed while it is borrowed.
unsafe fn decider_at<'a>(
    decider: *const LightloomDecider,
) -> Result<&'a LightloomDecider, Refusal> {
    // SAFETY: the caller passes a pointer that is null or valid.
    unsafe { decider.as_ref() }.ok_or_else(|| Refusal::invalid("decider: is a null pointer"))
}

/// So many values behind a pointer.
///
/// # Safety
/// The pointer is null, or so many values lie there, which nobody changes while they are borrowed.
unsafe fn values_at<'a, T>(values: *const T, count: usize, name: &str) -> Result<&'a [T], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    check_pointer(values, name)?;
    // SAFETY: the pointer is neither null nor misaligned, and the caller says that so many values
    // lie there; callers here limit counts, so that their bytes fit a signed size.
    Ok(unsafe { slice::from_raw_parts(values, count) })
}

/// Writes values to a buffer of a capacity, and their number in any case.
///
/// # Safety
/// Both pointers are null, or of places that may be written to: one number, `capacity` values.
unsafe fn write_all<T: Copy>(
    found: &[T],
    (buffer, capacity): (*mut T, usize),
    length: (*mut usize, usize),
) -> Result<(), Refusal> {
    // SAFETY: the caller passes a pointer that is null or may be written to.
    unsafe { write_one(length.0, length.1, "length") }?;
    let needed = found.len();
    if needed > capacity {
        let text = format!("a buffer of {capacity} is too small for {needed}");
        return Err(Refusal { status: Status::TooSmall, text });
    }
    if needed > 0 {
        check_pointer(buffer.cast_const(), "buffer")?;
        // SAFETY: so many values fit the capacity that the caller states, and what is written comes
        // from memory of this library.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), buffer, needed) };
    }
    Ok(())
}

/// Writes one value.
///
/// # Safety
/// The pointer is null, or of a place that may be written to.
unsafe fn write_one<T>(place: *mut T, value: T, name: &str) -> Result<(), Refusal> {
    check_pointer(place.cast_const(), name)?;
    // SAFETY: the pointer is neither null nor misaligned, and the caller says that it is writable.
    unsafe { place.write(value) };
    Ok(())
}

fn check_pointer<T>(pointer: *const T, name: &str) -> Result<(), Refusal> {
    if pointer.is_null() {
        return Err(Refusal::invalid(format!("{name}: is a null pointer")));
    }
    if !pointer.is_aligned() {
        return Err(Refusal::invalid(format!("{name}: is not aligned")));
    }
    Ok(())
}

/// The version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn lightloom_abi_version() -> u32 {
    ABI_VERSION
}

/// Why the last call of this thread failed, until its next call.
#[unsafe(no_mangle)]
pub extern "C" fn lightloom_last_error() -> *const c_char {
    last_error()
}

/// Makes a decider from a description; see the header.
///
/// # Safety
/// `description` has `length` bytes, and `decider` may be written to; either may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_create(
    description: *const c_char,
    length: usize,
    decider: *mut *mut LightloomDecider,
) -> i32 {
    guarded(|| {
        check_pointer(decider.cast_const(), "decider")?;
        let length = length.min(MAX_TEXT_BYTES + 1);
        // SAFETY: the caller says that so many bytes lie there.
        let text = unsafe { values_at(description.cast::<u8>(), length, "description") }?;
        let opened = Box::into_raw(Box::new(LightloomDecider::new(text)?));
        // SAFETY: the pointer was checked, and the caller says that it may be written to.
        unsafe { write_one(decider, opened, "decider") }
    })
}

/// Ends a decider; null is ignored.
///
/// # Safety
/// The pointer is null, or of a decider that nobody uses from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_destroy(decider: *mut LightloomDecider) {
    if decider.is_null() {
        return;
    }
    guarded(|| {
        // SAFETY: `lightloom_create` made it by `Box::into_raw`; nobody uses it from now on.
        drop(unsafe { Box::from_raw(decider) });
        Ok(())
    });
}

/// Number of servers of the region.
///
/// # Safety
/// `decider` is valid, `servers` may be written to; either may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_servers(
    decider: *const LightloomDecider,
    servers: *mut usize,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller passes a valid decider.
        let count = unsafe { decider_at(decider) }?.lock()?.servers();
        // SAFETY: the caller says that it may be written to.
        unsafe { write_one(servers, count, "servers") }
    })
}

/// Decides for upcoming all-to-alls; see the header.
///
/// # Safety
/// `bytes` has `all_to_alls * servers * servers` entries, `hidden_ps` has `all_to_alls`, and
/// `decision` may be written to; any may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_decide(
    decider: *const LightloomDecider,
    bytes: *const u64,
    servers: usize,
    hidden_ps: *const u64,
    all_to_alls: usize,
    decision: *mut LightloomDecision,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller passes a valid decider.
        let mut state = unsafe { decider_at(decider) }?.lock()?;
        let expected = state.servers();
        if servers != expected {
            return Err(Refusal::invalid(format!("servers: expected {expected}, got {servers}")));
        }
        if all_to_alls > MAX_ALL_TO_ALLS {
            return Err(Refusal::invalid(format!(
                "all_to_alls: expected at most {MAX_ALL_TO_ALLS}, got {all_to_alls}"
            )));
        }
        check_pointer(decision.cast_const(), "decision")?;
        let cells = all_to_alls * servers * servers;
        // SAFETY: the caller says that so many lie there.
        let bytes = unsafe { values_at(bytes, cells, "bytes") }?;
        // SAFETY: the caller says that so many lie there.
        let hidden = unsafe { values_at(hidden_ps, all_to_alls, "hidden_ps") }?;
        let decided = LightloomDecision::from(state.decide(bytes, hidden)?);
        // SAFETY: the pointer was checked, and the caller says that it may be written to.
        unsafe { write_one(decision, decided, "decision") }
    })
}

/// Holds what was decided last.
///
/// # Safety
/// `decider` is valid or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_accept(decider: *const LightloomDecider) -> i32 {
    // SAFETY: the caller passes a valid decider.
    guarded(|| unsafe { decider_at(decider) }?.lock()?.accept())
}

/// Holds given circuits.
///
/// # Safety
/// `decider` is valid, and `circuits` has `count` entries; either may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_hold(
    decider: *const LightloomDecider,
    circuits: *const LightloomCircuit,
    count: usize,
) -> i32 {
    guarded(|| {
        if count > MAX_CIRCUITS {
            return Err(Refusal::invalid(format!(
                "count: expected at most {MAX_CIRCUITS}, got {count}"
            )));
        }
        // SAFETY: the caller says that so many lie there.
        let pairs = unsafe { values_at(circuits, count, "circuits") }?;
        let nics = pairs.iter().map(NicCircuit::from).collect();
        // SAFETY: the caller passes a valid decider.
        unsafe { decider_at(decider) }?.lock()?.hold(nics)
    })
}

/// Writes a list of circuits; see the header.
///
/// # Safety
/// `decider` is valid, and `circuits` of `capacity` entries and `count` may be written to; any may
/// be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_list(
    decider: *const LightloomDecider,
    list: u32,
    circuits: *mut LightloomCircuit,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    guarded(|| {
        let kinds = [
            List::Held,
            List::Decided,
            List::Create,
            List::Delete,
            List::Keep,
            List::MovedFrom,
            List::MovedTo,
            List::Lost,
        ];
        let kind = kinds.into_iter().find(|kind| *kind as u32 == list);
        let kind =
            kind.ok_or_else(|| Refusal::invalid(format!("list: there is no list {list}")))?;
        // SAFETY: the caller passes a valid decider.
        let listed = unsafe { decider_at(decider) }?.lock()?.list(kind)?;
        let listed: Vec<LightloomCircuit> = listed.iter().map(LightloomCircuit::from).collect();
        // SAFETY: the caller says that both may be written to.
        unsafe { write_all(&listed, (circuits, capacity), (count, listed.len())) }
    })
}

/// Writes a text that ends in 0; see the header.
///
/// # Safety
/// `decider` is valid, and `buffer` of `capacity` bytes and `length` may be written to; any may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_text(
    decider: *const LightloomDecider,
    text: u32,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> i32 {
    guarded(|| {
        let kinds = [Text::State, Text::Decision, Text::Reason];
        let kind = kinds.into_iter().find(|kind| *kind as u32 == text);
        let kind =
            kind.ok_or_else(|| Refusal::invalid(format!("text: there is no text {text}")))?;
        // SAFETY: the caller passes a valid decider.
        let mut text = unsafe { decider_at(decider) }?.lock()?.text(kind)?.into_bytes();
        text.push(0);
        // SAFETY: the caller says that both may be written to.
        unsafe { write_all(&text, (buffer.cast::<u8>(), capacity), (length, text.len() - 1)) }
    })
}

/// Holds the circuits of a text that `lightloom_text` wrote.
///
/// # Safety
/// `decider` is valid, and `state` has `length` bytes; either may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightloom_restore(
    decider: *const LightloomDecider,
    state: *const c_char,
    length: usize,
) -> i32 {
    guarded(|| {
        let length = length.min(MAX_TEXT_BYTES + 1);
        // SAFETY: the caller says that so many bytes lie there.
        let text = unsafe { values_at(state.cast::<u8>(), length, "state") }?;
        // SAFETY: the caller passes a valid decider.
        unsafe { decider_at(decider) }?.lock()?.restore(text)
    })
}
