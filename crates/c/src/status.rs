//! What every call returns, and the line that says why.

use lightloom_model::Invalid;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether a call did what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It did.
    Ok = 0,
    /// An argument cannot be used.
    Invalid = 1,
    /// A buffer is too small; the size that is needed was written.
    TooSmall = 2,
    /// Another thread uses the decider.
    Busy = 3,
    /// A mistake of the library.
    Internal = 4,
}

/// A status other than `Ok`, and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Refusal {
    /// An argument cannot be used.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { status: Status::Invalid, text: text.into() }
    }
}

impl From<Invalid> for Refusal {
    fn from(Invalid(text): Invalid) -> Self {
        Self::invalid(text)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a call: neither an error nor a panic leaves it but as a status.
pub(crate) fn guarded(act: impl FnOnce() -> Result<(), Refusal>) -> i32 {
    // What a panic leaves behind is at most a cache half filled, which decides nothing.
    let refusal = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => return Status::Ok as i32,
        Ok(Err(refusal)) => refusal,
        Err(_) => {
            let text = "a mistake of lightloom: please report it".into();
            Refusal { status: Status::Internal, text }
        }
    };
    remember(&refusal.text);
    refusal.status as i32
}

fn remember(text: &str) {
    let line = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(line));
}

/// Why the last call of this thread failed.
pub(crate) fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
